// @ts-check
/** The load page: what runs and waits, and how the server's parts are, as plots of the last minutes. */

import { json, send } from "./api.js";
import { h } from "./dom.js";
import { line } from "./inspector.js";

const EVERY = 2000; // milliseconds
const MOST = 150;

/** @typedef {{title: string, values: number[], output: HTMLElement, plot: HTMLElement, unit: string}} Series */

export class LoadView {
  constructor() {
    if (!document.querySelector('link[href$="inspector.css"]')) {
      document.head.append(h("link", { rel: "stylesheet", href: new URL("inspector.css", import.meta.url).href }));
    }
    this.state = h("p", { class: "notice", role: "status" }, "Asking the server…");
    this.tiles = h("div", { class: "tiles" });
    this.element = h("div", { class: "load", tabindex: 0 }, h("h1", {}, "Load"), this.state, h("br"), this.tiles);
    this.running = this.series("Requests that run or wait", "");
    this.answer = this.series("Answer time of /health", " ms");
    this.timer = 0;
  }

  /** @param {string} title @param {string} unit @returns {Series} */
  series(title, unit) {
    const output = h("output", {}, "–");
    const plot = h("div", {});
    this.tiles.append(h("section", { class: "tile" }, h("h2", {}, title), output, plot));
    return { title, values: [], output, plot, unit };
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
      this.add(this.answer, Math.round(performance.now() - began));
      const load = await json("playground/load", { ask: false });
      this.add(this.running, load.admitted);
      this.running.output.textContent = `${load.admitted} of ${load.limit}`;
      await send("ready", { ask: false });
      this.say("The engine and the store can serve.", false);
    } catch (error) {
      this.say(/** @type {Error} */ (error).message, true);
    }
  }

  /** @param {string} text @param {boolean} bad */
  say(text, bad) {
    if (this.state.textContent !== text) this.state.textContent = text;
    this.state.classList.toggle("error", bad);
  }

  /** @param {Series} series @param {number} value */
  add(series, value) {
    series.values.push(value);
    if (series.values.length > MOST) series.values.shift();
    series.output.textContent = `${value}${series.unit}`;
    series.plot.replaceChildren(line(series.values, Math.max(...series.values, 1)));
  }
}
