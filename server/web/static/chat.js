// @ts-check
/** The chat: the turns of one chat, and the requests that make their answers. */

import { scripts } from "./api.js";
import * as store from "./chats.js";
import { Composer } from "./composer.js";
import { button, drawer, h } from "./dom.js";
import { OptionError, Options } from "./options.js";
import { Scroller } from "./scroller.js";
import { Sidebar } from "./sidebar.js";
import { tabShelf } from "./storage.js";
import { TEXT } from "./text.js";

/**
 * @typedef {import("./chats.js").Turn} Turn
 * @typedef {import("./chats.js").Chat} Chat
 * @typedef {import("./run.js").Run} Run
 */

const CURRENT = "gpt-oss-chat";

/** The scripts that show turns. They are not needed before the first one. */
const loadTurns = () => import("./turn.js");

export class ChatView {
  /** @param {() => void} onname is called when the chat has another title */
  constructor(onname) {
    this.onname = onname;
    this.options = new Options(() => this.composer.box.value);
    this.turns = h("div", { class: "turns" });
    this.scroller = new Scroller(this.turns, TEXT.turns);
    /** @type {Map<string, Run>} what follows answers, by the ids of their turns */
    this.runs = new Map();
    /** @type {Set<string>} the ids of the chats in which a turn is about to begin */
    this.beginning = new Set();
    this.sidebar = new Sidebar({
      open: (id) => void this.open(this.known(id)),
      opened: (entry) => this.openStored(entry),
      remove: (id) => void this.remove(id),
      leave: () => this.composer.focus(),
      removeStored: (entry) => this.removeStored(entry),
      manage: (id) => void this.manage(id),
    });
    this.composer = new Composer({
      send: (text) => this.ask(text),
      stop: () => void this.running?.stop(),
      typing: () => void loadTurns().catch(() => undefined),
      // A new chat has no name before its first turn: what is typed waits for the next one.
      name: () => (this.chat.turns.length ? this.chat.id : ""),
    });
    const options = h("aside", { class: "side options-panel", id: "options", "aria-label": TEXT.options }, h("h2", {}, TEXT.options), this.options.element);
    const drawers = h("div", { class: "toggles" }, this.sidebar.opener, drawer(options, TEXT.options));
    const middle = h("section", { class: "middle", "aria-label": TEXT.title }, drawers, this.scroller.element, this.scroller.toEnd, this.composer.element);
    this.element = h("div", { class: "chat" }, this.sidebar.element, middle, options);
    this.chat = store.newChat();
    /** @type {Promise<void>} until the turns of the chat are known */
    this.reading = Promise.resolve();
    void this.open(store.chats().find((each) => each.id === tabShelf.get(CURRENT)));
    addEventListener("storage", ({ key }) => {
      if (key === store.CHATS) void this.changedElsewhere();
    });
  }

  /** The view is on the page. */
  shown() {
    this.scroller.restore();
    this.composer.focus();
  }

  get title() {
    return this.chat.title || TEXT.newChat;
  }

  /** The list of chats has changed, or which of them is shown. */
  list() {
    this.sidebar.draw(this.chat, new Set([...this.runs.values()].map((run) => run.chat.id)));
    this.onname();
  }

  /** The run of the last turn that is shown. */
  get running() {
    return this.runs.get(this.chat.leaf ?? "");
  }

  /** A run has begun or ended, or other turns are shown. */
  showRuns() {
    this.composer.setRunning(Boolean(this.running));
    this.list();
  }

  /** The runs of a chat. @param {string | undefined} id */
  runsOf(id) {
    return [...this.runs.values()].filter((run) => run.chat.id === id);
  }

  /** The chat of this id as it is now. @param {string | undefined} id */
  known(id) {
    if (id === this.chat.id) return this.chat;
    return this.runsOf(id)[0]?.chat ?? store.chats().find((each) => each.id === id);
  }

  /** Store a chat. @param {Chat} chat @param {{isMoved: boolean}} options */
  save(chat, options) {
    this.sayDropped(store.save(chat, options));
  }

