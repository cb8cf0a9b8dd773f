// @ts-check
/** Shows a turn: what was typed, the answer, and what one can do with both. */

import { Answer } from "./answer.js";
import * as store from "./chats.js";
import { copyButton, copySelection } from "./copying.js";
import { button, h } from "./dom.js";
import { question } from "./question.js";
import { tabShelf } from "./storage.js";
import { TEXT } from "./text.js";

/**
 * @typedef {import("./chats.js").Turn} Turn
 * @typedef {import("./chat.js").ChatView} ChatView
 */

/** Append the elements of a turn. @param {ChatView} view @param {Turn} turn @returns {Answer} */
export function placeTurn(view, turn) {
  const answer = new Answer({
    approve: (item, approve) => {
      const input = { type: "mcp_approval_response", approval_request_id: item.id, approve };
      return view.begin([input], turn.id);
    },
    results: (outputs) => view.begin(outputs, turn.id),
    goOn: () => view.begin([{ role: "user", content: TEXT.goOnMessage }], turn.id),
  });
  const from = store.typedFrom(turn.input);
  const text = store.textOf(turn.input.slice(from));
  const asked = question(text, (changed) => view.begin([{ role: "user", content: changed }], turn.parent));
  const title = h("h2", { class: "sr-only" }, `${TEXT.you}: ${text.slice(0, 80)}`);
  const element = h("article", { class: "turn", id: turn.id }, title, earlier(turn.input.slice(0, from)), asked.element, answer.element);
  const copy = copyButton(() => answer.markdown, answer.items, { "aria-label": TEXT.copyAnswer });
  element.append(tools(view, turn, asked.edit, copy));
  element.addEventListener("copy", copySelection);
  view.turns.append(element);
  return answer;
}

/** What programs send along: the turns before the last question. @param {any[]} items */
function earlier(items) {
  if (!items.length) return null;
  const lines = items.map((item) => `${item.role ?? item.type}: ${store.textOf([item]) || (item.arguments ?? "")}`);
  const text = h("div", { class: "reasoning-text" }, lines.join("\n\n"));
  return h("details", { class: "item reasoning" }, h("summary", {}, TEXT.earlier(items.length)), text);
}

/** @param {ChatView} view @param {Turn} turn @param {() => void} edit @param {HTMLElement} copy */
function tools(view, turn, edit, copy) {
  const row = h("div", { class: "turn-tools" }, copy);
  const add = (/** @type {string} */ text, /** @type {() => void} */ action) =>
    row.append(button(text, action, { class: "quiet" }));
  // A conversation of the server goes on at its end only.
  const branches = !view.chat.conversation;
  if (branches && store.isText(turn.input)) add(TEXT.edit, edit);
  const again = () => view.begin(turn.input, branches ? turn.parent : view.chat.leaf);
  if (branches || turn.request) add(TEXT.retry, () => void again());
  if (turn.request || turn.response) add(TEXT.inspect, () => inspect(turn));
  if (turn.request) add(TEXT.code, () => void showCode(turn));
  row.append(...switcher(view, turn));
  return row;
}

/** Buttons to other versions of the turn. @param {ChatView} view @param {Turn} turn @returns {Node[]} */
function switcher(view, turn) {
  const all = store.versions(view.chat, turn);
  if (all.length < 2) return [];
  const at = all.indexOf(turn);
  const go = (/** @type {number} */ to) => async () => {
    view.leave();
    view.chat.leaf = store.newestBelow(view.chat, all[to]).id;
    store.save(view.chat);
    await view.draw();
    // The focus stays on an arrow, which is in view.
    const arrows = document.getElementById(all[to].id)?.querySelectorAll(".version:enabled");
    const next = /** @type {HTMLElement | undefined} */ (to < at ? arrows?.[0] : [...(arrows ?? [])].at(-1));
    if (!next) return;
    view.scroller.showPart(next);
    next.focus();
  };
  const arrow = (/** @type {string} */ text, /** @type {number} */ to, /** @type {string} */ label) =>
    button(text, () => void go(to)(), { class: "quiet version", "aria-label": label, disabled: !all[to] });
  return [arrow("‹", at - 1, TEXT.previous), h("span", { class: "versions" }, `${at + 1} / ${all.length}`), arrow("›", at + 1, TEXT.next)];
}

/** @param {Turn} turn */
function inspect(turn) {
  tabShelf.set("gpt-oss-inspect", JSON.stringify({ request: turn.request, response: turn.response }));
  location.hash = "#inspector";
}

/** @param {Turn} turn */
async function showCode(turn) {
  const { showCode } = await import("./code.js");
  showCode(turn.request);
}
