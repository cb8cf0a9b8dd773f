// @ts-check
/**
 * Finds where blocks of Markdown end, line by line, while their text arrives.
 *
 * @typedef {{from: number, start: number, end: number, to: number, language: string}} Code
 * Code within a block: its lines are those from `start` to `end`, with their fences those from `from`
 * to `to`. Where nothing closes it, it has no end.
 * @typedef {{text: string, codes: Code[]}} Block
 */

const FENCE = /^ {0,3}(`{3,}(?=[^`]*$)|~{3,})\s*([\w+#.-]*)/;
const CONTINUES = /^(?:[ \t]|[-*+][ \t]|\d{1,9}[.)][ \t])/;
const ITEM = /^\s*(?:[-*+]|\d{1,9}[.)])[ \t]/;
const LONG_LIST = 8000; // characters, from which on each item of a list may begin a block

export class Splitter {
  constructor() {
    this.rest = "";
    /** @type {Code[]} of the rest */
    this.codes = [];
    this.changes = 0; // how often the rest began anew, or its code began or ended
    this.scanned = 0;
    this.fence = "";
    this.afterBlank = false;
  }

  /** The blocks that `text` completes. @param {string} text @returns {Block[]} */
  push(text) {
    this.rest += text;
    const blocks = [];
    for (;;) {
      const end = this.rest.indexOf("\n", this.scanned);
      if (end < 0) return blocks;
      const line = this.rest.slice(this.scanned, end);
      const isBlank = !line.trim();
      if (!this.fence && !isBlank) {
        if (this.begins(line)) blocks.push(this.cut());
        this.afterBlank = false;
      }
      const isEnd = this.follow(line);
      this.scanned += line.length + 1;
      if (isEnd) blocks.push(this.cut());
      else if (isBlank && !this.fence) this.afterBlank = this.hasText;
    }
  }

  /** Whether the lines that were read are more than blank ones. */
  get hasText() {
    return Boolean(this.rest.slice(0, this.scanned).trim());
  }

  /** Whether a block begins with the line. @param {string} line */
  begins(line) {
    if (this.afterBlank && !CONTINUES.test(line)) return true;
    // Code that is not indented belongs to no list.
    if (/^[`~]/.test(line) && FENCE.test(line)) return this.hasText;
    return this.scanned > LONG_LIST && !/^\s/.test(line) && ITEM.test(line) && ITEM.test(this.rest);
  }

  /** The lines that were read, as a block. */
  cut() {
    const block = { text: this.rest.slice(0, this.scanned), codes: this.codes };
    this.rest = this.rest.slice(this.scanned);
    this.codes = [];
    this.scanned = 0;
    this.afterBlank = false;
    this.changes += 1;
    return block;
  }

  /** Follow whether the line opens or closes code or a formula. True if a block of code ends. @param {string} line */
  follow(line) {
    const found = FENCE.exec(line);
    const formula = line.trim();
    const next = this.scanned + line.length + 1;
    const code = this.codes[this.codes.length - 1];
    if (this.fence === "\\]" || this.fence === "$$") {
      if (formula.includes(this.fence)) this.fence = "";
    } else if (this.fence) {
      if (!found?.[1].startsWith(this.fence) || formula !== found[1]) return false;
      this.fence = "";
      this.changes += 1;
      Object.assign(code, { end: this.scanned, to: next });
      return !this.rest.slice(0, code.from).trim();
    } else if (found) {
      this.fence = found[1];
      this.changes += 1;
      this.codes.push({ from: this.scanned, start: next, end: Infinity, to: Infinity, language: found[2] });
    } else if (formula === "\\[" || formula === "$$") {
      this.fence = formula === "$$" ? "$$" : "\\]";
    }
    return false;
  }
}
