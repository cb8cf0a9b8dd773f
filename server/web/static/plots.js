// @ts-check
/** Plots as SVG: lines, bars of probabilities, and a time line. */

import { h } from "./dom.js";

/** @typedef {import("./tokens.js").Logprobs} Logprobs */

const SPACE = "http://www.w3.org/2000/svg";
const WIDTH = 600;
const HEIGHT = 80;
const ROW = 1.6; // rem: a row of a time line

/** @param {string} name @param {Record<string, string | number>} attributes @param {...Node} children */
function svg(name, attributes, ...children) {
  const element = document.createElementNS(SPACE, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, String(value));
  element.append(...children);
  return element;
}

/** @param {string} label @param {...Node} children */
function plot(label, ...children) {
  return svg(
    "svg",
    { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, class: "plot", role: "img", preserveAspectRatio: "none", "aria-label": label },
    ...children,
  );
}

/**
 * Values as lines from left to right. A gap in a line is a value that is not a number.
 * @param {number[][]} series at least one, each with the same number of values
 * @param {string} label
 */
export function lines(series, label) {
  const most = Math.max(...series.flat().filter(Number.isFinite), 0.1);
  const step = WIDTH / Math.max(series[0].length - 1, 1);
  const paths = series.map((values, index) => {
    let pen = "M";
    let d = "";
    values.forEach((value, at) => {
      if (!Number.isFinite(value)) pen = "M";
      else {
        d += `${pen}${(at * step).toFixed(1)} ${(HEIGHT - 2 - (value / most) * (HEIGHT - 6)).toFixed(1)}`;
        pen = "L";
      }
    });
    return svg("path", { d, class: `series-${index}` });
  });
  return plot(label, ...paths);
}

/**
 * A line whose points can be chosen.
 * @param {number[]} values @param {string} label @param {(index: number) => void} onpick
 */
export function picker(values, label, onpick) {
  const shown = lines([values], label);
  const cursor = svg("line", { y1: 0, y2: HEIGHT, class: "cursor", visibility: "hidden" });
  shown.append(cursor);
  const mark = (/** @type {number} */ index) => {
    const x = (index / Math.max(values.length - 1, 1)) * WIDTH;
    for (const name of ["x1", "x2"]) cursor.setAttribute(name, String(x));
    cursor.setAttribute("visibility", index < 0 ? "hidden" : "visible");
  };
  shown.addEventListener("pointermove", (event) => {
    const { left, width } = shown.getBoundingClientRect();
    const share = (/** @type {PointerEvent} */ (event).clientX - left) / width;
    const index = Math.min(Math.max(Math.round(share * (values.length - 1)), 0), values.length - 1);
    mark(index);
    onpick(index);
  });
  return { element: shown, mark };
}

/** The likeliest tokens as bars. @param {Logprobs} logprobs */
export function bars({ logprob, top }) {
  const decoder = new TextDecoder();
  const rows = top.map((each) => bar(JSON.stringify(decoder.decode(each.bytes)), each.logprob));
  return h("div", { class: "bars" }, ...(rows.length ? rows : [bar("", logprob)]));
}

/** @param {string} label @param {number} logprob */
function bar(label, logprob) {
  const chance = Math.exp(logprob);
  const meter = h("meter", { min: 0, max: 1, value: chance, "aria-label": label });
  return h("div", { class: "bar-row" }, h("code", {}, label), meter, h("span", {}, `${(100 * chance).toFixed(1)} %`));
}

/**
 * @typedef {{row: number, name: string, start: number, end: number, kind: string}} Period
 * Spans of time in rows.
 * @param {Period[]} periods in milliseconds @param {string} label
 */
export function timeline(periods, label) {
  const end = Math.max(...periods.map((period) => period.end), 1);
  const rows = 1 + Math.max(...periods.map((period) => period.row));
  const height = HEIGHT / rows;
  const boxes = periods.map(({ row, start, end: last, kind }) =>
    svg("rect", {
      x: (start / end) * WIDTH,
      width: Math.max(((last - start) / end) * WIDTH, 1),
      y: row * height + 1,
      height: height - 2,
      class: kind,
    }),
  );
  const chart = plot(label, ...boxes);
  chart.classList.add("timeline");
  chart.style.height = `${rows * ROW}rem`;
  return chart;
}
