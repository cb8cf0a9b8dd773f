// @ts-check
/** Shows one answer: follows the events of its stream, or shows a stored response. */

import { hasEnded, messageOf } from "./api.js";
import { CALLS } from "./chats.js";
import { button, h } from "./dom.js";
import { itemView } from "./items.js";
import { TEXT } from "./text.js";

/** @typedef {import("./items.js").ItemView} ItemView */

/**
 * @typedef {{
 *   reply: (input: any[]) => void,
 *   goOn: () => void,
 * }} TurnActions
 * `reply` sends what calls of functions and requests for approval have waited for.
 */

const APPROVAL = "mcp_approval_request";

export class Answer {
  /** @param {TurnActions} actions */
  constructor(actions) {
    this.actions = actions;
    this.items = h("div", { class: "items" });
    this.note = h("p", { class: "note" }, TEXT.waiting);
    this.element = h("div", { class: "answer" }, this.items, this.note);
    /** @type {Map<string, ItemView>} */
    this.views = new Map();
    /** @type {Map<string, any>} the items that have ended, and messages */
    this.known = new Map();
    /** @type {Set<ItemView>} the views of items that have not ended */
    this.unended = new Set();
    /** @type {any} */
    this.response = null;
    this.problem = ""; // what an event says that went wrong
    /** @type {Map<string, any>} the replies to items of the answer, by the ids of the items */
    this.replies = new Map();
    this.began = performance.now();
    this.first = 0;
    this.isTimed = true;
  }

  /** @param {{isTimed: boolean}} options whether the answer begins now */
  reset({ isTimed }) {
    this.isTimed = isTimed;
    this.views.clear();
    this.known.clear();
    this.unended.clear();
    this.replies.clear();
    this.response = null;
    this.problem = "";
    this.began = performance.now();
    this.first = 0;
    this.items.replaceChildren();
    this.say(TEXT.waiting);
  }

  /** Whether the answer is complete, or ended otherwise. */
  get ended() {
    return Boolean(this.response) && hasEnded(this.response);
  }

  /** The items that have ended, and the text of a message that has not. Servers refuse items without content. */
  get output() {
    return [...this.known].flatMap(([id, item]) => {
      if (item.type !== "message" || item.content?.length) return item;
      const text = this.views.get(id)?.source?.();
      return text ? { ...item, content: [{ type: "output_text", text, annotations: [] }] } : [];
    });
  }

  /** The text of the answer as Markdown. */
  get markdown() {
    return [...this.views.values()].map((view) => view.source?.()).filter(Boolean).join("\n\n");
  }

  /** @param {any} event */
  apply(event) {
    if (event.type === "response.output_item.added") this.open(event.item);
    else if (event.type === "response.output_item.done") this.close(event.item);
    else if (event.item_id) this.views.get(event.item_id)?.event(event);
    else if (event.type === "error" || event.error) {
      this.problem = event.message || messageOf(event.error ?? "") || TEXT.failed;
      this.fail(this.problem);
    } else if (event.response) this.follow(event);
    if (!this.first && event.type?.endsWith(".delta")) {
      this.first = performance.now() - this.began;
      this.note.textContent = "";
    }
  }

  /** @param {any} item */
  open(item) {
    const approve = (/** @type {any} */ { id }, /** @type {boolean} */ yes) => {
      this.replies.set(id, { type: "mcp_approval_response", approval_request_id: id, approve: yes });
      this.reply();
    };
    const view = itemView(item, { approve });
    this.views.set(item.id, view);
    if (item.type === "message") this.known.set(item.id, item);
    this.unended.add(view);
    this.items.append(view.element);
    view.event({ type: "response.output_item.added", item });
  }

  /** @param {any} item */
  close(item) {
    if (!this.views.has(item.id)) this.open(item);
    const view = /** @type {ItemView} */ (this.views.get(item.id));
    this.unended.delete(view);
    this.known.set(item.id, item);
    view.done(item);
  }

  /** The answer has ended, or is not followed any more: nothing goes on. */
  cut() {
    for (const view of this.unended) view.cut();
    this.unended.clear();
  }

