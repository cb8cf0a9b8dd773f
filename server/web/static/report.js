// @ts-check
/** What the inspector shows of a response: its numbers, its times, its tokens, its grammars. */

import { h } from "./dom.js";
import { folded, section } from "./parts.js";
import { lines, picker, timeline } from "./plots.js";
import { annotate, entropy, followGrammar, numbers, parseRecord, periods } from "./record.js";
import { INSPECTOR } from "./labels.js";

/** @typedef {import("./panes.js").HarmonyPanes} HarmonyPanes */
/** @typedef {import("./record.js").SamplingRecord} SamplingRecord */
/** @typedef {import("./tokens.js").Token} Token */

const SPEED_MS = 500; // the time over which the speed is an average

/**
 * @param {any} response with its record
 * @param {(options: {tools: string[], onpick: (place: number) => void}) => HarmonyPanes} makePanes
 * @param {(error: Error) => void} onerror gets what goes wrong after the first view
 * @returns {Promise<Node[]>}
 */
export async function showAnswer(response, makePanes, onerror) {
  /** @type {SamplingRecord} */
  const record = response["gpt_oss:record"];
  const raw = folded(INSPECTOR.response, JSON.stringify({ ...response, "gpt_oss:record": undefined }, null, 2));
  if (!record) return [h("p", { class: "notice" }, INSPECTOR.notRecorded), raw];
  const tools = (response.tools ?? []).map((/** @type {any} */ tool) => `functions.${tool.name}`);
  const parsed = await parseRecord(record, tools);
  /** @type {(place: number) => void} */
  let mark = () => {};
  const panes = makePanes({ tools, onpick: (place) => mark(place) });
  panes.show(parsed);
  await annotate(panes.tokens, record);
  panes.refresh();
  const plot = entropyPlot(panes, record);
  if (plot) mark = plot.mark;
  const legend = h("p", { class: "hint", role: "status" }, "");
  void followGrammars(panes, record, legend).catch(onerror);
  return [
    ...(record.recorded ? [] : [h("p", { class: "notice" }, INSPECTOR.renderedAgain)]),
    section(INSPECTOR.numbers, table(numbers(response, record))),
    ...(plot ? [plot.element] : []),
    section(INSPECTOR.promptAndAnswer, legend, panes.element),
    ...times(record),
    ...grammars(record),
    raw,
  ];
}

/** @param {[string, string][]} rows */
function table(rows) {
  return h("dl", { class: "numbers" }, ...rows.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))));
}

/** @param {SamplingRecord} record @returns {Node[]} */
function times(record) {
  if (!record.recorded || !record.samplings.length) return [];
  const all = periods(record);
  const rows = all.map((each) =>
    h("tr", {}, h("td", {}, h("span", { class: `key ${each.kind}` }), each.name), h("td", {}, INSPECTOR.ms(each.start)), h("td", {}, INSPECTOR.ms(each.end)), h("td", {}, INSPECTOR.ms(each.end - each.start))),
  );
  const head = h("tr", {}, ...INSPECTOR.timeColumns.map((name) => h("th", { scope: "col" }, name)));
  const details = h("table", { class: "times" }, h("thead", {}, head), h("tbody", {}, ...rows));
  const parts = [section(INSPECTOR.times, timeline(all, INSPECTOR.timesLabel(all.length)), details)];
  const speeds = speedOver(record);
  if (speeds.length > 1) parts.push(section(INSPECTOR.speedPlot, lines([speeds], INSPECTOR.range(speeds))));
  return parts;
}

/** Tokens per second, over the time of the answer. @param {SamplingRecord} record @returns {number[]} */
function speedOver(record) {
  const arrivals = record.samplings.flatMap(({ token_ms }) => token_ms ?? []);
  if (!arrivals.length) return [];
  const counts = new Array(Math.floor(arrivals[arrivals.length - 1] / SPEED_MS) + 1).fill(0);
  for (const ms of arrivals) counts[Math.floor(ms / SPEED_MS)] += 1;
  return counts.map((count) => (count * 1000) / SPEED_MS);
}

/**
 * The entropy of the sampled tokens as a line. The pointer on it chooses a token, and a token that is
 * chosen elsewhere has a cursor on it.
 * @param {HarmonyPanes} panes @param {SamplingRecord} record
 */
function entropyPlot(panes, record) {
  const offset = record.prompt_token_ids.length;
  const tokens = panes.tokens.slice(offset);
  const values = tokens.map(entropy);
  if (!values.some(Number.isFinite)) return null;
  const { element, mark } = picker(values, INSPECTOR.range(values.filter(Number.isFinite)), (index) => panes.choose(offset + index));
  return { element: section(INSPECTOR.entropy, element), mark: (/** @type {number} */ place) => mark(place - offset) };
}

/** Mark what the grammars forced or restricted. @param {HarmonyPanes} panes @param {SamplingRecord} record @param {HTMLElement} legend */
async function followGrammars(panes, record, legend) {
  const offset = record.prompt_token_ids.length;
  const tokens = panes.tokens;
  const total = { forced: 0, restricted: 0 };
  const constrained = record.samplings.filter(({ grammar }) => grammar !== null);
  legend.textContent = constrained.length ? INSPECTOR.following : INSPECTOR.unconstrained;
  for (const { start, end, grammar } of constrained) {
    const found = await followGrammar(tokens.slice(offset + start, offset + end), String(grammar));
    total.forced += found.forced;
    total.restricted += found.restricted;
    legend.textContent = INSPECTOR.constrained(total.forced, total.restricted);
  }
  if (panes.tokens === tokens) panes.refresh();
}

/** @param {SamplingRecord} record */
function grammars(record) {
  const texts = [...new Set(record.samplings.map(({ grammar }) => grammar))].filter((text) => text !== null);
  return texts.map((text, index) => folded(texts.length > 1 ? `${INSPECTOR.grammar} ${index + 1}` : INSPECTOR.grammar, String(text)));
}
