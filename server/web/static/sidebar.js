// @ts-check
/** The lists of chats: those of this browser, and what else the server has stored. */

import { ApiError } from "./api.js";
import * as store from "./chats.js";
import { button, direction, h } from "./dom.js";
import { TEXT } from "./text.js";

/**
 * @typedef {import("./chats.js").Chat} Chat
 * @typedef {import("./stored.js").Entry} Entry
 * @typedef {{open: (id?: string) => void, opened: (entry: Entry) => Promise<void>, forget: (id: string) => void}} Actions
 */

export class Sidebar {
  /** @param {Actions} actions `opened` opens an entry of the server's list */
  constructor(actions) {
    this.actions = actions;
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
      this.list,
      details,
    );
  }

  /** @param {Chat} current */
  draw(current) {
    // A chat changes after it was drawn: its buttons know its id only.
    const entries = store.chats().map(({ id, title: named }) => {
      const isCurrent = id === current.id ? "true" : null;
      const title = named || TEXT.untitled;
      const open = button(title, () => this.actions.open(id), { class: "chat-link", "aria-current": isCurrent, dir: direction(title) });
      const label = `${TEXT.remove}: ${title}`;
      return h("li", {}, open, button("×", () => this.actions.forget(id), { class: "quiet", "aria-label": label }));
    });
    this.list.replaceChildren(...entries);
  }

  /** Another key is used: it must not show what an earlier one has stored. */
  forget() {
    this.source = null;
    this.stored.replaceChildren();
    this.details.open = false;
  }

  async reload() {
    const { StoredList } = await import("./stored.js");
    this.source = new StoredList();
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
    return h("li", {}, button(entry.title, () => void open(), { class: "chat-link", title: time, dir: direction(entry.title) }));
  }
}
