// @ts-check
/**
 * Shows Markdown while it arrives. Text is plain until its block is complete. Complete blocks are
 * rendered by the server, all of them that wait in one request.
 */

import { send } from "./api.js";
import { direction, h, setSafeHTML } from "./dom.js";

const PAUSE = 300; // milliseconds between two requests while an answer streams
const MOST_BLOCKS = 64;
const MOST_CHARACTERS = 60_000;

/** @type {{text: string, element: Element}[]} */
let pending = [];
let busy = false;

/** @param {string} text @param {Element} element */
function schedule(text, element) {
  if (text.length > MOST_CHARACTERS) return; // it stays plain text
  pending.push({ text, element });
  void work();
}

async function work() {
  if (busy) return;
  busy = true;
  while (pending.length) {
    const batch = take();
    try {
      const answer = await send("playground/render", {
        body: { blocks: batch.map((each) => each.text) },
        ask: false,
      });
      const { html } = await answer.json();
      batch.forEach(({ element }, index) => {
        setSafeHTML(element, html[index]);
        element.classList.remove("plain");
      });
    } catch {
      // Plain text is readable, and the next answer tries again.
    }
    await new Promise((resolve) => setTimeout(resolve, PAUSE));
  }
  busy = false;
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

const FENCE = /^ {0,3}(`{3,}|~{3,})/;
const CONTINUES = /^(?:[ \t]|[-*+][ \t]|\d{1,9}[.)][ \t])/;

/** Finds where blocks of Markdown end, line by line. */
export class Splitter {
  constructor() {
    this.rest = "";
    this.scanned = 0;
    this.fence = "";
    this.blank = -1;
  }

  /** The blocks that `text` completes. @param {string} text @returns {string[]} */
  push(text) {
    this.rest += text;
    const blocks = [];
    for (;;) {
      const end = this.rest.indexOf("\n", this.scanned);
      if (end < 0) return blocks;
      const line = this.rest.slice(this.scanned, end);
      if (this.blank >= 0 && line.trim() && !this.fence) {
        if (!CONTINUES.test(line)) {
          blocks.push(this.rest.slice(0, this.blank));
          this.rest = this.rest.slice(this.blank);
          this.scanned -= this.blank;
          this.blank = -1;
          continue;
        }
        this.blank = -1;
      }
      this.follow(line);
      this.scanned += line.length + 1;
      if (!line.trim() && !this.fence && this.rest.slice(0, this.scanned).trim()) {
        this.blank = this.scanned;
      }
    }
  }

  /** Whether the line opens or closes code or a formula. @param {string} line */
  follow(line) {
    const found = FENCE.exec(line);
    const formula = line.trim();
    if (this.fence) {
      const closes = found && found[1].startsWith(this.fence) && !line.replace(found[0], "").trim();
      const isEnd = this.fence === "\\]" || this.fence === "$$";
      if (closes || (isEnd && formula.includes(this.fence))) this.fence = "";
    } else if (found) {
      this.fence = found[1];
    } else if (formula === "\\[" || formula === "$$") {
      this.fence = formula === "$$" ? "$$" : "\\]";
    }
  }
}

/** A text of Markdown that grows. `element` shows it. */
export class Markup {
  constructor() {
    this.tail = h("div", { class: "block plain" });
    this.tail.append("");
    this.element = h("div", { class: "prose" }, this.tail);
    this.splitter = new Splitter();
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
    const blocks = this.splitter.push(text);
    for (const block of blocks) this.settle(block);
    const node = /** @type {Text} */ (this.tail.firstChild);
    if (blocks.length) node.data = this.splitter.rest;
    else node.appendData(text);
    const dir = direction(this.splitter.rest);
    if (this.tail.dir !== dir) this.tail.dir = dir;
  }

  /** @param {string} block */
  settle(block) {
    const element = h("div", { class: "block plain", dir: direction(block) }, block.trimEnd());
    this.tail.before(element);
    schedule(block, element);
  }

  /** The text is complete. */
  end() {
    cancelAnimationFrame(this.frame);
    this.waiting += "\n"; // ends the last line, which may begin a block
    this.draw();
    if (this.splitter.rest.trim()) this.settle(this.splitter.rest);
    this.tail.remove();
  }
}

/** An element with the whole of `text`. @param {string} text */
export function markup(text) {
  const shown = new Markup();
  shown.push(text);
  shown.end();
  return shown.element;
}
