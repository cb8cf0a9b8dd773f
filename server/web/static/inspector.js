// @ts-check
/** The inspector: a request's prompt, a response's tokens, pasted harmony, two prompts side by side. */

import { ApiError, json } from "./api.js";
import { announce, button, h } from "./dom.js";
import { CONTROL, TokenPane, colour, readTokens } from "./tokens.js";
import { TEXT } from "./text.js";

/** @typedef {import("./tokens.js").Token} Token */

const HANDED = "gpt-oss-inspect";
const EXAMPLE = '{\n  "input": "Hello!",\n  "reasoning": {"effort": "low"}\n}';
const KINDS = ["system", "developer", "user", "analysis", "commentary", "final", "tool"];

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
    const sheet = h("link", { rel: "stylesheet", href: new URL("inspector.css", import.meta.url).href });
    document.head.append(sheet);
    this.results = h("div", { class: "results-pane", tabindex: -1 });
    this.tip = h("div", { class: "tip", role: "status", hidden: true });
    this.error = h("p", { class: "notice error", role: "alert", hidden: true });
    this.request = area("Request (JSON of /v1/responses, or with messages: of /v1/chat/completions)", EXAMPLE, 9);
    this.other = area("Request to compare with", "", 4);
    this.harmony = area("Harmony text or token ids", "", 6);
    this.id = h("input", { placeholder: "resp_…" });
    this.element = h("div", { class: "inspector" }, this.inputs(), this.results, this.tip);
  }

  inputs() {
    const stored = h("label", { class: "row" }, h("span", { class: "label" }, "Stored response"), this.id);
    return h(
      "aside",
      { class: "side", "aria-label": "What to inspect" },
      this.error,
      form("Show the prompt", () => this.run(() => this.showRequest()), this.request.element),
      form("Show its tokens", () => this.run(() => this.showResponse()), stored),
      form("Parse", () => this.run(() => this.showHarmony()), this.harmony.element),
      form("Compare the prompts", () => this.run(() => this.compare()), this.other.element),
    );
  }

  /** Inspect what the chat has handed over. */
  shown() {
    const handed = sessionStorage.getItem(HANDED);
    sessionStorage.removeItem(HANDED);
    if (!handed) return;
    const { request, response } = JSON.parse(handed);
    if (request) this.request.field.value = JSON.stringify(request, null, 2);
    this.id.value = response ?? "";
    void this.run(() => (response ? this.showResponse() : this.showRequest()));
  }

  hidden() {
    this.tip.hidden = true;
  }

  /** @param {() => Promise<void>} work */
  async run(work) {
    this.error.hidden = true;
    try {
      await work();
      announce("Ready");
    } catch (error) {
      this.error.textContent = /** @type {Error} */ (error).message;
      this.error.hidden = false;
    }
  }

  /** The prompt of the request in a field. @param {HTMLTextAreaElement} field */
  async rendered(field) {
    let body;
    try {
      body = JSON.parse(field.value);
    } catch (error) {
      throw new ApiError(TEXT.badJson + /** @type {Error} */ (error).message, 0);
    }
    const path = "messages" in body ? "v1/chat/completions/render" : "v1/responses/render";
    return json(`${path}?return_token_bytes=true`, { body });
  }

  async showRequest() {
    const prompt = await this.rendered(this.request.field);
    const tokens = readTokens(prompt.token_ids, prompt.token_bytes);
    const limit = `at most ${prompt.max_tokens.toLocaleString("en")} sampled`;
    this.results.replaceChildren(
      this.section(`Prompt · ${TEXT.tokens(prompt.count)} · ${limit}`, this.filtered(tokens, "Prompt")),
      this.section("Stop tokens", h("p", {}, prompt.stop_token_ids.join(", "))),
      this.section("Grammar", h("pre", { tabindex: 0 }, h("code", {}, prompt.grammar ?? "No grammar constrains the sampling."))),
    );
  }

  async showResponse() {
    const id = this.id.value.trim();
    const response = await json(`v1/responses/${encodeURIComponent(id)}`);
    if (!response.token_ids) {
      this.results.replaceChildren(
        h("p", { class: "notice" }, "The tokens of this response were not recorded. Send the request with return_token_ids: the chat's options have a box for it."),
        this.section("Response", h("pre", { tabindex: 0 }, h("code", {}, JSON.stringify(response, null, 2)))),
      );
      return;
    }
    const tools = (response.tools ?? []).map((/** @type {any} */ tool) => `functions.${tool.name}`);
    const [prompt, sampled] = await Promise.all([
      json("playground/parse", { body: { tokens: response.prompt_token_ids } }),
      json("playground/parse", { body: { tokens: response.token_ids, tools } }),
    ]);
    const given = readTokens(prompt.token_ids, prompt.token_bytes);
    const tokens = readTokens(sampled.token_ids, sampled.token_bytes, true);
    const cached = response.usage?.input_tokens_details?.cached_tokens ?? 0;
    for (const token of given.slice(0, cached)) token.marks.push("cached");
    addLogprobs(tokens, sampled.messages, response.output);
    const title = `Prompt · ${TEXT.tokens(given.length)}${cached ? ` · ${cached} from the cache` : ""}`;
    this.results.replaceChildren(
      this.section(title, this.filtered(given, "Prompt")),
      this.section(`Sampled · ${TEXT.tokens(tokens.length)}`, this.filtered(tokens, "Sampled tokens")),
      ...this.entropy(tokens),
      this.section("Messages", messages(sampled.messages)),
    );
  }

  async showHarmony() {
    const text = this.harmony.field.value;
    const ids = /^\s*\[[\d\s,]*\]\s*$/.test(text);
    const parsed = await json("playground/parse", { body: ids ? { tokens: JSON.parse(text) } : { text } });
    const sampled = parsed.token_ids[0] !== 200006;
    const tokens = readTokens(parsed.token_ids, parsed.token_bytes, sampled);
    this.results.replaceChildren(
      this.section(`Tokens · ${tokens.length}`, this.filtered(tokens, "Tokens")),
      this.section("Messages", messages(parsed.messages)),
    );
  }

  async compare() {
    const [one, two] = await Promise.all([this.rendered(this.request.field), this.rendered(this.other.field)]);
    const [same, end] = common(one.token_ids, two.token_ids);
    const panes = [one, two].map((prompt, index) => {
      const tokens = readTokens(prompt.token_ids, prompt.token_bytes);
      tokens.forEach((token, at) => {
        if (at < same) token.marks.push("cached");
        else if (at < tokens.length - end) token.marks.push("different");
      });
      return this.section(`Prompt ${index + 1} · ${TEXT.tokens(tokens.length)}`, this.filtered(tokens, `Prompt ${index + 1}`));
    });
    const line = same === Math.max(one.count, two.count)
      ? "The prompts are the same."
      : `The first ${TEXT.tokens(same)} are the same: a prefix cache can serve these. Then they differ.`;
    this.results.replaceChildren(h("p", { class: "notice" }, line), h("div", { class: "pair" }, ...panes));
  }

  /** @param {string} title @param {...Node} children */
  section(title, ...children) {
    return h("section", { class: "result" }, h("h2", {}, title), ...children);
  }

  /** A pane with a filter of the kinds that it has. @param {Token[]} tokens @param {string} label */
  filtered(tokens, label) {
    const pane = new TokenPane(
      label,
      (token, index, at) => this.explain(token, index, at),
      () => (this.tip.hidden = true),
    );
    pane.show(tokens);
    const present = new Set(tokens.map(colour));
    const filters = KINDS.filter((kind) => present.has(kind)).map((kind) => {
      const toggle = button(kind, () => {
        const off = pane.element.classList.toggle(`no-${kind}`);
        toggle.setAttribute("aria-pressed", String(!off));
      }, { class: `filter ${kind}`, "aria-pressed": "true" });
      return toggle;
    });
    return h("div", {}, h("div", { class: "filters" }, ...filters), pane.element);
  }

  /** @param {Token} token @param {number} index @param {DOMRect} at */
  explain(token, index, at) {
    const bytes = [...token.bytes].map((byte) => byte.toString(16).padStart(2, "0")).join(" ");
    const place = [token.role, token.channel, token.kind].filter(Boolean).join(" · ");
    const lines = [
      h("b", {}, `${JSON.stringify(token.text || "…")}`),
      h("div", {}, `id ${token.id} · position ${index}`),
      h("div", {}, `bytes ${bytes}`),
      h("div", {}, place),
    ];
    if (token.marks.includes("continued")) lines.push(h("div", {}, "The rest of a character that began before."));
    if (CONTROL[token.id]) lines.push(h("div", { class: "hint" }, CONTROL[token.id]));
    if (token.logprob) lines.push(bars(token.logprob));
    this.tip.replaceChildren(...lines);
    this.tip.hidden = false;
    const left = Math.min(at.left, innerWidth - this.tip.offsetWidth - 12);
    const below = at.bottom + 6 + this.tip.offsetHeight < innerHeight;
    this.tip.style.left = `${Math.max(left, 8)}px`;
    this.tip.style.top = `${below ? at.bottom + 6 : at.top - this.tip.offsetHeight - 6}px`;
  }

  /** The entropy of the answer's tokens as a line. @param {Token[]} tokens @returns {Node[]} */
  entropy(tokens) {
    const values = tokens.filter((token) => token.logprob).map((token) => entropyOf(token.logprob));
    if (values.length < 2) return [];
    const most = Math.max(...values, 0.1);
    return [this.section("Entropy of the answer, in bits, of the listed alternatives", line(values, most))];
  }
}

