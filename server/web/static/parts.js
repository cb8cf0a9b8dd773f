// @ts-check
/** The parts of the inspector's results. */

import { h } from "./dom.js";

/** A part of the results. @param {string} title @param {...Node} children */
export function section(title, ...children) {
  return h("section", { class: "result" }, h("h2", {}, title), ...children);
}

/** A part that can be folded. @param {string} title @param {string} text */
export function folded(title, text) {
  return h("details", { class: "result" }, h("summary", {}, title), h("pre", { tabindex: 0 }, h("code", {}, text)));
}
