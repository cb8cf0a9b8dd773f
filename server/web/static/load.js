// @ts-check
/** The load page: what runs and waits, tokens and cache hits, as plots of the last minutes, and health. */

import { send } from "./api.js";
import { h } from "./dom.js";
import { LoadSource } from "./metrics.js";
import { addStyles } from "./parts.js";
import { lines } from "./plots.js";
import { INSPECTOR, LOAD } from "./labels.js";

/** @typedef {import("./metrics.js").Load} Load */
/** @typedef {{title: string, values: number[][], output: HTMLElement, plot: HTMLElement}} Series */

const EVERY = 2000; // milliseconds
const MOST = 150; // values of a plot

export class LoadView {
  constructor() {
    addStyles();
    this.state = h("p", { class: "notice", role: "status" }, LOAD.asking);
    this.origin = h("p", { class: "hint" });
    this.tiles = h("div", { class: "tiles" });
    this.title = LOAD.title;
    this.element = h("div", { class: "load", tabindex: 0 }, this.state, this.origin, this.tiles);
    this.requests = this.series(LOAD.requests, 2);
    this.speed = this.series(LOAD.speed, 2);
    this.cache = this.series(LOAD.cache, 1);
    this.health = this.series(LOAD.health, 1);
    this.source = new LoadSource();
    /** @type {{load: Load, at: number} | null} */
    this.previous = null;
    this.timer = 0;
  }

  /** @param {string} title @param {number} count of lines @returns {Series} */
  series(title, count) {
    const output = h("output", {}, LOAD.unknown);
    const plot = h("div", {});
    this.tiles.append(h("section", { class: "tile" }, h("h2", {}, title), output, plot));
    return { title, values: Array.from({ length: count }, () => []), output, plot };
  }

  shown() {
    void this.poll();
    this.timer = window.setInterval(() => void this.poll(), EVERY);
  }

  hidden() {
    clearInterval(this.timer);
  }

  async poll() {
    if (document.hidden) return;
    const began = performance.now();
    try {
      await send("health", { ask: false });
      const took = performance.now() - began;
      this.add(this.health, [took], LOAD.ms(took));
      this.follow(await this.source.read());
    } catch (error) {
      this.say(/** @type {Error} */ (error).message, true);
    }
  }

  /** @param {Load} load */
  follow(load) {
    this.add(this.requests, [load.running, load.waiting], LOAD.runAndWait(load.running, load.waiting));
    const limit = load.limit === null ? "" : ` ${LOAD.limit(load.limit)}`;
    this.origin.textContent = LOAD.source(this.source.path) + limit;
    const at = performance.now();
    if (this.previous) this.rates(load, this.previous.load, (at - this.previous.at) / 1000);
    this.previous = { load, at };
    const bad = Object.entries(load.problems).filter(([, problem]) => problem !== null);
    this.say(bad.length ? bad.map(([part, problem]) => LOAD.part(part, String(problem))).join(" ") : LOAD.good, bad.length > 0);
  }

  /** @param {Load} load @param {Load} before @param {number} seconds between them */
  rates(load, before, seconds) {
    const rate = (/** @type {"sampled" | "prompt"} */ name) => Math.max(load[name] - before[name], 0) / seconds;
    this.add(this.speed, [rate("sampled"), rate("prompt")], LOAD.perSecond(rate("sampled"), rate("prompt")));
    const prompt = load.prompt - before.prompt;
    const share = prompt > 0 ? (load.cached - before.cached) / prompt : NaN;
    const whole = load.prompt > 0 ? load.cached / load.prompt : NaN;
    this.add(this.cache, [share], Number.isFinite(whole) ? LOAD.share(whole) : LOAD.unknown);
  }

  /** @param {string} text @param {boolean} bad */
  say(text, bad) {
    if (this.state.textContent !== text) this.state.textContent = text;
    this.state.classList.toggle("error", bad);
  }

  /** @param {Series} series @param {number[]} next the next value of each line @param {string} text the newest, in words */
  add(series, next, text) {
    next.forEach((value, index) => {
      series.values[index].push(value);
      if (series.values[index].length > MOST) series.values[index].shift();
    });
    series.output.textContent = text;
    const known = series.values.flat().filter(Number.isFinite);
    series.plot.replaceChildren(lines(series.values, `${series.title}. ${known.length ? INSPECTOR.range(known) : ""}`));
  }
}
