// @ts-check
/** The chat: a list of chats, the turns of one of them, the message box, and the options. */

import { Answer, question } from "./answer.js";
import { ApiError, events, json, send } from "./api.js";
import * as store from "./chats.js";
import { announce, button, h } from "./dom.js";
import { OptionError, Options, RECORD } from "./options.js";
import { TEXT } from "./text.js";

/** @typedef {import("./chats.js").Turn} Turn */

const DRAFT = "gpt-oss-draft";
const CURRENT = "gpt-oss-chat";

export class ChatView {
  constructor() {
    this.options = new Options();
    this.turns = h("div", { class: "turns" });
    this.list = h("ul", { class: "chats" });
    this.scroller = h("div", { class: "scroller", tabindex: 0, "aria-label": TEXT.title }, this.turns);
    /** @type {AbortController | null} */
    this.running = null;
    /** @type {Turn | null} */
    this.current = null;
    this.box = this.makeBox();
    this.sender = h("button", { class: "primary" }, TEXT.send);
    this.composer = this.makeComposer();
    this.element = h("div", { class: "chat" }, this.sidebar(), this.middle(), this.panel());
    /** @type {import("./chats.js").Chat} */
    this.chat = store.newChat();
    this.open(store.chats().find((each) => each.id === sessionStorage.getItem(CURRENT)));
  }

  sidebar() {
    return h(
      "aside",
      { class: "side", id: "chats", "aria-label": TEXT.chats },
      button(TEXT.newChat, () => this.open(), { class: "primary wide" }),
      this.list,
    );
  }

  middle() {
    const toggles = h(
      "div",
      { class: "toggles" },
      button(TEXT.chats, () => this.element.classList.toggle("show-chats"), { class: "quiet" }),
      button(TEXT.options, () => this.element.classList.toggle("show-options"), { class: "quiet" }),
    );
    return h("section", { class: "middle", "aria-label": TEXT.title }, toggles, this.scroller, this.composer);
  }

  panel() {
    const heading = h("h2", {}, TEXT.options);
    return h("aside", { class: "side options-panel", "aria-label": TEXT.options }, heading, this.options.element);
  }