/** @param {any} entry */
function entropyOf(entry) {
  const chances = (entry.top_logprobs ?? []).map((/** @type {any} */ each) => Math.exp(each.logprob));
  return chances.reduce((/** @type {number} */ sum, /** @type {number} */ p) => sum - (p > 0 ? p * Math.log2(p) : 0), 0);
}

/** @param {number[]} values @param {number} most */
export function line(values, most) {
  const space = "http://www.w3.org/2000/svg";
  const svg = document.createElementNS(space, "svg");
  svg.setAttribute("viewBox", "0 0 600 80");
  svg.setAttribute("class", "plot");
  svg.setAttribute("role", "img");
  svg.setAttribute("preserveAspectRatio", "none");
  svg.setAttribute("aria-label", `From ${Math.min(...values).toFixed(2)} to ${Math.max(...values).toFixed(2)}`);
  const path = document.createElementNS(space, "polyline");
  const step = 600 / Math.max(values.length - 1, 1);
  path.setAttribute("points", values.map((v, i) => `${(i * step).toFixed(1)},${(78 - (v / most) * 74).toFixed(1)}`).join(" "));
  svg.append(path);
  return svg;
}

/** The likeliest tokens as bars. @param {any} entry */
function bars(entry) {
  const rows = (entry.top_logprobs?.length ? entry.top_logprobs : [entry]).map((/** @type {any} */ each) => {
    const chance = Math.exp(each.logprob);
    const bar = h("meter", { min: 0, max: 1, value: chance, "aria-label": each.token });
    bar.setAttribute("value", String(chance));
    return h("div", { class: "bar-row" }, h("code", {}, JSON.stringify(each.token)), bar, h("span", {}, `${(100 * chance).toFixed(1)} %`));
  });
  return h("div", { class: "bars" }, ...rows);
}

