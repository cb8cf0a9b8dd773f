// @ts-check
/** The form of a request's options. It is kept in this browser. */

import { ApiError, isAway, json, Pauses, scripts } from "./api.js";
import { announce, button, h, openDrawer } from "./dom.js";
import { browserShelf } from "./storage.js";
import { OPTION_HINTS, OPTION_LABELS, TEXT } from "./text.js";

const OPTIONS = "gpt-oss-options";

/** What `include` asks for, so that calls of hosted tools show their results. */
const SHOWN = /** @type {Record<string, string[]>} */ ({
  code_interpreter: ["code_interpreter_call.outputs"],
  web_search: ["web_search_call.action.sources", "web_search_call.results"],
});

/** The value of `include` that records the tokens of an answer. */
const RECORD = "gpt_oss:record";

/** A field that cannot be read; `message` is for people. */
export class OptionError extends Error {}

/**
 * @typedef {{name: keyof typeof OPTION_LABELS, kind: string, choices?: string[],
 *   step?: string, min?: string, max?: string, value?: any}} Field
 * @type {Field[]}
 */
const FIELDS = [
  { name: "model", kind: "select", choices: [] },
  { name: "effort", kind: "select", choices: ["", "none", "low", "medium", "high"] },
  { name: "summary", kind: "select", choices: ["", "auto", "concise", "detailed"] },
  { name: "instructions", kind: "area" },
  { name: "tools", kind: "area" },
  { name: "tool_choice", kind: "select", choices: ["", "none", "required"] },
  { name: "temperature", kind: "number", step: "0.1", min: "0", max: "2" },
  { name: "top_p", kind: "number", step: "0.05", min: "0", max: "1" },
  { name: "seed", kind: "number", step: "1", max: `${Number.MAX_SAFE_INTEGER}` },
  { name: "max_output_tokens", kind: "number", step: "1", min: "1" },
  { name: "format", kind: "select", choices: ["", "text", "json_object"] },
  { name: "schema", kind: "area" },
  { name: "top_logprobs", kind: "select", choices: ["", "1", "5", "10", "20"] },
  { name: "tokens", kind: "check", value: true },
  { name: "background", kind: "check" },
];

/** @returns {Record<string, any>} */
function stored() {
  try {
    return JSON.parse(browserShelf.get(OPTIONS) ?? "{}") ?? {};
  } catch {
    return {};
  }
}

export class Options {
  /** @param {() => string} draft what is typed in the message box */
  constructor(draft) {
    this.draft = draft;
    this.values = stored();
    /** @type {Map<string, HTMLInputElement | HTMLSelectElement | HTMLTextAreaElement>} */
    this.controls = new Map();
    this.pauses = new Pauses(); // while the names of the models cannot be read
    this.error = h("p", { class: "notice error", hidden: true });
    this.element = h("form", { class: "options", "aria-label": TEXT.options }, this.error);
    this.element.addEventListener("submit", (event) => event.preventDefault());
    for (const field of FIELDS) this.element.append(this.row(field));
    this.element.append(button(TEXT.requestCode, () => void this.showCode()));
    this.element.querySelector('[name="tools"]')?.closest(".field")?.append(
      button(TEXT.toolsEdit, () => void this.editTools(), { class: "wide" }),
    );
  }

  /** Say what is wrong; nothing hides it. @param {string} message */
  fail(message) {
    this.error.textContent = message;
    this.error.hidden = !message;
    if (message) {
      announce(message);
      const panel = /** @type {HTMLElement | null} */ (this.element.closest(".side"));
      if (panel) openDrawer(panel);
      this.error.scrollIntoView({ block: "nearest" });
    }
  }

  /**
   * Scripts that are loaded when they are needed. Where the server does not send them, that is said.
   * @template T @param {Promise<T>} loading @returns {Promise<T | null>}
   */
  async loaded(loading) {
    try {
      return await scripts(loading);
    } catch (error) {
      this.fail(/** @type {Error} */ (error).message);
      return null;
    }
  }