  /** @param {any} event */
  follow(event) {
    this.response = event.response;
    if (event.type === "response.queued") this.note.textContent = TEXT.queued;
    else if (this.ended) this.end();
  }

  /** How the answer ended, if not by itself. */
  get outcome() {
    const { status, incomplete_details: why } = this.response;
    if (status === "cancelled") return TEXT.interrupted;
    return status === "incomplete" && why?.reason === "max_output_tokens" ? TEXT.incomplete : "";
  }

  /** The response has ended: say how, and offer what comes next. */
  end() {
    const { status, usage, error } = this.response;
    this.cut();
    if (status === "failed") this.fail(error?.message ?? TEXT.failed);
    else this.say(this.outcome);
    if (usage) this.note.append(h("span", { class: "usage" }, this.usage(usage)));
    const unserved = this.response["gpt_oss:unserved_tools"];
    if (unserved?.length) this.note.prepend(h("span", {}, `${TEXT.unserved(unserved)} `));
    if (status === "completed") {
      this.offerResults();
      this.reply();
    }
    if (this.outcome === TEXT.incomplete) {
      this.items.append(h("div", { class: "reply" }, button(TEXT.goOn, () => this.actions.goOn())));
    }
  }

  /** @param {any} usage */
  usage(usage) {
    const cached = usage.input_tokens_details?.cached_tokens;
    const parts = [TEXT.usedIn(TEXT.tokens(usage.input_tokens)) + (cached ? TEXT.cached(cached) : "")];
    const reasoning = usage.output_tokens_details?.reasoning_tokens;
    parts.push(TEXT.usedOut(usage.output_tokens) + (reasoning ? TEXT.reasoned(reasoning) : ""));
    const seconds = (performance.now() - this.began - this.first) / 1000;
    if (this.isTimed && this.first && seconds > 0.05) {
      parts.push(TEXT.speed(usage.output_tokens / seconds));
      parts.push(TEXT.firstAfter(this.first / 1000));
    }
    return parts.join(" · ");
  }

  /** @param {string} text */
  say(text) {
    this.note.className = "note";
    this.note.removeAttribute("role");
    this.note.replaceChildren(text ? h("span", {}, `${text} `) : "");
  }

  /** @param {string} message */
  fail(message) {
    this.note.className = "note error";
    this.note.setAttribute("role", "alert");
    this.note.replaceChildren(message);
  }

  /** Send the replies, if none is missing: the model goes on with all of them. */
  reply() {
    if (this.response?.status !== "completed" || !this.replies.size) return;
    const waiting = this.response.output.filter(({ type = "" }) => [...CALLS, APPROVAL].includes(type));
    const replies = waiting.map(({ id = "" }) => this.replies.get(id));
    if (replies.every(Boolean)) this.actions.reply(replies);
  }

  /** A field for the result of each call of a client's function. */
  offerResults() {
    const calls = (this.response.output ?? []).filter((/** @type {any} */ item) => CALLS.includes(item.type));
    if (!calls.length) return;
    const form = h("form", { class: "results reply" });
    const fields = calls.map((/** @type {any} */ call) => {
      const field = h("textarea", { rows: 2, placeholder: TEXT.resultPlaceholder });
      form.append(h("label", {}, h("span", { class: "label" }, `${TEXT.result}: ${call.name}`), field));
      return { call, field };
    });
    form.append(h("button", { class: "primary" }, TEXT.sendResults));
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      for (const { call, field } of fields) {
        this.replies.set(call.id, { type: `${call.type}_output`, call_id: call.call_id, output: field.value });
      }
      // The form goes when the next turn begins, and stays where that cannot begin.
      this.reply();
    });
    this.items.append(form);
  }

  /** Show a response that the server has stored. @param {any} response @param {boolean} isLast */
  show(response, isLast) {
    this.reset({ isTimed: false });
    this.response = response;
    for (const item of response.output ?? []) this.close(item);
    this.end();
    if (!isLast) this.settled();
  }

  /** Another turn follows: nothing here can be answered any more. */
  settled() {
    for (const each of this.items.querySelectorAll(".reply")) each.remove();
  }
}
