// @ts-check
/** The chat: the turns of one chat, and the requests that make their answers. */

import { ApiError, json, send } from "./api.js";
import * as store from "./chats.js";
import { Composer } from "./composer.js";
import { announce, button, drawer, h } from "./dom.js";
import { OptionError, Options } from "./options.js";
import { Scroller } from "./scroller.js";
import { Sidebar } from "./sidebar.js";
import { tabShelf } from "./storage.js";
import { TEXT } from "./text.js";

/**
 * @typedef {import("./chats.js").Turn} Turn
 * @typedef {import("./chats.js").Chat} Chat
 * @typedef {import("./answer.js").Answer} Answer
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
    /** @type {AbortController | null} */
    this.running = null;
    /** @type {Turn | null} */
    this.current = null;
    this.sidebar = new Sidebar({
      open: (id) => void this.choose(id),
      opened: (entry) => this.openStored(entry),
      forget: (id) => void this.forget(id),
    });
    this.composer = new Composer({
      send: (text) => this.ask(text),
      stop: () => void this.stop(),
      typing: () => void loadTurns().catch(() => undefined),
    });
    const options = h("aside", { class: "side options-panel", id: "options", "aria-label": TEXT.options }, h("h2", {}, TEXT.options), this.options.element);
    const drawers = h("div", { class: "toggles" }, drawer(this.sidebar.element, TEXT.chats), drawer(options, TEXT.options));
    const middle = h("section", { class: "middle", "aria-label": TEXT.title }, drawers, this.scroller.element, this.scroller.toEnd, this.composer.element);
    this.element = h("div", { class: "chat" }, this.sidebar.element, middle, options);
    this.chat = store.newChat();
    /** @type {Promise<void>} until the turns of the chat are known */
    this.reading = Promise.resolve();
    void this.open(store.chats().find((each) => each.id === tabShelf.get(CURRENT)));
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
    this.sidebar.draw(this.chat);
    this.onname();
  }

  /** The chat of this id as it is now. @param {string | undefined} id */
  known(id) {
    return id === this.chat.id ? this.chat : store.chats().find((each) => each.id === id);
  }

  /** Open what somebody chose from the list. @param {string} [id] */
  async choose(id) {
    if (!this.running || id !== this.chat.id) return this.open(this.known(id));
    this.sidebar.element.hidePopover(); // its answer goes on
    this.composer.focus();
  }

  /** Open a chat; a new one without. @param {Chat} [chat] */
  async open(chat) {
    this.leave();
    this.reading = Promise.resolve();
    this.chat = chat ?? store.newChat();
    tabShelf.set(CURRENT, this.chat.id);
    this.sidebar.element.hidePopover();
    this.composer.focus();
    let problem = "";
    if (chat?.conversation) {
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
    const chat = store.chats().find(({ id }) => id === entry.id) ?? (await chatOf(entry));
    if (this.chat !== shown || this.running !== running) return; // somebody did not wait for it
    store.save(chat);
    await this.open(chat);
  }

  /** Stop to follow what runs here; a background answer goes on. */
  leave() {
    this.running?.abort();
    this.setRunning(null, null);
  }

  /** @param {AbortController | null} controller @param {Turn | null} turn */
  setRunning(controller, turn) {
    this.running = controller;
    this.current = turn;
    this.composer.setRunning(Boolean(controller));
  }

  async draw() {
    const { chat } = this;
    this.list();
    const path = store.path(chat);
    if (!path.length) return this.turns.replaceChildren(this.welcome());
    const { placeTurn } = await loadTurns();
    if (chat !== this.chat) return; // another one was opened in the meantime
    this.turns.replaceChildren();
    if (chat.conversation) this.turns.append(h("p", { class: "notice" }, TEXT.conversationNote));
    const shown = path.map((turn, index) => this.show(turn, placeTurn(this, turn), index === path.length - 1));
    this.scroller.toBottom();
    await Promise.all(shown);
  }

  /** @param {string} id */
  async forget(id) {
    if (!confirm(TEXT.removeAsk)) return;
    const chat = this.known(id);
    if (!chat) return this.sidebar.draw(this.chat); // another tab has removed it
    store.remove(chat.id);
    if (chat.id === this.chat.id) void this.open();
    else this.sidebar.draw(this.chat);
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

  /** Show a turn's answer, or begin to follow it. @param {Turn} turn @param {Answer} shown @param {boolean} isLast */
  async show(turn, shown, isLast) {
    if (turn.output) shown.show(store.responseOf(turn), isLast);
    else if (turn.error) shown.fail(turn.error);
    else if (turn.response) await this.fetch(turn, shown, isLast);
    else if (turn.ended) shown.say(TEXT.interrupted);
    else shown.fail(TEXT.lost);
  }

  /** @param {Turn} turn @param {Answer} shown @param {boolean} isLast */
  async fetch(turn, shown, isLast) {
    try {
      const response = await json(`v1/responses/${turn.response}`);
      if (!this.turns.contains(shown.element)) return; // another chat or version was opened
      if (["queued", "in_progress"].includes(response.status)) {
        void this.follow(turn, shown, `v1/responses/${turn.response}?stream=true`);
      } else {
        shown.show(response, isLast);
      }
    } catch (error) {
      const gone = error instanceof ApiError && error.status === 404;
      shown.fail(gone ? TEXT.expired : /** @type {Error} */ (error).message);
    }
  }

  /**
   * Begin a turn after `parent`. False if an option cannot be read, or the page is of another version.
   * @param {any[]} input @param {string | null} parent @returns {Promise<boolean>}
   */
  async begin(input, parent) {
    const { chat } = this;
    if (this.running) return false;
    const fields = this.readOptions();
    if (!fields) return false;
    let scripts;
    try {
      scripts = await loadTurns();
    } catch {
      this.options.fail(navigator.onLine ? TEXT.noScripts : TEXT.unreachable);
      return false;
    }
    if (chat !== this.chat || this.running) return false; // somebody did not wait for the scripts
    const turn = store.addTurn(chat, parent, input);
    const previous = store.lastResponse(chat, parent);
    const before = chat.conversation ? { conversation: chat.conversation } : previous && { previous_response_id: previous };
    turn.request = { ...fields, input, ...before };
    turn.background = Boolean(fields.background);
    store.save(chat);
    this.keepPath(turn);
    this.composer.focus(); // the button that began it may be gone
    const shown = scripts.placeTurn(this, turn);
    this.scroller.toBottom();
    void this.follow(turn, shown);
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

  /**
   * Follow a stream to its end: that of a new request, or of one that the server works on.
   * @param {Turn} turn @param {Answer} shown @param {string} [resumed]
   */
  async follow(turn, shown, resumed) {
    const { chat } = this; // another one may be opened before the end
    const controller = new AbortController();
    this.setRunning(controller, turn);
    shown.reset();
    try {
      const before = store.path({ ...chat, leaf: turn.parent });
      const { answerEvents } = await import("./stream.js");
      for await (const batch of answerEvents(turn, before, controller.signal, resumed)) this.apply(chat, turn, shown, batch);
      if (!shown.ended) throw new ApiError(shown.problem || TEXT.lost, 0);
    } catch (error) {
      if (this.options.withoutTokens(turn.request, error)) return void this.follow(turn, shown);
      shown.cut();
      if (!controller.signal.aborted) this.fail(chat, turn, shown, /** @type {Error} */ (error));
      else if (!turn.background || turn.ended) shown.say(TEXT.interrupted);
    }
    if (this.running === controller) this.setRunning(null, null);
  }

  /** @param {Chat} chat @param {Turn} turn @param {Answer} shown @param {any[]} batch */
  apply(chat, turn, shown, batch) {
    for (const event of batch) {
      shown.apply(event);
      if (event.type === "response.created") {
        turn.response = event.response.id;
        store.save(chat);
      }
    }
    const isKept = turn.response || turn.output;
    if (!shown.ended || (turn.ended && isKept)) return;
    turn.ended = true;
    turn.status = shown.response.status;
    // Chat Completions are not stored on the server.
    if (!turn.response) turn.output = shown.response.output;
    if (shown.response.status === "failed") turn.error = shown.response.error?.message ?? TEXT.failed;
    store.save(chat);
    if (chat === this.chat) announce(turn.error ?? (shown.outcome || TEXT.finished));
  }

  /** @param {Chat} chat @param {Turn} turn @param {Answer} shown @param {Error} error */
  fail(chat, turn, shown, error) {
    shown.fail(error.message);
    // A response that the server has can be read again after a reload.
    if (!turn.response) turn.error = error.message;
    store.save(chat);
  }

  async stop() {
    const { current, running } = this;
    if (current?.background && current.response) {
      // The stream ends with the response, and says so.
      await send(`v1/responses/${current.response}/cancel`, { method: "POST" }).catch(() => running?.abort());
    } else if (current) {
      current.ended ||= !current.response; // of what the server has, it says how it ended
      store.save(this.chat);
      running?.abort();
    }
  }
}