  async editTools() {
    const tools = await this.loaded(import("./tools.js"));
    const read = () => {
      try {
        return toolList(this.parsed("tools", TEXT.toolsTitle));
      } catch {
        return null;
      }
    };
    tools?.editTools(read, (list) => this.set("tools", list.length ? JSON.stringify(list, null, 2) : ""));
  }

  /** Show the request that would be sent now. */
  async showCode() {
    try {
      const input = [{ role: "user", content: this.draft() || TEXT.suggestions[0] }];
      const request = { ...this.request(), input };
      this.fail("");
      const { showCode } = await scripts(import("./code.js"));
      showCode(request);
    } catch (error) {
      this.fail(/** @type {Error} */ (error).message);
    }
  }

  /** @param {Field} field */
  row(field) {
    const control = controlOf(field);
    this.controls.set(field.name, control);
    const value = this.values[field.name] ?? field.value;
    if (control instanceof HTMLInputElement && field.kind === "check") control.checked = Boolean(value);
    else if (value !== undefined) control.value = value;
    if (field.name !== "model") this.values[field.name] = valueOf(control);
    control.addEventListener("change", () => this.keep());
    const name = h("span", { class: "label" }, OPTION_LABELS[field.name]);
    const row = h("div", { class: "field" }, h("label", { class: `row ${field.kind}` }, name, control));
    const hint = OPTION_HINTS[field.name];
    if (hint) {
      control.setAttribute("aria-describedby", `hint-${field.name}`);
      row.append(h("span", { class: "hint", id: `hint-${field.name}` }, hint));
    }
    return row;
  }

  /** Store what was changed here. Other tabs have stored what was changed there. */
  keep() {
    const all = stored();
    for (const [name, control] of this.controls) {
      // Until the server has named its models, the one that was chosen stays.
      if (control instanceof HTMLSelectElement && !control.length) continue;
      const value = valueOf(control);
      if (value === this.values[name]) continue;
      this.values[name] = value;
      all[name] = value;
    }
    browserShelf.set(OPTIONS, JSON.stringify(all));
    if (this.controls.get("model")?.value) this.showModel();
  }

  /** @param {string} name @param {any} value */
  set(name, value) {
    const control = this.controls.get(name);
    if (!control) return;
    if (control.type === "checkbox") /** @type {any} */ (control).checked = value;
    else control.value = value;
    this.keep();
  }

  /** @param {string[]} names the served models, the default first */
  models(names) {
    const control = /** @type {HTMLSelectElement} */ (this.controls.get("model"));
    control.replaceChildren(...names.map((name) => h("option", { value: name }, name)));
    if (names.includes(this.values.model)) control.value = this.values.model;
    this.showModel();
  }

  /** Read the names of the served models, again and again while the server is away. */
  async readModels(pauses = new Pauses()) {
    this.pauses = pauses;
    try {
      const { data } = await json("v1/models");
      this.models(data.map((/** @type {any} */ model) => model.id));
    } catch (error) {
      this.showModel(/** @type {Error} */ (error).message);
      if (!isAway(error)) return;
      await pauses.pass();
      // A later call reads them instead, with pauses of its own.
      if (this.pauses === pauses) void this.readModels(pauses);
    }
  }

  /** Show in the bar which model answers, or why that is not known. */
  showModel(problem = "") {
    const label = /** @type {HTMLElement} */ (document.getElementById("model"));
    label.textContent = problem || (this.controls.get("model")?.value ?? "");
  }

  /** Whether the request may be sent again without the tokens, which this server refuses. */
  withoutTokens(/** @type {any} */ request, /** @type {any} */ error) {
    if (!(error instanceof ApiError) || !error.param?.startsWith("include")) return false;
    if (!request?.include?.includes(RECORD)) return false;
    request.include = request.include.filter((/** @type {string} */ each) => each !== RECORD);
    this.set("tokens", false);
    announce(TEXT.notRecorded);
    return true;
  }

