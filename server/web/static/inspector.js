// @ts-check
/** The inspector: a request's prompt, a response's tokens, pasted harmony, two prompts side by side. */

import { json } from "./api.js";
import { compareSources } from "./comparison.js";
import { announce, h } from "./dom.js";
import { HarmonyPanes, parse } from "./panes.js";
import { addStyles, section } from "./parts.js";
import { showAnswer } from "./report.js";
import { fetchRecord, readJson, rendered } from "./sources.js";
import { tabShelf } from "./storage.js";
import { INSPECTOR } from "./labels.js";
import { TEXT } from "./text.js";
import { Tip } from "./tip.js";

const HANDED = "gpt-oss-inspect";
const EXAMPLE = '{\n  "input": "Hello!",\n  "reasoning": {"effort": "low"}\n}';
const WIDE = matchMedia("(min-width: 60.01rem)"); // as in inspector.css
const PAUSE = 250; // milliseconds without a key, until a changed request is rendered

/** @param {string} label @param {string} value @param {number} rows */
function area(label, value, rows) {
  const field = h("textarea", { rows, value, spellcheck: "false" });
  return { field, element: h("label", { class: "row" }, h("span", { class: "label" }, label), field) };
}

/** A form that inspects when it is sent. @param {string} label @param {() => void} run @param {...Node} children */
function form(label, run, ...children) {
  const element = h("form", { class: "inspect-form" }, ...children, h("button", { class: "primary" }, label));
  element.addEventListener("submit", (event) => {
    event.preventDefault();
    run();
  });
  return element;
}

export class InspectorView {
  constructor() {
    addStyles();
    this.title = INSPECTOR.title;
    this.results = h("div", { class: "results-pane", tabindex: -1 }, h("p", { class: "hint" }, INSPECTOR.choose));
    this.tip = new Tip();
    this.error = h("p", { class: "notice error", role: "alert", hidden: true });
    this.request = area(INSPECTOR.request, EXAMPLE, 9);
    this.other = area(INSPECTOR.other, "", 4);
    this.harmony = area(INSPECTOR.harmony, "", 6);
    this.id = h("input", { placeholder: "resp_…" });
    this.latest = 0;
    this.timer = 0;
    this.request.field.addEventListener("input", () => this.follow());
    this.inputs = this.forms();
    WIDE.addEventListener("change", () => this.unfold());
    this.unfold();
    const side = h("aside", { class: "side", "aria-label": INSPECTOR.inputs }, this.error, this.inputs);
    this.element = h("div", { class: "inspector" }, side, this.results, this.tip.element);
  }

  /** Beside the results the inputs stay in view. */
  unfold() {
    this.inputs.open ||= WIDE.matches;
  }

  forms() {
    const stored = h("label", { class: "row" }, h("span", { class: "label" }, INSPECTOR.stored), this.id);
    return h(
      "details",
      { class: "inputs", open: true },
      h("summary", {}, INSPECTOR.inputs),
      form(INSPECTOR.showPrompt, () => this.ask(() => this.showRequest()), this.request.element),
      form(INSPECTOR.showTokens, () => this.ask(() => this.showResponse()), stored),
      form(INSPECTOR.parse, () => this.ask(() => this.showHarmony()), this.harmony.element),
      form(INSPECTOR.compare, () => this.ask(() => this.compare()), this.other.element),
    );
  }

  /** Inspect what the chat has handed over. */
  shown() {
    const handed = tabShelf.get(HANDED);
    tabShelf.remove(HANDED);
    if (!handed) return;
    const { request, response } = JSON.parse(handed);
    if (request) this.request.field.value = JSON.stringify(request, null, 2);
    this.id.value = response ?? "";
    this.inputs.open = WIDE.matches; // above the results they would be all that is in view
    this.element.scrollTop = 0;
    this.results.focus({ preventScroll: true });
    void this.run(() => (response ? this.showResponse() : this.showRequest()));
  }

  hidden() {
    this.tip.hide();
  }

  /**
   * Show what `work` makes, unless something else was asked for in the meantime.
   * @param {() => Promise<Node[]>} work
   */
  async run(work) {
    const latest = ++this.latest;
    clearTimeout(this.timer);
    this.say(null);
    try {
      const parts = await work();
      if (latest !== this.latest) return;
      this.results.replaceChildren(...parts);
      announce(INSPECTOR.ready);
    } catch (error) {
      if (latest === this.latest) this.say(/** @type {Error} */ (error));
    }
  }

  /** Show what somebody has asked for; on a narrow screen it is below the form. @param {() => Promise<Node[]>} work */
  async ask(work) {
    await this.run(work);
    (this.error.hidden ? this.results : this.error).scrollIntoView();
  }

  /** @param {Error | null} error */
  say(error) {
    this.error.textContent = error?.message ?? "";
    this.error.hidden = !error;
  }

  /** The prompt follows its request while somebody types. */
  follow() {
    if (!this.results.querySelector(".of-request")) return;
    clearTimeout(this.timer);
    this.timer = window.setTimeout(() => void this.run(() => this.showRequest()), PAUSE);
  }

  /** @param {Partial<ConstructorParameters<typeof HarmonyPanes>[1]>} [options] */
  panes(options = {}) {
    return new HarmonyPanes(this.tip, { onerror: (error) => this.say(error), ...options });
  }

  async showRequest() {
    const prompt = await rendered(readJson(this.request.field.value));
    const panes = this.panes();
    panes.show(await json("playground/parse", { body: { tokens: prompt.token_ids, sampled: [] } }));
    const title = INSPECTOR.promptOf(TEXT.tokens(prompt.count), prompt.max_tokens.toLocaleString("en"));
    const shown = section(title, panes.element);
    shown.classList.add("of-request");
    const stops = prompt.stop_token_ids.map((/** @type {number} */ id) => h("code", { class: "stop" }, String(id)));
    return [shown, section(INSPECTOR.stops, h("p", {}, ...stops)), section(INSPECTOR.grammar, h("pre", { tabindex: 0 }, h("code", {}, prompt.grammar ?? INSPECTOR.noGrammar)))];
  }

  async showResponse() {
    const response = await fetchRecord(this.id.value.trim());
    return showAnswer(response, (options) => this.panes(options), (error) => this.say(error));
  }

  async showHarmony() {
    const panes = this.panes();
    panes.show(await parse(this.harmony.field.value, []));
    return [section(INSPECTOR.parsed, panes.element)];
  }

  async compare() {
    const sources = [this.request.field.value, this.other.field.value];
    return compareSources(sources, this.tip);
  }
}
