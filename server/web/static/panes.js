// @ts-check
/**
 * One text of harmony in three panes that stay in step: messages, tokens and ids. Each can be edited;
 * the server reads what is typed, and the other panes follow.
 */

import { json } from "./api.js";
import { announce, button, h } from "./dom.js";
import { Filters } from "./filters.js";
import { MessagePane } from "./messages.js";
import { TokenPane } from "./pane.js";
import { INSPECTOR } from "./labels.js";
import { readTokens, textOf } from "./tokens.js";

/** @typedef {import("./tokens.js").Token} Token */
/** @typedef {import("./tokens.js").Message} Message */
/** @typedef {{token_ids: number[], token_bytes: string[], messages: Message[]}} Parsed */
/** @typedef {(place: number) => void} Picked */

const IDS = /^[\s[\],\d]*$/;

export class HarmonyPanes {
  /**
   * @param {import("./tip.js").Tip} tip
   * @param {{onerror: (error: Error | null) => void, onpick?: Picked, tools?: string[]}} options
   * `onpick` gets the place of each token that is chosen, `onerror` what cannot be read, or null.
   */
  constructor(tip, { onerror, onpick = () => {}, tools = [] }) {
    this.tip = tip;
    this.onerror = onerror;
    this.onpick = onpick;
    this.tools = tools;
    /** @type {Token[]} */
    this.tokens = [];
    /** @type {Message[]} */
    this.messages = [];
    const leave = () => tip.hide();
    this.text = new TokenPane(INSPECTOR.tokens, (token) => token.text.replaceAll("\n", "⏎\n"), (place, at) => this.pick(place, at), leave);
    this.ids = new TokenPane(INSPECTOR.ids, (token) => `${token.id} `, (place, at) => this.pick(place, at), leave);
    this.list = new MessagePane((place) => this.pickMessage(place), (place) => this.editorOf(place));
    this.filters = new Filters((hidden) => this.draw(hidden));
    this.latest = 0;
    this.boxes = [
      this.box(INSPECTOR.messages, this.list.element, null),
      this.box(INSPECTOR.tokens, this.text.element, () => textOf(this.tokens)),
      this.box(INSPECTOR.ids, this.ids.element, () => this.tokens.map((token) => token.id).join(", ")),
    ];
    this.legend = h("div", { class: "legend hint" });
    this.element = h("div", { class: "harmony" }, this.filters.element, this.legend, h("div", { class: "panes" }, ...this.boxes));
  }

  /**
   * A pane with its title, and a button that makes it a text field.
   * @param {string} title @param {HTMLElement} pane @param {(() => string) | null} write
   */
  box(title, pane, write) {
    const head = h("div", { class: "pane-head" }, h("h3", {}, title));
    const box = h("section", { class: "pane", "aria-label": title }, head, pane);
    if (!write) return box;
    const field = h("textarea", { class: "pane-edit", spellcheck: "false", "aria-label": INSPECTOR.editPane(title) });
    field.addEventListener("input", () => void this.read(field.value, pane));
    const toggle = button(INSPECTOR.edit, () => {
      const editing = !field.isConnected;
      if (editing) field.value = write();
      (editing ? pane : field).replaceWith(editing ? field : pane);
      toggle.textContent = editing ? INSPECTOR.done : INSPECTOR.edit;
      if (editing) field.focus();
      else this.draw(this.filters.hidden);
    }, { class: "quiet", "aria-label": `${INSPECTOR.edit}: ${title}` });
    head.append(toggle);
    return box;
  }

  /** @param {Parsed} parsed */
  show(parsed) {
    this.latest += 1;
    this.messages = parsed.messages;
    this.tokens = readTokens(parsed.token_ids, parsed.token_bytes, parsed.messages);
    this.filters.show(this.messages);
    this.draw(this.filters.hidden);
    this.explain();
  }

  /** @param {Set<number>} hidden the places of messages */
  draw(hidden) {
    this.tip.hide();
    this.text.show(this.tokens, this.messages, hidden);
    this.ids.show(this.tokens, this.messages, hidden);
    if (!this.list.element.contains(document.activeElement)) this.list.show(this.messages, hidden);
  }

  /** Draw the marks of tokens that have changed. */
  refresh() {
    this.explain();
    this.text.refresh();
    this.ids.refresh();
  }

  /** Say what the marks mean that tokens have. */
  explain() {
    const marks = new Set(this.tokens.flatMap((token) => [...token.marks]));
    const known = Object.entries(INSPECTOR.marks).filter(([mark]) => marks.has(mark));
    this.legend.replaceChildren(...known.map(([mark, meaning]) => h("span", {}, h("span", { class: `t ${mark}` }, meaning))));
  }

  /** @param {number} place @param {HTMLElement} at */
  pick(place, at) {
    this.text.mark(place);
    this.ids.mark(place);
    const token = this.tokens[place];
    this.list.mark(token.message);
    this.tip.show(token, place, this.messages[token.message], at);
    this.onpick(place);
  }

  /** Choose a token from elsewhere, for instance from a plot. @param {number} place */
  choose(place) {
    const at = this.text.mark(place);
    if (at) this.pick(place, at);
  }

  /** @param {number} place of a message */
  pickMessage(place) {
    const [first] = this.messages[place].body;
    this.text.mark(first);
    this.ids.mark(first);
    this.list.mark(place);
  }

  /**
   * A function that puts text in the place of a message's content. What is around it is that of now:
   * the text may have control tokens, with which the message ends earlier.
   * @param {number} place of a message @returns {(content: string) => void}
   */
  editorOf(place) {
    const [first, last] = this.messages[place].body;
    const before = textOf(this.tokens.slice(0, first));
    const after = textOf(this.tokens.slice(last));
    return (content) => void this.read(before + content + after, this.list.element);
  }

  /**
   * Read what somebody has typed. The answer to an older text is dropped.
   * @param {string} typed harmony text, or token ids @param {Element} pane where it was typed
   */
  async read(typed, pane) {
    const latest = ++this.latest;
    try {
      const parsed = await parse(typed, this.tools, pane === this.ids.element);
      if (latest !== this.latest) return;
      this.show(parsed);
      this.onerror(null);
      announce(INSPECTOR.followed(this.tokens.length));
    } catch (error) {
      if (latest === this.latest) this.onerror(/** @type {Error} */ (error));
    }
  }
}

/**
 * Read harmony. @param {string} typed @param {string[]} tools @param {boolean} [ids] whether it has ids
 * @returns {Promise<Parsed>}
 */
export function parse(typed, tools, ids = typed.trim().startsWith("[") && IDS.test(typed)) {
  const body = ids ? { tokens: readIds(typed) } : { text: typed };
  return json("playground/parse", { body: { ...body, tools } });
}

/** @param {string} typed @returns {number[]} */
function readIds(typed) {
  if (!IDS.test(typed)) throw new Error(INSPECTOR.notIds);
  return (typed.match(/\d+/g) ?? []).map(Number);
}
