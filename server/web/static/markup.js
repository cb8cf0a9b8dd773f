// @ts-check
/**
 * Shows Markdown while it arrives. Text is plain until its block is complete. Complete blocks are
 * rendered by the server, all of them that wait in one request.
 */

import { send } from "./api.js";
import { copyButton } from "./copying.js";
import { direction, h, setSafeHTML } from "./dom.js";
import { Splitter } from "./splitter.js";
import { TEXT } from "./text.js";

/**
 * @typedef {import("./splitter.js").Block} Block
 * @typedef {{text: string, element: Element, tries: number}} Waiting
 */

const PAUSE = 300; // milliseconds between two requests while an answer streams
const LONGEST_PAUSE = 10_000; // after failures
const MOST_TRIES = 10; // of a block: about a minute
const MOST_BLOCKS = 64;
const MOST_CHARACTERS = 60_000;
/** Definitions of links, as in `[1]: https://a.test "A"`. Each is one for the server, too: repeated, it adds no text. */
const DEFINITION =
  /^ {0,3}\[[^[\]\s\\][^[\]\n\\]{0,200}\]:[ \t]*(?:https?:\/\/|mailto:|#)(?:[^\s()<>\\]|\([^\s()<>\\]*\))*(?:[ \t]+"[^"\n\\]*")?[ \t]*$/gm;

/** What may name a definition. */
const LABEL = /\[[^[\]\n]+\]/g;

/** @type {Waiting[]} */
let pending = [];
let busy = false;

/** @param {Waiting} block */
function schedule(block) {
  if (block.text.length > MOST_CHARACTERS) return; // it stays as it is
  if (!pending.includes(block)) pending.push(block);
  void work();
}

async function work() {
  if (busy) return;
  busy = true;
  let pause = PAUSE;
  while (pending.length) {
    const batch = take();
    try {
      await render(batch);
      pause = PAUSE;
    } catch {
      // Plain text is readable until the server can be reached again.
      for (const each of batch) each.tries += 1;
      pending.push(...batch.filter(({ tries }) => tries < MOST_TRIES).reverse());
      pause = Math.min(2 * pause, LONGEST_PAUSE);
    }
    await new Promise((resolve) => setTimeout(resolve, pause));
  }
  busy = false;
}

/** @param {Waiting[]} batch */
async function render(batch) {
  const answer = await send("playground/render", { body: { blocks: batch.map(({ text }) => text) }, ask: false });
  const { html } = await answer.json();
  batch.forEach(({ element }, index) => {
    setSafeHTML(element, html[index]);
    for (const code of element.querySelectorAll("pre")) framed(code);
    element.classList.remove("plain");
  });
}

/** The next blocks, from the last one on: where a long chat is opened, its end is in view. */
function take() {
  const batch = [];
  let length = 0;
  while (pending.length && batch.length < MOST_BLOCKS) {
    length += pending[pending.length - 1].text.length;
    if (batch.length && length > MOST_CHARACTERS) break;
    batch.push(/** @type {any} */ (pending.pop()));
  }
  return batch;
}

/** Put code into a frame with its language, and a button that copies it. @param {HTMLPreElement} code */
function framed(code) {
  const language = h("span", {}, code.getAttribute("data-language"));
  const copy = copyButton(() => code.textContent ?? "", code, { "aria-label": TEXT.copyCode });
  const frame = h("div", { class: "code" }, h("div", { class: "code-head" }, language, copy));
  code.replaceWith(frame);
  frame.append(code);
  return frame;
}

/** A block before it is rendered: text, and code as code. The last one is a text that may grow. @param {Block} block */
function plain({ text, codes }) {
  const nodes = [];
  let at = 0;
  for (const { from, start, end, to, language } of codes) {
    const before = text.slice(at, from);
    if (before.trim()) nodes.push(new Text(before));
    nodes.push(framed(h("pre", { "data-language": language || null }, h("code", {}, text.slice(start, end)))));
    at = to;
  }
  if (at < Infinity) nodes.push(new Text(text.slice(at)));
  return nodes;
}

/** The text of a block outside of its code. @param {Block} block */
function withoutCode({ text, codes }) {
  return codes.reduceRight((rest, { from, to }) => rest.slice(0, from) + rest.slice(to), text);
}

/** A text of Markdown that grows. `element` shows it. */
export class Markup {
  constructor() {
    this.tail = h("div", { class: "block plain arriving" });
    this.element = h("div", { class: "prose" }, this.tail);
    this.splitter = new Splitter();
    /** @type {Map<Waiting, string>} the complete blocks, and their text without code */
    this.blocks = new Map();
    this.drawn = -1; // the changes of the splitter's rest that the tail shows
    this.waiting = "";
    this.frame = 0;
  }

  /** @param {string} text */
  push(text) {
    this.waiting += text;
    this.frame ||= requestAnimationFrame(() => this.draw());
  }

  draw() {
    this.frame = 0;
    const text = this.waiting;
    this.waiting = "";
    const { splitter } = this;
    for (const block of splitter.push(text)) this.settle(block);
    if (splitter.changes === this.drawn) this.last.appendData(text);
    else this.tail.replaceChildren(...plain({ text: splitter.rest, codes: splitter.codes }));
    this.drawn = splitter.changes;
    const dir = direction(splitter.rest);
    if (this.tail.dir !== dir) this.tail.dir = dir;
  }

  /** The last text of the tail. @returns {Text} */
  get last() {
    /** @type {Node} */
    let node = this.tail;
    while (node.lastChild) node = node.lastChild;
    return /** @type {Text} */ (node);
  }

  /** @param {Block} block */
  settle(block) {
    const { text, codes } = block;
    const element = h("div", { class: "block plain", dir: direction(text) }, ...plain({ text: text.trimEnd(), codes }));
    this.tail.before(element);
    const settled = { text, element, tries: 0 };
    this.blocks.set(settled, withoutCode(block));
    schedule(settled);
  }

  /** The text is complete. */
  end() {
    cancelAnimationFrame(this.frame);
    this.waiting += "\n"; // ends the last line, which may begin a block
    this.draw();
    const { rest, codes } = this.splitter;
    if (rest.trim()) this.settle({ text: rest, codes });
    this.tail.remove();
    this.define();
  }

  /** Render blocks with the definitions of their links, which are often at the end of the text. */
  define() {
    /** @type {Map<string, {definition: string, from: Waiting}>} */
    const defined = new Map();
    for (const [from, text] of this.blocks) {
      for (const definition of text.match(DEFINITION) ?? []) {
        const label = definition.slice(0, definition.indexOf("]") + 1).trim().toLowerCase();
        if (!defined.has(label)) defined.set(label, { definition, from });
      }
    }
    for (const [block, text] of this.blocks) {
      const labels = new Set(text.toLowerCase().match(LABEL));
      const used = [...labels].flatMap((label) => defined.get(label) ?? []).filter(({ from }) => from !== block);
      const whole = [...used.map(({ definition }) => definition), "", block.text].join("\n");
      if (!used.length || whole.length > MOST_CHARACTERS) continue;
      block.text = whole;
      schedule(block);
    }
  }
}

/** An element with the whole of `text`. @param {string} text */
export function markup(text) {
  const shown = new Markup();
  shown.push(text);
  shown.end();
  return shown.element;
}
