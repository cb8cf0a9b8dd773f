// @ts-check
/** Shows a turn: what was typed, the answer, and what one can do with both. */

import { Answer } from "./answer.js";
import { ApiError, hasEnded, isAway, json, Pauses } from "./api.js";
import * as store from "./chats.js";
import { copyButton, copySelection } from "./copying.js";
import { button, h } from "./dom.js";
import { question } from "./question.js";
import { checked, makeRoom, MOST_RUNS, Run, runsElsewhere, showError } from "./run.js";
import { tabShelf } from "./storage.js";
import { TEXT } from "./text.js";

export { checked, makeRoom, MOST_RUNS, runsElsewhere };

const LOOK_AGAIN = 1000; // milliseconds after which an answer of another tab is read again

/**
 * @typedef {import("./chats.js").Turn} Turn
 * @typedef {import("./chat.js").ChatView} ChatView
 */

document.addEventListener("copy", copySelection); // a selection may begin outside of the turns

/** Show a new turn, and send its request. @param {ChatView} view @param {Turn} turn */
export function startTurn(view, turn) {
  const shown = placeTurn(view, turn);
  view.scroller.toBottom();
  new Run(view, view.chat, turn, shown).start();
}

/** Show a turn with its answer, or go on to follow it. @param {ChatView} view @param {Turn} turn @param {boolean} isLast */
export async function showTurn(view, turn, isLast) {
  const run = view.runs.get(turn.id);
  const shown = placeTurn(view, turn, run?.shown);
  if (run) return;
  if (turn.output) shown.show(store.responseOf(turn), isLast);
  // What the server has of an answer that failed says why, and has what came before.
  else if (turn.response) await showResponse(view, turn, shown);
  else if (turn.error) showError(view, turn, shown);
  else if (turn.ended) shown.say(TEXT.interrupted);
  else shown.fail(TEXT.lost);
}

/** @param {ChatView} view @param {Turn} turn @param {Answer} shown */
async function showResponse(view, turn, shown, pauses = new Pauses()) {
  const { chat } = view;
  try {
    const response = await json(`v1/responses/${turn.response}`);
    if (!view.turns.contains(shown.element)) return; // another chat or version was opened
    if (hasEnded(response)) return shown.show(response, turn.id === chat.leaf);
    turn.background ||= response.background; // programs make such responses, too
    if (!turn.background) {
      // Only the tab that has its stream can stop it.
      shown.say(TEXT.elsewhere);
      setTimeout(() => void showResponse(view, turn, shown), LOOK_AGAIN);
      return;
    }
    const others = await runsElsewhere();
    if (!view.turns.contains(shown.element)) return;
    if (makeRoom(view.runs, others)) {
      new Run(view, chat, turn, shown).start(`v1/responses/${turn.response}?stream=true`);
    } else {
      shown.say(TEXT.manyRuns(MOST_RUNS));
    }
  } catch (error) {
    const gone = error instanceof ApiError && error.status === 404;
    shown.fail(gone ? TEXT.expired : /** @type {Error} */ (error).message);
    if (!isAway(error)) return;
    const readAgain = () => {
      if (view.turns.contains(shown.element)) void showResponse(view, turn, shown, pauses);
    };
    void pauses.pass().then(readAgain);
  }
}

/**
 * Append the elements of a turn.
 * @param {ChatView} view @param {Turn} turn @param {Answer} [running] what shows its answer already
 */
function placeTurn(view, turn, running) {
  const { chat } = view;
  const isShown = () => view.chat === chat && chat.leaf === turn.id;
  const answer = running ?? new Answer({
    reply: (input) => isShown() && void view.begin(input, turn.id),
    goOn: () => view.begin([{ role: "user", content: TEXT.goOnMessage }], turn.id),
  });
  const from = store.typedFrom(turn.input);
  const text = store.textOf(turn.input.slice(from));
  const asked = question(text, (changed) => view.begin([{ role: "user", content: changed }], turn.parent));
  const title = h("h2", { class: "sr-only" }, `${TEXT.you}: ${text.slice(0, 80)}`);
  asked.element.hidden = Boolean(turn.cut) && !text;
  const notes = [...(turn.cut ? [TEXT.earlierLeft] : []), ...(turn.shortened ? [TEXT.shortened] : [])];
  const hints = notes.map((note) => h("p", { class: "hint" }, note));
  const element = h("article", { class: "turn", id: turn.id }, title, earlier(turn.input.slice(0, from)), asked.element, ...hints, answer.element);
  const copy = copyButton(() => answer.markdown, answer.items, { "aria-label": TEXT.copyAnswer });
  element.append(tools(view, turn, asked.edit, copy));
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
  const add = (/** @type {string} */ text, /** @type {(event: Event) => void} */ action) =>
    row.append(button(text, action, { class: "quiet" }));
  // A conversation of the server goes on at its end only.
  const branches = !view.chat.conversation;
  const whole = !turn.shortened && !turn.cut;
  if (branches && whole && store.isText(turn.input)) add(TEXT.edit, edit);
  const again = (/** @type {Event} */ event) => {
    // A second click would be one on the turn that the first has begun.
    if (/** @type {UIEvent} */ (event).detail > 1) return;
    void view.begin(turn.input, branches || !store.isAnswered(turn) ? turn.parent : view.chat.leaf);
  };
  if (whole && (branches || turn.request)) add(TEXT.retry, again);
  if (turn.request || turn.response) add(TEXT.inspect, () => inspect(turn));
  if (turn.request) add(TEXT.code, () => void showCode(view, turn));
  if (branches) row.append(...switcher(view, turn));
  return row;
}

/** Buttons to other versions of the turn. @param {ChatView} view @param {Turn} turn @returns {Node[]} */
function switcher(view, turn) {
  const all = store.versions(view.chat, turn);
  if (all.length < 2) return [];
  const at = all.indexOf(turn);
  const go = (/** @type {number} */ to) => async () => {
    view.chat.leaf = store.newestBelow(view.chat, all[to]).id;
    view.save(view.chat, { isMoved: true });
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

/** @param {ChatView} view @param {Turn} turn */
async function showCode(view, turn) {
  const code = await view.options.loaded(import("./code.js"));
  code?.showCode(turn.request);
}
