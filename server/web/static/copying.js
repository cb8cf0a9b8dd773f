// @ts-check
/** Copies text: by buttons, and what is selected with its formulas as TeX. */

import { announce, button, h } from "./dom.js";
import { TEXT } from "./text.js";

const SAID = 3000; // milliseconds for which a button says what it has done

/**
 * A button that copies a text.
 * @param {() => string} read @param {Node} shown what is selected where a page may not copy
 * @param {Record<string, any>} [props]
 */
export function copyButton(read, shown, props = {}) {
  let timer = 0;
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(read());
      say(TEXT.copied);
    } catch {
      // Browsers forbid it to pages without HTTPS, for instance: a key copies what is selected.
      getSelection()?.selectAllChildren(shown);
      say(TEXT.selected);
    }
  };
  const say = (/** @type {string} */ text) => {
    element.textContent = text;
    announce(text);
    clearTimeout(timer);
    timer = window.setTimeout(() => (element.textContent = TEXT.copy), SAID);
  };
  const element = button(TEXT.copy, () => void copy(), { ...props, class: "quiet copy" });
  return element;
}

/**
 * Copy the selection with its formulas as TeX: a browser would write each symbol in a line of its own.
 * @param {ClipboardEvent} event
 */
export function copySelection(event) {
  const selection = getSelection();
  if (!selection?.rangeCount || !event.clipboardData) return;
  const range = selection.getRangeAt(0).cloneRange();
  const [first, last] = [range.startContainer, range.endContainer].map(formulaAround);
  if (first) range.setStartBefore(first);
  if (last) range.setEndAfter(last);
  const selected = h("div", { class: "sr-only" });
  selected.append(range.cloneContents());
  const formulas = selected.querySelectorAll("math[data-tex]");
  if (!formulas.length) return;
  for (const each of selected.querySelectorAll("button, .code-head, .turn-tools, h2.sr-only")) each.remove();
  const html = selected.innerHTML;
  for (const each of formulas) {
    const dollars = each.getAttribute("display") === "block" ? "$$" : "$";
    each.replaceWith(dollars + each.getAttribute("data-tex") + dollars);
  }
  // Only what is on the page has its lines.
  document.body.append(selected);
  event.clipboardData.setData("text/plain", selected.innerText);
  event.clipboardData.setData("text/html", html);
  selected.remove();
  event.preventDefault();
}

/** @param {Node} node */
function formulaAround(node) {
  return (node instanceof Element ? node : node.parentElement)?.closest("math[data-tex]");
}