  /** @param {number} count how many chats the browser's storage has no room for */
  sayDropped(count) {
    if (count) this.options.fail(TEXT.dropped(count));
  }

  /** Another tab has changed the chats: show it, unless that would disturb what goes on here. */
  async changedElsewhere() {
    const { chat } = this;
    if (store.isRemoved(chat.id)) {
      const typed = this.composer.box.value;
      void this.close(chat.id);
      if (typed) this.composer.set(typed);
      return;
    }
    const all = new Map(store.chats().map((each) => [each.id, each]));
    for (const each of [chat, ...[...this.runs.values()].map((run) => run.chat)]) each.title = all.get(each.id)?.title ?? each.title;
    this.list();
    const stored = all.get(chat.id);
    if (!stored || stored.conversation || this.runsOf(chat.id).length) return;
    const last = store.path(stored).at(-1);
    const isBegun = last?.response || last?.error || last?.output || last?.ended;
    const isTyping = [...this.turns.querySelectorAll("textarea")].some(({ value }) => value);
    if (!isBegun || isTyping) return;
    const before = store.states(chat);
    store.addTurnsOfOthers(chat, stored);
    chat.leaf = stored.leaf;
    const now = store.states(chat);
    const kept = now.findIndex((state, index) => state !== before[index]);
    if (kept >= 0 || now.length < before.length) await this.draw(kept < 0 ? now.length - 1 : kept);
  }

  /** A chat is removed: end what runs of it, and show a new one instead. @param {string} id */
  close(id) {
    for (const run of this.runsOf(id)) run.controller.abort();
    return id === this.chat.id ? this.open() : this.list();
  }

  /** Open a chat; a new one without. @param {Chat} [chat] */
  async open(chat) {
    this.reading = Promise.resolve();
    this.chat = chat ?? store.newChat();
    tabShelf.set(CURRENT, this.chat.id);
    this.sidebar.element.hidePopover();
    this.composer.read();
    this.composer.focus();
    let problem = "";
    if (chat?.conversation && !this.runsOf(chat.id).length) {
      // The buttons of another chat's turns would act on this one.
      this.turns.replaceChildren(h("p", { class: "notice" }, TEXT.loading));
      this.showRuns();
      const reading = scripts(import("./stored.js")).then(({ readConversation }) => readConversation(chat));
      this.reading = reading.catch((error) => void (problem = error.message));
      await this.reading;
      if (chat !== this.chat) return; // another one was opened in the meantime
    }
    await this.draw();
    const notice = h("p", { class: "notice error", role: "alert" }, problem);
    if (problem && chat === this.chat) this.turns.replaceChildren(notice);
  }

  /** Send what somebody typed, after the turns that the chat has. @param {string} text */
  async ask(text) {
    const { chat } = this;
    await this.reading;
    // Where another chat was opened in the meantime, the text stays in its box.
    return chat === this.chat && this.begin([{ role: "user", content: text }], this.chat.leaf);
  }

  /** Open what the server has stored. @param {import("./stored.js").Entry} entry */
  async openStored(entry) {
    const { chat: shown, running } = this;
    const { chatOf } = await scripts(import("./stored.js"));
    // This browser may know more of it: turns that followed, and branches.
    const chat = this.known(entry.id) ?? (await chatOf(entry));
    if (this.chat !== shown || this.running !== running) return; // somebody did not wait for it
    store.restore(chat.id);
    this.save(chat, { isMoved: false });
    await this.open(chat);
  }

  /** Delete what the server has stored, if somebody confirms it. @param {import("./stored.js").Entry} entry @returns whether it is gone */
  async removeStored(entry) {
    if (!confirm(TEXT.removeStoredAsk)) return false;
    const { chatOf } = await scripts(import("./stored.js"));
    const left = await store.removeFromServer(await chatOf(entry));
    if (left) this.options.fail(TEXT.notRemoved(left));
    return !left;
  }

