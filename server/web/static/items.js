// @ts-check
/** Views of the items of an answer: each follows the events that name its item. */

import { isCitation, messageText, sources } from "./citations.js";
import { approvalView, callView, hostedView } from "./cards.js";
import { direction, h } from "./dom.js";
import { files, isFile } from "./files.js";
import { Markup, markup } from "./markup.js";
import { TEXT } from "./text.js";

/**
 * @typedef {{
 *   element: HTMLElement,
 *   event: (event: any) => void,
 *   done: (item: any) => void,
 *   cut: () => void,
 *   source?: () => string,
 * }} ItemView
 * `event` gets the events that name the item, `done` the item as it ended. `cut`: the answer has ended
 * before the item. `source` gives the Markdown of what belongs to the answer's text.
 *
 * @typedef {{approve: (item: any, approve: boolean) => void}} Actions
 */

/** The view of an item. @param {any} item @param {Actions} actions @returns {ItemView} */
export function itemView(item, actions) {
  switch (item.type) {
    case "message":
      return messageView(item);
    case "reasoning":
      return reasoningView();
    case "function_call":
      return callView(TEXT.call, TEXT.arguments);
    case "custom_tool_call":
      return callView(TEXT.customCall, TEXT.input);
    case "mcp_approval_request":
      return approvalView(actions);
    default:
      return hostedView(item);
  }
}

/** @param {any} item @returns {ItemView} */
function messageView(item) {
  const preamble = item.phase === "commentary";
  const text = new Markup();
  let source = "";
  const element = h("div", { class: preamble ? "item preamble" : "item message" });
  if (preamble) element.append(h("span", { class: "label" }, TEXT.preamble));
  element.append(text.element);
  return {
    element,
    event(event) {
      if (event.type === "response.output_text.delta" || event.type === "response.refusal.delta") {
        source += event.delta;
        text.push(event.delta);
      }
    },
    done(ended) {
      const parts = ended.content ?? [];
      const notes = parts.flatMap((/** @type {any} */ part) => part.annotations ?? []);
      const streamed = source;
      source = messageText(ended);
      const shown = [...(notes.some(isFile) ? [files(notes)] : []), ...(notes.some(isCitation) ? [sources(notes)] : [])];
      if (shown.length) {
        text.element.replaceWith(markup(source), ...shown);
        return;
      }
      // A stored message comes without deltas.
      if (!streamed) text.push(source);
      text.end();
    },
    cut: () => text.end(),
    source: () => (preamble ? "" : source),
  };
}

/** @returns {ItemView} */
function reasoningView() {
  // The summary is written beside the text that it summarises: both may arrive at once.
  const summary = h("div", { class: "reasoning-summary" }, "");
  const text = h("div", {}, "");
  const body = h("div", { class: "reasoning-text" }, summary, text);
  const title = h("span", {}, TEXT.thinking);
  const element = h("details", { class: "item reasoning" }, h("summary", {}, title), body);
  const began = performance.now();
  let parts = 0;
  const waiting = new Map([[summary, ""], [text, ""]]);
  let frame = 0;
  const draw = () => {
    frame = 0;
    for (const [element, added] of waiting) {
      /** @type {Text} */ (element.firstChild).appendData(added);
      waiting.set(element, "");
      element.dir ||= direction(added);
    }
  };
  const add = (/** @type {HTMLDivElement} */ element, /** @type {string} */ added) => {
    waiting.set(element, waiting.get(element) + added);
    frame ||= requestAnimationFrame(draw);
  };
  return {
    element,
    event(event) {
      if (event.type === "response.reasoning_summary_part.added" && parts++) add(summary, "\n\n");
      if (event.type === "response.reasoning_summary_text.delta") add(summary, event.delta);
      if (event.type === "response.reasoning_text.delta") add(text, event.delta);
    },
    done(ended) {
      cancelAnimationFrame(frame);
      const joined = (/** @type {any[] | null} */ all) => (all ?? []).map((part) => part.text).join("\n\n");
      text.textContent = joined(ended.content);
      summary.textContent = joined(ended.summary);
      for (const element of [text, summary]) element.dir = direction(element.textContent ?? "");
      const seconds = (performance.now() - began) / 1000;
      const took = seconds > 0.5 ? ` · ${seconds.toFixed(1)} s` : "";
      title.textContent = body.textContent ? TEXT.reasoning + took : TEXT.reasoningHidden;
    },
    cut() {
      title.textContent = TEXT.reasoning;
    },
  };
}
