// @ts-check
/**
 * Tokens of harmony: what each is, and a pane that shows many of them.
 *
 * @typedef {{id: number, bytes: Uint8Array, text: string, kind: string, role: string,
 *   channel: string, message: number, marks: string[], logprob?: any}} Token
 */

import { h } from "./dom.js";

const START = 200006;
const MESSAGE = 200008;
const CHANNEL = 200005;
const CONSTRAIN = 200003;
const LONGEST_NAME = 64;

/** What each control token means. @type {Record<number, string>} */
export const CONTROL = {
  199998: "Marks the start of a text in training.",
  199999: "Ends a text in training, and stops the sampling.",
  200002: "Ends the answer: the model is done, and sampling stops.",
  200003: "What follows names the type of the content, such as json.",
  200005: "What follows names the channel: analysis, commentary or final.",
  200006: "Begins a message. Its header follows, with the role first.",
  200007: "Ends a message. The model may go on with another one.",
  200008: "Ends the header. The content follows.",
  200012: "Ends a call: sampling stops, and the tool's result follows.",
};

/** @param {string} hex */
function bytesOf(hex) {
  const bytes = new Uint8Array(hex.length / 2);
  for (let i = 0; i < bytes.length; i++) bytes[i] = parseInt(hex.slice(2 * i, 2 * i + 2), 16);
  return bytes;
}

/**
 * The tokens with their texts and their place in the messages.
 * @param {number[]} ids @param {string[]} hex the bytes of each
 * @param {boolean} sampled whether they continue `<|start|>assistant`
 * @returns {Token[]}
 */
export function readTokens(ids, hex, sampled = false) {
  let role = sampled ? "assistant" : "";
  let channel = "";
  let message = 0;
  let part = "header";
  let name = role;
  let inChannel = false;
  const decoder = new TextDecoder();
  const tokens = ids.map((id, index) => {
    const bytes = bytesOf(hex[index]);
    const control = id >= 199998;
    if (id === START) {
      if (index) message += 1;
      [role, channel, name, part, inChannel] = ["", "", "", "header", false];
    } else if (id === CHANNEL) [channel, part, inChannel] = ["", "header", true];
    else if (id === CONSTRAIN) inChannel = false;
    /** @type {Token} */
    const token = { id, bytes, text: decoder.decode(bytes), kind: control ? "control" : part, role, channel, message, marks: [] };
    if (id === MESSAGE) part = "body";
    else if (!control && part === "header") {
      // A header without an end may be as long as the text.
      if (inChannel) channel = (channel + token.text).slice(0, LONGEST_NAME);
      else name = (name + token.text).slice(0, LONGEST_NAME);
      role = name.trim().split(/[\s:]/)[0];
      token.role = role;
    }
    return token;
  });
  joinCharacters(tokens);
  nameHeaders(tokens);
  return tokens;
}

/** Show characters whole that are split over tokens. @param {Token[]} tokens */
function joinCharacters(tokens) {
  for (let i = 0; i < tokens.length; i++) {
    if (!tokens[i].text.includes("\ufffd")) continue;
    const strict = new TextDecoder("utf-8", { fatal: true });
    /** @type {number[]} */
    let bytes = [];
    for (let end = i; end < Math.min(i + 8, tokens.length); end++) {
      bytes = [...bytes, ...tokens[end].bytes];
      try {
        tokens[i].text = strict.decode(new Uint8Array(bytes));
      } catch {
        continue;
      }
      for (let k = i + 1; k <= end; k++) [tokens[k].text, tokens[k].marks] = ["", ["continued"]];
      i = end;
      break;
    }
  }
}

/** Give each token of a message the role and the channel of its whole header. @param {Token[]} tokens */
function nameHeaders(tokens) {
  /** @type {{role: string, channel: string}[]} */
  const names = [];
  for (const token of tokens) names[token.message] = { role: token.role, channel: token.channel };
  for (const token of tokens) {
    const { role, channel } = names[token.message];
    if (token.kind !== "body") [token.role, token.channel] = [role, token.channel || channel];
    token.channel = token.channel.trim().split(" ")[0];
  }
}

/** The class of a token's colour. @param {Token} token */
export function colour(token) {
  if (["system", "developer", "user"].includes(token.role)) return token.role;
  if (token.role !== "assistant") return "tool";
  return ["analysis", "commentary", "final"].includes(token.channel) ? token.channel : "final";
}

const CHUNK = 400;

/** A pane of tokens. `onpick` gets the token under the pointer or the cursor. */
export class TokenPane {
  /** @param {string} label @param {(token: Token, index: number, at: DOMRect) => void} onpick @param {() => void} onleave */
  constructor(label, onpick, onleave) {
    /** @type {Token[]} */
    this.tokens = [];
    this.at = 0;
    this.onpick = onpick;
    this.element = h("div", { class: "tokens", tabindex: 0, role: "group", "aria-label": label });
    this.element.addEventListener("pointerover", (event) => {
      const index = this.indexOf(/** @type {Element} */ (event.target));
      if (index >= 0) this.pick(index);
    });
    this.element.addEventListener("pointerleave", onleave);
    this.element.addEventListener("blur", onleave);
    this.element.addEventListener("keydown", (event) => this.move(event));
  }

  /** @param {Token[]} tokens */
  show(tokens) {
    this.tokens = tokens;
    this.element.replaceChildren();
    const all = document.createDocumentFragment();
    for (let start = 0; start < tokens.length; start += CHUNK) {
      const chunk = document.createElement("div");
      chunk.className = "chunk";
      for (const token of tokens.slice(start, start + CHUNK)) {
        const element = document.createElement("span");
        element.className = ["t", colour(token), token.kind, ...token.marks].join(" ");
        element.textContent = token.text.replaceAll("\n", "⏎\n");
        chunk.append(element);
      }
      all.append(chunk);
    }
    this.element.append(all);
  }

  /** @param {Element} element @returns {number} */
  indexOf(element) {
    const chunk = element.parentElement;
    if (!element.classList.contains("t") || !chunk) return -1;
    const before = [...this.element.children].indexOf(chunk) * CHUNK;
    return before + [...chunk.children].indexOf(element);
  }

  /** @param {number} index @returns {HTMLElement} */
  elementAt(index) {
    const chunk = this.element.children[Math.floor(index / CHUNK)];
    return /** @type {HTMLElement} */ (chunk.children[index % CHUNK]);
  }

  /** @param {number} index */
  pick(index) {
    this.element.querySelector(".picked")?.classList.remove("picked");
    const element = this.elementAt(index);
    element.classList.add("picked");
    this.at = index;
    this.onpick(this.tokens[index], index, element.getBoundingClientRect());
  }

  /** @param {KeyboardEvent} event */
  move(event) {
    const step = /** @type {Record<string, number>} */ ({ ArrowRight: 1, ArrowLeft: -1 })[event.key];
    if (!step || !this.tokens.length) return;
    event.preventDefault();
    const index = Math.min(Math.max(this.at + step, 0), this.tokens.length - 1);
    this.elementAt(index).scrollIntoView({ block: "nearest" });
    this.pick(index);
  }
}