  /** Show the title of a chat, and what it can become. @param {string} id */
  async manage(id) {
    const dialogs = await this.options.loaded(import("./manage.js"));
    if (!dialogs) return;
    const chat = this.known(id);
    if (!chat) return this.list(); // another tab has removed it
    const shown = dialogs.manageChat(chat, (title) => {
      this.sayDropped(store.rename(id, title));
      const now = this.known(id);
      if (now) now.title = title;
      this.list();
    });
    shown.addEventListener("close", () => this.sidebar.managed(id));
  }

  /** Show the turns of the chat. @param {number} [kept] how many of them stay as they are */
  async draw(kept = 0) {
    const { chat } = this;
    this.showRuns();
    const path = store.path(chat);
    if (!path.length) return this.turns.replaceChildren(this.welcome());
    const turns = await this.options.loaded(loadTurns());
    if (chat !== this.chat) return; // another one was opened in the meantime
    if (kept) this.keepOnly(path.slice(0, kept));
    else this.turns.replaceChildren(...(chat.conversation ? [h("p", { class: "notice" }, TEXT.conversationNote)] : []));
    const shown = path.slice(kept).map((turn) => turns?.showTurn(this, turn, turn === path.at(-1)));
    if (!kept || this.scroller.atEnd) this.scroller.toBottom();
    await Promise.all(shown);
  }

  /** @param {string} id */
  async remove(id) {
    if (!confirm(TEXT.removeAsk)) return;
    const chat = this.known(id);
    if (!chat) return this.list(); // another tab has removed it
    store.remove(chat.id);
    this.composer.forget(chat.id);
    void this.close(chat.id);
    const left = await store.removeFromServer(chat);
    if (left) this.options.fail(TEXT.notRemoved(left));
  }

  welcome() {
    const suggest = (/** @type {string} */ text) =>
      button(text, () => void this.ask(text), { class: "suggestion" });
    return h(
      "div",
      { class: "welcome" },
      h("h2", {}, TEXT.emptyTitle),
      h("p", {}, TEXT.emptyText),
      h("div", { class: "suggestions" }, ...TEXT.suggestions.map(suggest)),
    );
  }

  /**
   * Begin a turn after `parent`. What is answered in view ends first. False if an option cannot be read,
   * or the page is of another version.
   * @param {any[]} input @param {string | null} parent @returns {Promise<boolean>}
   */
  async begin(input, parent) {
    const { id } = this.chat;
    if (this.beginning.has(id)) return false; // the second click of two
    this.beginning.add(id);
    try {
      return await this.beginTurn(input, parent);
    } finally {
      this.beginning.delete(id);
    }
  }

  /** @param {any[]} input @param {string | null} parent @returns {Promise<boolean>} */
  async beginTurn(input, parent) {
    const { chat, running } = this;
    const fields = this.readOptions();
    if (!fields) return false;
    const turns = await this.options.loaded(loadTurns());
    if (!turns) return false;
    if (running && !running.shown.ended) await running.stop();
    await running?.finished;
    await turns.checked();
    const others = await turns.runsElsewhere();
    if (chat !== this.chat) return false; // somebody did not wait
    if (!turns.makeRoom(this.runs, others)) {
      this.options.fail(TEXT.manyRuns(turns.MOST_RUNS));
      return false;
    }
    const turn = store.addTurn(chat, parent, input);
    store.addRequest(chat, turn, fields);
    this.save(chat, { isMoved: true });
    this.list();
    this.keepOnly(store.path(chat).slice(0, -1));
    this.composer.focus(); // the button that began it may be gone
    turns.startTurn(this, turn);
    return true;
  }

  /** The options of a request; null if one cannot be read, which is said. */
  readOptions() {
    try {
      const fields = this.options.request();
      this.options.fail("");
      return fields;
    } catch (error) {
      if (!(error instanceof OptionError)) throw error;
      this.options.fail(error.message);
      return null;
    }
  }

  /** Remove other turns from the page. Another one follows these. @param {Turn[]} turns */
  keepOnly(turns) {
    this.turns.querySelector(".welcome")?.remove();
    const ids = new Set(turns.map(({ id }) => id));
    for (const element of [...this.turns.children]) {
      if (element.id && !ids.has(element.id)) element.remove();
    }
    for (const each of this.turns.querySelectorAll(".reply")) each.remove();
  }
}