/**
 * Give the tokens of final messages their logprobs.
 * @param {Token[]} tokens @param {any[]} parsed @param {any[]} output
 */
function addLogprobs(tokens, parsed, output) {
  const finals = parsed.filter((message) => message.channel === "final" && message.body);
  const items = output.filter((item) => item.type === "message" && item.phase !== "commentary");
  finals.forEach((message, index) => {
    const entries = (items[index]?.content ?? []).flatMap((/** @type {any} */ part) => part.logprobs ?? []);
    entries.forEach((/** @type {any} */ entry, /** @type {number} */ at) => {
      const token = tokens[message.body[0] + at];
      if (token) token.logprob = entry;
    });
  });
}

/** The messages and what was wrong with each. @param {any[]} all */
function messages(all) {
  const cards = all.map((message) => {
    const to = message.recipient ? ` → ${message.recipient}` : "";
    const type = message.content_type ? ` (${message.content_type})` : "";
    const repairs = message.repairs.map((/** @type {string} */ name) => h("span", { class: "repair" }, name.replaceAll("_", " ")));
    const head = h("div", { class: "card-head" }, h("span", { class: `filter ${message.channel}` }, message.channel), h("span", { class: "card-name" }, to + type), ...repairs);
    if (!message.complete) head.append(h("span", { class: "repair" }, "not complete"));
    return h("div", { class: "card" }, head, h("div", { class: "card-body" }, h("pre", { tabindex: 0 }, h("code", {}, message.content))));
  });
  return h("div", { class: "messages" }, ...cards);
}

/** How many tokens two prompts share at their beginning, and then at their end. */
export function common(/** @type {number[]} */ one, /** @type {number[]} */ two) {
  const most = Math.min(one.length, two.length);
  let same = 0;
  while (same < most && one[same] === two[same]) same += 1;
  let end = 0;
  while (end < most - same && one[one.length - 1 - end] === two[two.length - 1 - end]) end += 1;
  return [same, end];
}
