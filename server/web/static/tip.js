// @ts-check
/** The tooltip of the inspector: what is known of the token under the pointer. */

import { h } from "./dom.js";
import { bars } from "./plots.js";
import { TOKENS } from "./labels.js";

/** @typedef {import("./tokens.js").Token} Token */
/** @typedef {import("./tokens.js").Message} Message */

const GAP = 6; // pixels between the token and the tooltip

export class Tip {
  constructor() {
    this.element = h("div", { class: "tip", role: "status", hidden: true });
  }

  hide() {
    this.element.hidden = true;
  }

  /**
   * @param {Token} token @param {number} place @param {Message | undefined} message
   * @param {HTMLElement} beside
   */
  show(token, place, message, beside) {
    const bytes = [...token.bytes].map((byte) => byte.toString(16).padStart(2, "0")).join(" ");
    const about = message ? [message.role, message.channel, message.recipient && `→ ${message.recipient}`] : [];
    this.element.replaceChildren(
      h("b", {}, token.text ? JSON.stringify(token.text) : "…"),
      h("div", {}, TOKENS.place(token.id, place)),
      h("div", {}, TOKENS.bytes(bytes)),
      h("div", {}, [...about, TOKENS.kinds[token.kind]].filter(Boolean).join(" · ")),
      ...remarks(token).map((line) => h("div", { class: "hint" }, line)),
    );
    if (token.logprobs) this.element.append(bars(token.logprobs));
    this.element.hidden = false;
    this.move(beside.getBoundingClientRect());
  }

  /** @param {DOMRect} at */
  move(at) {
    const { offsetWidth, offsetHeight, style } = this.element;
    const left = Math.min(at.left, innerWidth - offsetWidth - 2 * GAP);
    const below = at.bottom + GAP + offsetHeight < innerHeight;
    style.left = `${Math.max(left, GAP)}px`;
    style.top = `${Math.max(below ? at.bottom + GAP : at.top - offsetHeight - GAP, 0)}px`;
  }
}

/** What is special about the token. @param {Token} token @returns {string[]} */
function remarks(token) {
  const lines = [];
  if (token.marks.has("continued")) lines.push(TOKENS.continued);
  const meaning = TOKENS.control[token.id];
  if (meaning) lines.push(meaning);
  if (token.marks.has("cached")) lines.push(TOKENS.cached);
  if (token.marks.has("inserted")) lines.push(TOKENS.inserted);
  if (token.permitted === 1) lines.push(TOKENS.forced);
  else if (token.marks.has("restricted")) lines.push(TOKENS.restricted(token.permitted ?? 0));
  if (token.marks.has("refused")) lines.push(TOKENS.refused);
  for (const name of token.repairs) lines.push(TOKENS.repair(name.replaceAll("_", " ")));
  if (token.ms !== undefined) lines.push(TOKENS.arrived(token.ms));
  return lines;
}
