// @ts-check
/** The chat: the turns of one chat, and the requests that make their answers. */

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
const MOST_RUNS = 4; // a browser has six connections to a server

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
    this.beginning = false;
    this.sidebar = new Sidebar({
      open: (id) => void this.open(this.known(id)),
      opened: (entry) => this.openStored(entry),
      forget: (id) => void this.forget(id),
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
    const drawers = h("div", { class: "toggles" }, drawer(this.sidebar.element, TEXT.chats), drawer(options, TEXT.options));
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

  /** Store a chat, and say what it costs. @param {Chat} chat */
  save(chat) {
    const dropped = store.save(chat);
    if (dropped) this.options.fail(TEXT.dropped(dropped));
  }

  /** Another tab has changed the chats: show it, unless that would disturb what goes on here. */
  async changedElsewhere() {
    const { chat } = this;
    if (store.isRemoved(chat.id)) return this.close(chat.id);
    const stored = store.chats().find(({ id }) => id === chat.id);
    chat.title = stored?.title ?? chat.title;
    this.list();
    if (!stored || stored.conversation || this.runsOf(chat.id).length || store.isSame(stored, chat)) return;
    const last = store.path(stored).at(-1);
    const isBegun = last?.response || last?.error || last?.output || last?.ended;
    const isTyping = [...this.turns.querySelectorAll("textarea")].some(({ value }) => value);
    if (!isBegun || isTyping) return;
    this.chat = stored;
    await this.draw();
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
      const reading = import("./stored.js").then(({ readConversation }) => readConversation(chat));
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
    const { chatOf } = await import("./stored.js");
    // This browser may know more of it: turns that followed, and branches.
    const chat = this.known(entry.id) ?? (await chatOf(entry));
    if (this.chat !== shown || this.running !== running) return; // somebody did not wait for it
    store.restore(chat.id);
    this.save(chat);
    await this.open(chat);
  }

  /** Delete what the server has stored, if somebody confirms it. @param {import("./stored.js").Entry} entry @returns whether it is gone */
  async removeStored(entry) {
    if (!confirm(TEXT.removeStoredAsk)) return false;
    const { chatOf } = await import("./stored.js");
    const left = await store.removeFromServer(await chatOf(entry));
    if (left) this.options.fail(TEXT.notRemoved(left));
    return !left;
  }

  /** Show the title of a chat, and what it can become. @param {string} id */
  async manage(id) {
    const { manageChat } = await import("./manage.js");
    const chat = this.known(id);
    if (!chat) return this.list(); // another tab has removed it
    manageChat(chat, (title) => {
      chat.title = title;
      this.save(chat);
      this.list();
    });
  }

  async draw() {
    const { chat } = this;
    this.showRuns();
    const path = store.path(chat);
    if (!path.length) return this.turns.replaceChildren(this.welcome());
    const { showTurn } = await loadTurns();
    if (chat !== this.chat) return; // another one was opened in the meantime
    this.turns.replaceChildren();
    if (chat.conversation) this.turns.append(h("p", { class: "notice" }, TEXT.conversationNote));
    const shown = path.map((turn, index) => showTurn(this, turn, index === path.length - 1));
    this.scroller.toBottom();
    await Promise.all(shown);
  }

  /** @param {string} id */
  async forget(id) {
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
      button(text, () => {
        this.composer.set(text);
        void this.composer.submit();
      }, { class: "suggestion" });
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
    if (this.beginning) return false; // the second click of two
    this.beginning = true;
    try {
      return await this.beginTurn(input, parent);
    } finally {
      this.beginning = false;
    }
  }

  /** @param {any[]} input @param {string | null} parent @returns {Promise<boolean>} */
  async beginTurn(input, parent) {
    const { chat, running } = this;
    const fields = this.readOptions();
    if (!fields) return false;
    let scripts;
    try {
      scripts = await loadTurns();
    } catch {
      this.options.fail(navigator.onLine ? TEXT.noScripts : `${TEXT.unreachable} ${TEXT.kept}`);
      return false;
    }
    if (running && !running.shown.ended) await running.stop();
    await running?.finished;
    if (chat !== this.chat) return false; // somebody did not wait
    if (this.runs.size >= MOST_RUNS) {
      this.options.fail(TEXT.manyRuns(MOST_RUNS));
      return false;
    }
    const unseen = store.unseenTurns(chat, parent);
    const turn = store.addTurn(chat, parent, input);
    if (unseen.length) turn.unseen = unseen;
    const previous = store.lastResponse(chat, parent);
    const before = chat.conversation ? { conversation: chat.conversation } : previous && { previous_response_id: previous };
    turn.request = { ...fields, input: store.sentInput(chat, turn), ...before };
    turn.background = Boolean(fields.background);
    this.save(chat);
    this.keepPath(turn);
    this.composer.focus(); // the button that began it may be gone
    scripts.startTurn(this, turn);
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

  /** Remove from the page what is not before `turn`. @param {Turn} turn */
  keepPath(turn) {
    this.list();
    this.turns.querySelector(".welcome")?.remove();
    const ids = new Set(store.path(this.chat).map((each) => each.id));
    for (const element of [...this.turns.children]) {
      if (element.id && !ids.has(element.id)) element.remove();
    }
    const before = turn.parent && document.getElementById(turn.parent);
    if (before) for (const each of before.querySelectorAll(".reply")) each.remove();
  }
}
