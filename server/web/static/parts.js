// @ts-check
/** What the inspector and the load page share: their styles, and the parts of results. */

import { h } from "./dom.js";

const STYLES = new URL("inspector.css", import.meta.url).href;

/** Add the styles to the page, unless the other view has done so. */
export function addStyles() {
  if (!document.querySelector(`link[href="${STYLES}"]`)) document.head.append(h("link", { rel: "stylesheet", href: STYLES }));
}

/** A part of the results. @param {string} title @param {...Node} children */
export function section(title, ...children) {
  return h("section", { class: "result" }, h("h2", {}, title), ...children);
}

/** A part that can be folded. @param {string} title @param {string} text */
export function folded(title, text) {
  return h("details", { class: "result" }, h("summary", {}, title), h("pre", { tabindex: 0 }, h("code", {}, text)));
}
