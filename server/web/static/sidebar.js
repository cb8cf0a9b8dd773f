// @ts-check
/** The lists of chats: those of this browser, and what else the server has stored. */

import { ApiError, scripts } from "./api.js";
import * as store from "./chats.js";
import { button, direction, drawer, h } from "./dom.js";
import { TEXT } from "./text.js";

/**
 * @typedef {import("./chats.js").Chat} Chat
 * @typedef {import("./stored.js").Entry} Entry
 * @typedef {{
 *   open: (id?: string) => void,
 *   opened: (entry: Entry) => Promise<void>,
 *   remove: (id: string) => void,
 *   leave: () => void,
 *   removeStored: (entry: Entry) => Promise<boolean>,
 *   manage: (id: string) => void,
 * }} Actions
 */

const LEAST_SEARCHED = 5; // fewer chats are seen at once

/** Whether the title or a message of the chat has the words. @param {Chat} chat @param {string} sought in lower case */
function isFound({ title, turns }, sought) {
  if (!sought) return true;
  return [title, ...turns.map((turn) => store.textOf(turn.input))].some((text) => text.toLowerCase().includes(sought));
}

export class Sidebar {
  /** @param {Actions} actions `opened` opens an entry of the server's list; `leave` moves the focus away */
  constructor(actions) {
    this.actions = actions;
    this.search = h("input", { type: "search", placeholder: TEXT.search, "aria-label": TEXT.search, hidden: true });
    this.list = h("ul", { class: "chats" });
    this.stored = h("ul", { class: "chats" });
    this.note = h("p", { class: "hint", role: "status" });
    this.more = button(TEXT.more, () => void this.load(), { class: "quiet", hidden: true });
    /** @type {import("./stored.js").StoredList | null} */
    this.source = null;
    /** @type {import("./stored.js").StoredList | null} what reads its next page */
    this.loading = null;
    const details = h(
      "details",
      { class: "on-server" },
      h("summary", {}, TEXT.onServer),
      h("p", { class: "hint" }, TEXT.onServerHint),
      this.stored,
      this.note,
      this.more,
    );
    details.addEventListener("toggle", () => {
      if (details.open) void this.reload();
    });
    this.details = details;
    this.element = h(
      "aside",
      { class: "side", id: "chats", "aria-label": TEXT.chats },
      button(TEXT.newChat, () => actions.open(), { class: "primary wide" }),
      this.search,
      this.list,
      details,
    );
    this.opener = drawer(this.element, TEXT.chats);
  }

  /** @param {Chat} current @param {Set<string>} running the ids of the chats with answers that are coming */
  draw(current, running) {
    this.search.oninput = () => this.draw(current, running);
    // A chat changes after it was drawn: its buttons know its id only.
    const all = store.chats();
    this.search.hidden = all.length < LEAST_SEARCHED;
    const sought = this.search.hidden ? "" : this.search.value.trim().toLowerCase();
    const entries = all.filter((chat) => isFound(chat, sought)).map(({ id, title: named }) => {
      const isCurrent = id === current.id ? "true" : null;
      const title = named || TEXT.untitled;
      const open = button(title, () => this.actions.open(id), { class: "chat-link", "data-key": `open ${id}`, "aria-current": isCurrent, dir: direction(title) });
      const label = `${TEXT.remove}: ${title}`;
      const mark = running.has(id) ? h("span", { class: "state", role: "img", "aria-label": TEXT.answering }, "●") : null;
      const more = button("⋯", () => this.actions.manage(id), { class: "quiet", "data-key": `manage ${id}`, "aria-label": `${TEXT.manage}: ${title}` });
      const remove = button("×", () => this.actions.remove(id), { class: "quiet", "data-key": `remove ${id}`, "aria-label": label });
      return h("li", {}, open, mark, h("span", { class: "row-tools" }, more, remove));
    });
    this.replace(entries);
  }

  /** Replace the rows. The focus stays where it was. @param {Node[]} rows */
  replace(rows) {
    const focused = /** @type {HTMLElement} */ (document.activeElement);
    const key = this.list.contains(focused) ? focused.dataset.key : "";
    this.list.replaceChildren(...rows);
    if (!key) return;
    this.find(key)?.focus({ preventScroll: true });
    if (!this.find(key)) this.actions.leave();
  }

  /** @param {string} key what a button does, and the id of its chat */
  find(key) {
    return [...this.list.querySelectorAll("button")].find(({ dataset }) => dataset.key === key);
  }

  /** The dialog of a chat has closed. @param {string} id */
  managed(id) {
    this.find(`manage ${id}`)?.focus(); // a new title has replaced the button
  }

  /** Another key is used: it must not show what an earlier one has stored. */
  clearStored() {
    this.source = null;
    this.stored.replaceChildren();
    this.details.open = false;
  }

  async reload() {
    try {
      const { StoredList } = await scripts(import("./stored.js"));
      this.source = new StoredList();
    } catch (error) {
      this.note.textContent = /** @type {Error} */ (error).message;
      return;
    }
    this.stored.replaceChildren();
    await this.load();
  }

  /** Show the next entries of the server's list that are not in this browser's. */
  async load() {
    const { source } = this;
    if (!source || source === this.loading) return; // a second click would read the same page
    this.note.textContent = TEXT.loading;
    this.loading = source;
    try {
      const entries = await source.next();
      if (source !== this.source) return;
      const known = new Set(store.chats().flatMap((chat) => [chat.id, ...chat.turns.map((turn) => turn.response)]));
      this.stored.append(...entries.filter(({ id }) => !known.has(id)).map((entry) => this.row(entry)));
      this.more.hidden = !source.hasMore;
      this.note.textContent = this.stored.children.length || source.hasMore ? "" : TEXT.noneStored;
    } catch (error) {
      this.more.hidden = true;
      const without = error instanceof ApiError && [404, 405].includes(error.status);
      this.note.textContent = without ? TEXT.noList : /** @type {Error} */ (error).message;
    } finally {
      if (source === this.loading) this.loading = null;
    }
  }

  /** @param {Entry} entry */
  row(entry) {
    const open = async () => {
      try {
        await this.actions.opened(entry);
      } catch (error) {
        this.note.textContent = /** @type {Error} */ (error).message;
      }
    };
    const time = new Date(entry.created * 1000).toLocaleString();
    const remove = async () => {
      try {
        if (await this.actions.removeStored(entry)) row.remove();
      } catch (error) {
        this.note.textContent = /** @type {Error} */ (error).message;
      }
    };
    const label = `${TEXT.removeStored}: ${entry.title}`;
    const row = h(
      "li",
      {},
      button(entry.title, () => void open(), { class: "chat-link", title: time, dir: direction(entry.title) }),
      h("span", { class: "row-tools" }, button("×", () => void remove(), { class: "quiet", "aria-label": label })),
    );
    return row;
  }
}
