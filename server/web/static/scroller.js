// @ts-check
/** The part of the page that scrolls the turns. Their end stays in view until somebody moves up. */

import { button, h } from "./dom.js";
import { TEXT } from "./text.js";

const NEAR_END = 80; // pixels
const ROUNDING = 1; // a position may have a fraction of a pixel, a height has none

export class Scroller {
  /** @param {HTMLElement} content @param {string} label */
  constructor(content, label) {
    this.element = h("div", { class: "scroller", role: "region", tabindex: 0, "aria-label": label }, content);
    this.toEnd = button(TEXT.toEnd, () => {
      this.element.focus(); // the button goes
      this.toBottom();
    }, { class: "to-end", hidden: true });
    this.top = 0;
    this.left = 0; // how far the end was below the view
    this.atEnd = true; // whether the end stays in view when the content grows
    this.element.addEventListener("scroll", () => this.scrolled());
    const sizes = new ResizeObserver(() => this.resized());
    sizes.observe(content);
    sizes.observe(this.element); // the message box takes more or less of its height
    // Who opens or edits something wants to see it, not the end.
    content.addEventListener("click", (event) => {
      if (/** @type {Element} */ (event.target).closest("summary, button:not(.copy)")) this.atEnd = false;
    }, true);
  }

  toBottom() {
    this.atEnd = true;
    this.element.scrollTop = this.element.scrollHeight;
    this.top = this.element.scrollTop;
    this.keepLeft(0);
  }

  /** @param {number} left */
  keepLeft(left) {
    this.left = left;
    this.toEnd.hidden = left < NEAR_END;
  }

  resized() {
    if (this.atEnd) return this.toBottom();
    // The browser keeps the place of what is in view: content above that grew has moved it down.
    this.top = Math.max(this.top, this.element.scrollTop);
    this.keepLeft(this.belowView);
  }

  /** How many pixels of the content are below the view. */
  get belowView() {
    const { scrollHeight, scrollTop, clientHeight } = this.element;
    return scrollHeight - scrollTop - clientHeight;
  }

  /** Show the place of before: another view was on the page in between. */
  restore() {
    this.element.scrollTop = this.top;
  }

  /** Show a part of the content, not the end. @param {HTMLElement} part */
  showPart(part) {
    this.atEnd = false;
    part.scrollIntoView({ block: "center" });
  }

  /**
   * Only a move up leaves the end: the content may also have grown since the last move down. However
   * short it is: a wheel or a finger moves a few pixels per frame, and the content may grow in each.
   */
  scrolled() {
    const { scrollTop, clientHeight } = this.element;
    if (!clientHeight) return; // another view is shown
    const left = this.belowView;
    // A position that moved up but is at the end was moved by content that got shorter. One that moved
    // down but came no nearer to the end was moved by content above it that grew.
    if (left < ROUNDING) this.atEnd ||= scrollTop !== this.top;
    else if (scrollTop < this.top) this.atEnd = false;
    else if (scrollTop > this.top && left < this.left && left < NEAR_END) this.atEnd = true;
    this.top = scrollTop;
    this.keepLeft(left);
  }
}