  /** Raises OptionError for a number that the server would refuse, or that is none. */
  check() {
    for (const [name, control] of this.controls) {
      const { badInput, rangeOverflow, rangeUnderflow, stepMismatch } = control.validity;
      // The step of other numbers is that of the arrow keys only.
      const isBroken = stepMismatch && control.getAttribute("step") === "1";
      if (!badInput && !rangeOverflow && !rangeUnderflow && !isBroken) continue;
      throw new OptionError(`${OPTION_LABELS[/** @type {Field["name"]} */ (name)]}: ${control.validationMessage}`);
    }
  }

  /** The fields of a request. @returns {Record<string, any>} Raises OptionError. */
  request() {
    this.keep();
    this.check();
    const { values } = this;
    /** @type {Record<string, any>} */
    const fields = { stream: true, store: true };
    if (values.model) fields.model = values.model;
    const reasoning = { ...(values.effort && { effort: values.effort }), ...(values.summary && { summary: values.summary }) };
    if (Object.keys(reasoning).length) fields.reasoning = reasoning;
    if (values.instructions?.trim()) fields.instructions = values.instructions;
    for (const name of ["temperature", "top_p", "seed", "max_output_tokens"]) {
      if (values[name] !== undefined && values[name] !== "") fields[name] = Number(values[name]);
    }
    Object.assign(fields, this.toolFields(), this.formatFields());
    if (values.top_logprobs) {
      fields.top_logprobs = Number(values.top_logprobs);
      fields.include = [...(fields.include ?? []), "message.output_text.logprobs"];
    }
    if (values.tokens) fields.include = [...(fields.include ?? []), RECORD];
    if (values.background) fields.background = true;
    return fields;
  }

  /** The tools, and what their calls show. @returns {Record<string, any>} */
  toolFields() {
    const tools = toolList(this.parsed("tools", TEXT.toolsTitle));
    if (!tools.length) return {};
    const include = tools.flatMap((tool) => SHOWN[tool?.type] ?? []);
    const choice = this.values.tool_choice;
    return { tools, ...(choice && { tool_choice: choice }), ...(include.length && { include }) };
  }

  /** @returns {Record<string, any>} */
  formatFields() {
    const schema = this.parsed("schema", TEXT.format);
    if (schema !== undefined) return { text: { format: { type: "json_schema", name: "answer", schema, strict: true } } };
    return this.values.format ? { text: { format: { type: this.values.format } } } : {};
  }

  /** @param {string} name @param {string} label */
  parsed(name, label) {
    const text = this.values[name]?.trim();
    if (!text) return undefined;
    try {
      return JSON.parse(text);
    } catch (error) {
      throw new OptionError(`${label}: ${TEXT.badJson}${/** @type {Error} */ (error).message}`);
    }
  }
}

/** @param {HTMLInputElement | HTMLSelectElement | HTMLTextAreaElement} control */
const valueOf = (control) => (control.type === "checkbox" ? /** @type {HTMLInputElement} */ (control).checked : control.value);

/** @param {any} value @returns {any[]} */
const toolList = (value) => (value === undefined ? [] : Array.isArray(value) ? value : [value]);

/** @param {Field} field */
function controlOf(field) {
  const common = { name: field.name };
  switch (field.kind) {
    case "select": {
      const options = (field.choices ?? []).map((value) => h("option", { value }, value || TEXT.default));
      return h("select", common, ...options);
    }
    case "area":
      return h("textarea", { ...common, rows: 3, spellcheck: "false" });
    case "check":
      return h("input", { ...common, type: "checkbox" });
    default: {
      const { step, min, max } = field;
      return h("input", { ...common, type: "number", step, min, max, placeholder: TEXT.default });
    }
  }
}