  makeBox() {
    return h("textarea", {
      "aria-label": TEXT.message,
      placeholder: TEXT.placeholder,
      rows: 1,
      value: sessionStorage.getItem(DRAFT) ?? "",
      oninput: () => this.draft(),
      onkeydown: (/** @type {KeyboardEvent} */ event) => {
        if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
          event.preventDefault();
          if (!this.running) this.submit();
        }
      },
    });
  }

  makeComposer() {
    const form = h("form", { class: "composer" }, this.box, this.sender);
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      if (this.running) void this.stop();
      else this.submit();
    });
    return form;
  }

  draft() {
    sessionStorage.setItem(DRAFT, this.box.value);
  }

  submit() {
    const text = this.box.value;
    if (!text.trim()) return;
    const sent = this.begin([{ role: "user", content: text }], this.chat.leaf);
    if (!sent) return;
    this.box.value = "";
    this.draft();
  }

  /** Open a chat; a new one without. @param {import("./chats.js").Chat} [chat] */
  open(chat) {
    this.leave();
    this.chat = chat ?? store.newChat();
    sessionStorage.setItem(CURRENT, this.chat.id);
    this.draw();
    this.element.classList.remove("show-chats");
    this.box.focus({ preventScroll: true });
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
    this.sender.textContent = controller ? TEXT.stop : TEXT.send;
    this.sender.classList.toggle("stop", Boolean(controller));
  }

  draw() {
    this.drawList();
    const path = store.path(this.chat);
    this.turns.replaceChildren();
    if (!path.length) this.turns.append(this.welcome());
    path.forEach((turn, index) => this.show(turn, index === path.length - 1));
    this.scroller.scrollTop = this.scroller.scrollHeight;
  }

  drawList() {
    const entries = store.chats().map((chat) => {
      const current = chat.id === this.chat.id ? "true" : null;
      return h(
        "li",
        {},
        button(chat.title || "Chat", () => this.open(chat), { class: "chat-link", "aria-current": current }),
        button("×", () => this.forget(chat), { class: "quiet", "aria-label": `${TEXT.remove}: ${chat.title}` }),
      );
    });
    this.list.replaceChildren(...entries);
  }

  /** @param {import("./chats.js").Chat} chat */
  async forget(chat) {
    if (!confirm(TEXT.removeAsk)) return;
    store.remove(chat.id);
    if (chat.id === this.chat.id) this.open();
    else this.drawList();
    const stored = chat.turns.flatMap((turn) => turn.response ?? []);
    const gone = (/** @type {string} */ id) => send(`v1/responses/${id}`, { method: "DELETE", ask: false });
    await Promise.allSettled(stored.map(gone));
  }

  welcome() {
    const suggest = (/** @type {string} */ text) =>
      button(text, () => {
        this.box.value = text;
        this.submit();
      }, { class: "suggestion" });
    return h(
      "div",
      { class: "welcome" },
      h("h1", {}, TEXT.emptyTitle),
      h("p", {}, TEXT.emptyText),
      h("div", { class: "suggestions" }, ...TEXT.suggestions.map(suggest)),
    );
  }

  /** Show a turn, and follow or fetch its answer. @param {Turn} turn @param {boolean} isLast */
  show(turn, isLast) {
    const shown = this.place(turn);
    if (turn.error) shown.fail(turn.error);
    else if (turn.response) void this.fetch(turn, shown, isLast);
    else shown.fail(TEXT.lost);
  }

  /** The elements of a turn. @param {Turn} turn @returns {Answer} */
  place(turn) {
    this.turns.querySelector(".welcome")?.remove();
    const answer = new Answer({
      approve: (item, approve) => {
        const input = { type: "mcp_approval_response", approval_request_id: item.id, approve };
        this.begin([input], turn.id);
      },
      results: (outputs) => this.begin(outputs, turn.id),
    });
    const isText = turn.input.every((item) => typeof item.content === "string");
    const asked = question(store.textOf(turn.input), (text) =>
      this.begin([{ role: "user", content: text }], turn.parent),
    );
    const tools = h("div", { class: "turn-tools" });
    if (isText) tools.append(button(TEXT.edit, asked.edit, { class: "quiet" }));
    tools.append(
      button(TEXT.retry, () => this.begin(turn.input, turn.parent), { class: "quiet" }),
      button(TEXT.inspect, () => this.inspect(turn), { class: "quiet" }),
      button(TEXT.code, () => this.showCode(turn), { class: "quiet" }),
      ...this.switcher(turn),
    );
    const title = h("h2", { class: "sr-only" }, `${TEXT.you}: ${store.textOf(turn.input).slice(0, 80)}`);
    const element = h("article", { class: "turn", id: turn.id }, title, asked.element, answer.element, tools);
    this.turns.append(element);
    return answer;
  }

  /** Buttons to other versions of the turn. @param {Turn} turn @returns {Node[]} */
  switcher(turn) {
    const all = store.versions(this.chat, turn);
    if (all.length < 2) return [];
    const at = all.indexOf(turn);
    const go = (/** @type {number} */ to) => () => {
      this.leave();
      this.chat.leaf = store.newestBelow(this.chat, all[to]).id;
      store.save(this.chat);
      this.draw();
    };
    return [
      button("‹", go(at - 1), { class: "quiet", "aria-label": TEXT.previous, disabled: at === 0 }),
      h("span", { class: "versions" }, `${at + 1} / ${all.length}`),
      button("›", go(at + 1), { class: "quiet", "aria-label": TEXT.next, disabled: at === all.length - 1 }),
    ];
  }

  /** @param {Turn} turn @param {Answer} shown @param {boolean} isLast */
  async fetch(turn, shown, isLast) {
    try {
      const response = await json(`v1/responses/${turn.response}`);
      if (["queued", "in_progress"].includes(response.status)) {
        await this.follow(turn, shown, `v1/responses/${turn.response}?stream=true`);
      } else {
        shown.show(response, isLast);
        if (isLast) this.toBottom();
      }
    } catch (error) {
      const gone = error instanceof ApiError && error.status === 404;
      shown.fail(gone ? TEXT.expired : /** @type {Error} */ (error).message);
    }
  }

  /**
   * Begin a turn after `parent`. False if an option cannot be read.
   * @param {any[]} input @param {string | null} parent @returns {boolean}
   */
  begin(input, parent) {
    if (this.running) return false;
    let fields;
    try {
      fields = this.options.request();
      this.options.error.hidden = true;
    } catch (error) {
      if (!(error instanceof OptionError)) throw error;
      this.options.error.textContent = error.message;
      this.options.error.hidden = false;
      this.element.classList.add("show-options");
      announce(error.message);
      return false;
    }
    const turn = store.addTurn(this.chat, parent, input);
    const previous = this.lastResponse(parent);
    turn.request = { ...fields, input, ...(previous && { previous_response_id: previous }) };
    turn.background = Boolean(fields.background);
    store.save(this.chat);
    this.drawPath(turn);
    const shown = this.place(turn);
    this.toBottom();
    void this.follow(turn, shown);
    return true;
  }

  /** Remove from the page what is not before `turn`. @param {Turn} turn */
  drawPath(turn) {
    this.drawList();
    const ids = new Set(store.path(this.chat).map((each) => each.id));
    for (const element of [...this.turns.children]) {
      if (element.id && !ids.has(element.id)) element.remove();
    }
    const before = turn.parent && document.getElementById(turn.parent);
    if (before) for (const each of before.querySelectorAll(".results, .buttons")) each.remove();
  }

  /** The response to continue: the nearest one that was stored as complete. @param {string | null} id */
  lastResponse(id) {
    for (let turn = store.turnOf(this.chat, id); turn; turn = store.turnOf(this.chat, turn.parent)) {
      if (turn.response && !turn.error) return turn.response;
    }
    return null;
  }

  /**
   * Follow a stream to its end: that of a new request, or of one that the server works on.
   * @param {Turn} turn @param {Answer} shown @param {string} [resumed]
   */
  async follow(turn, shown, resumed) {
    const controller = new AbortController();
    this.setRunning(controller, turn);
    shown.reset();
    try {
      const { signal } = controller;
      const answer = await (resumed
        ? send(resumed, { signal })
        : send("v1/responses", { body: turn.request, signal }));
      for await (const batch of events(answer)) this.apply(turn, shown, batch);
      if (!shown.ended) throw new ApiError(TEXT.lost, 0);
    } catch (error) {
      if (this.withoutTokens(turn, error)) return void this.follow(turn, shown);
      if (!controller.signal.aborted) this.fail(turn, shown, /** @type {Error} */ (error));
      else if (!turn.background) shown.say(TEXT.interrupted);
    }
    if (this.running === controller) this.setRunning(null, null);
  }

  /** @param {Turn} turn @param {Answer} shown @param {any[]} batch */
  apply(turn, shown, batch) {
    const { scroller } = this;
    const atEnd = scroller.scrollHeight - scroller.scrollTop - scroller.clientHeight < 80;
    for (const event of batch) {
      shown.apply(event);
      if (event.type === "response.created") {
        turn.response = event.response.id;
        store.save(this.chat);
      }
    }
    if (shown.ended && !turn.ended) {
      turn.ended = true;
      if (shown.response.status === "failed") turn.error = shown.response.error?.message ?? TEXT.failed;
      store.save(this.chat);
      announce(TEXT.model);
    }
    if (atEnd) requestAnimationFrame(() => this.toBottom());
  }

  toBottom() {
    this.scroller.scrollTop = this.scroller.scrollHeight;
  }

  /** @param {Turn} turn @param {Answer} shown @param {Error} error */
  fail(turn, shown, error) {
    shown.fail(error.message);
    // A response that the server has can be read again after a reload.
    if (!turn.response) turn.error = error.message;
    store.save(this.chat);
  }

  /** Whether the request may be sent again without the tokens, which this server refuses. */
  withoutTokens(/** @type {Turn} */ turn, /** @type {any} */ error) {
    if (!(error instanceof ApiError) || !error.param?.startsWith("include")) return false;
    if (!turn.request?.include?.includes(RECORD)) return false;
    turn.request.include = turn.request.include.filter((/** @type {string} */ each) => each !== RECORD);
    this.options.set("tokens", false);
    announce(TEXT.notRecorded);
    return true;
  }

  async stop() {
    const { current, running } = this;
    if (current?.background && current.response) {
      // The stream ends with the response, and says so.
      await send(`v1/responses/${current.response}/cancel`, { method: "POST" }).catch(() => running?.abort());
    } else {
      running?.abort();
    }
  }

  /** @param {Turn} turn */
  inspect(turn) {
    sessionStorage.setItem("gpt-oss-inspect", JSON.stringify({ request: turn.request, response: turn.response }));
    location.hash = "#inspector";
  }

  /** @param {Turn} turn */
  async showCode(turn) {
    const { showCode } = await import("./code.js");
    showCode(turn.request);
  }
}
