// @ts-check
/**
 * A pane that shows many tokens. Chunks of tokens are plain text until they come near the view; then
 * each token becomes an element.
 */

import { h } from "./dom.js";
import { colour } from "./tokens.js";

/** @typedef {import("./tokens.js").Token} Token */
/** @typedef {import("./tokens.js").Message} Message */
/** @typedef {(index: number, element: HTMLElement) => void} Pick gets the place of a token */

const CHUNK = 400;
const AT_ONCE = 3; // chunks that are drawn before the first frame

export class TokenPane {
  /**
   * @param {string} label
   * @param {(token: Token) => string} write what the pane shows of a token
   * @param {Pick} onpick @param {() => void} onleave
   */
  constructor(label, write, onpick, onleave) {
    this.write = write;
    this.onpick = onpick;
    /** @type {Token[]} */
    this.tokens = [];
    /** @type {Message[]} */
    this.messages = [];
    /** The places of the tokens that are shown. @type {number[]} */
    this.places = [];
    this.at = 0;
    /** @type {Element | null} */
    this.picked = null;
    this.element = h("div", { class: "tokens", tabindex: 0, role: "group", "aria-label": label });
    this.observer = new IntersectionObserver((entries) => this.near(entries), {
      root: this.element,
      rootMargin: "800px",
    });
    this.element.addEventListener("pointerover", (event) => {
      const place = this.placeOf(/** @type {Element} */ (event.target));
      if (place >= 0) this.choose(place);
    });
    this.element.addEventListener("pointerleave", onleave);
    this.element.addEventListener("blur", onleave);
    this.element.addEventListener("keydown", (event) => this.move(event));
  }

  /**
   * Show tokens, of those only the ones whose message is not hidden.
   * @param {Token[]} tokens @param {Message[]} messages @param {Set<number>} [hidden] places of messages
   */
  show(tokens, messages, hidden = new Set()) {
    this.tokens = tokens;
    this.messages = messages;
    this.places = [];
    tokens.forEach((token, place) => hidden.has(token.message) || this.places.push(place));
    this.observer.disconnect();
    this.picked = null;
    const all = document.createDocumentFragment();
    for (let start = 0; start < this.places.length; start += CHUNK) {
      const chunk = h("div", { class: "chunk" });
      if (start < AT_ONCE * CHUNK) this.draw(chunk, start);
      else {
        const places = this.places.slice(start, start + CHUNK);
        chunk.textContent = places.map((place) => this.write(tokens[place])).join("");
        this.observer.observe(chunk);
      }
      all.append(chunk);
    }
    this.element.replaceChildren(all);
  }

  /** Draw the marks of the tokens again, where they are drawn. */
  refresh() {
    [...this.element.children].forEach((chunk, index) => {
      if (chunk.firstElementChild) this.draw(/** @type {HTMLElement} */ (chunk), index * CHUNK);
    });
  }

  /** @param {HTMLElement} chunk @param {number} start */
  draw(chunk, start) {
    const elements = this.places.slice(start, start + CHUNK).map((place) => {
      const token = this.tokens[place];
      const element = document.createElement("span");
      element.className = ["t", colour(this.messages[token.message]), token.kind, ...token.marks].join(" ");
      element.textContent = this.write(token);
      return element;
    });
    chunk.replaceChildren(...elements);
  }

  /** @param {IntersectionObserverEntry[]} entries */
  near(entries) {
    for (const { target, isIntersecting } of entries) {
      if (!isIntersecting) continue;
      this.observer.unobserve(target);
      this.drawn(/** @type {HTMLElement} */ (target));
    }
  }

  /** Draw the chunk, unless it is drawn. @param {HTMLElement} chunk */
  drawn(chunk) {
    if (!chunk.firstElementChild) this.draw(chunk, [...this.element.children].indexOf(chunk) * CHUNK);
  }

  /** The place of an element's token, -1 for other elements. @param {Element} element @returns {number} */
  placeOf(element) {
    const chunk = element.parentElement;
    if (!element.classList.contains("t") || !chunk) return -1;
    const before = [...this.element.children].indexOf(chunk) * CHUNK;
    return this.places[before + [...chunk.children].indexOf(element)];
  }

  /** The element of a token; nothing where it is hidden. @param {number} place @returns {HTMLElement | null} */
  elementAt(place) {
    const index = this.indexOf(place);
    if (index < 0) return null;
    const chunk = /** @type {HTMLElement} */ (this.element.children[Math.floor(index / CHUNK)]);
    this.drawn(chunk);
    return /** @type {HTMLElement} */ (chunk.children[index % CHUNK]);
  }

  /** Where a place stands among those that are shown, by bisection; -1. @param {number} place */
  indexOf(place) {
    let [low, high] = [0, this.places.length - 1];
    while (low <= high) {
      const middle = (low + high) >> 1;
      if (this.places[middle] === place) return middle;
      if (this.places[middle] < place) low = middle + 1;
      else high = middle - 1;
    }
    return -1;
  }

  /** Mark a token, and scroll to it if it is out of view. @param {number} place @returns {HTMLElement | null} */
  mark(place) {
    this.picked?.classList.remove("picked");
    const element = this.elementAt(place);
    this.picked = element;
    this.at = place;
    if (!element) return null;
    element.classList.add("picked");
    const { top, bottom } = element.getBoundingClientRect();
    const view = this.element.getBoundingClientRect();
    if (top < view.top || bottom > view.bottom) {
      this.element.scrollTop += top - view.top - view.height / 2;
    }
    return element;
  }

  /** Somebody has chosen a token in this pane. @param {number} place */
  choose(place) {
    const element = this.mark(place);
    if (element) this.onpick(place, element);
  }

  /** @param {KeyboardEvent} event */
  move(event) {
    const step = /** @type {Record<string, number>} */ ({ ArrowRight: 1, ArrowLeft: -1 })[event.key];
    if (!step || !this.places.length) return;
    event.preventDefault();
    const index = Math.min(Math.max(this.indexOf(this.at) + step, 0), this.places.length - 1);
    this.choose(this.places[index]);
  }
}
