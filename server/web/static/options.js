// @ts-check
/** The form of a request's options. It is kept in this browser. */

import { h } from "./dom.js";
import { TEXT } from "./text.js";

const OPTIONS = "gpt-oss-options";

/** The value of `include` that records the tokens of an answer. */
export const RECORD = "gpt_oss:record";

/** A field that cannot be read; `message` is for people. */
export class OptionError extends Error {}

/**
 * @typedef {{name: string, label: string, kind: string, hint?: string, choices?: string[],
 *   step?: string, min?: string, max?: string, value?: any}} Field
 * @type {Field[]}
 */
const FIELDS = [
  { name: "model", label: "Model", kind: "select", choices: [] },
  { name: "effort", label: "Reasoning effort", kind: "select", choices: ["", "none", "low", "medium", "high"] },
  { name: "instructions", label: "Instructions", kind: "area", hint: "The developer message." },
  { name: "temperature", label: "Temperature", kind: "number", step: "0.1", min: "0", max: "2" },
  { name: "top_p", label: "Top p", kind: "number", step: "0.05", min: "0", max: "1" },
  { name: "seed", label: "Seed", kind: "number", step: "1" },
  { name: "max_output_tokens", label: "Most tokens", kind: "number", step: "1", min: "1" },
  { name: "tools", label: "Tools (JSON)", kind: "area", hint: 'For example [{"type": "function", "name": "f", "parameters": {…}}].' },
  { name: "schema", label: "Format (JSON schema)", kind: "area", hint: "The answer is JSON that fits." },
  { name: "top_logprobs", label: "Log probabilities", kind: "select", choices: ["", "1", "5", "10", "20"], hint: "Of the likeliest tokens, for the inspector." },
  { name: "tokens", label: "Record tokens for the inspector", kind: "check", value: true },
  { name: "background", label: "Answers go on without this page", kind: "check" },
];

/** @returns {Record<string, any>} */
function stored() {
  try {
    return JSON.parse(localStorage.getItem(OPTIONS) ?? "{}") ?? {};
  } catch {
    return {};
  }
}

export class Options {
  constructor() {
    this.values = stored();
    /** @type {Map<string, HTMLInputElement | HTMLSelectElement | HTMLTextAreaElement>} */
    this.controls = new Map();
    this.error = h("p", { class: "notice error", hidden: true });
    this.element = h("form", { class: "options", "aria-label": TEXT.options }, this.error);
    this.element.addEventListener("submit", (event) => event.preventDefault());
    for (const field of FIELDS) this.element.append(this.row(field));
  }

  /** @param {Field} field */
  row(field) {
    const control = controlOf(field);
    this.controls.set(field.name, control);
    const value = this.values[field.name] ?? field.value;
    if (control instanceof HTMLInputElement && field.kind === "check") control.checked = Boolean(value);
    else if (value !== undefined) control.value = value;
    control.addEventListener("change", () => this.keep());
    const name = h("span", { class: "label" }, field.label);
    const row = h("div", { class: "field" }, h("label", { class: `row ${field.kind}` }, name, control));
    if (field.hint) {
      control.setAttribute("aria-describedby", `hint-${field.name}`);
      row.append(h("span", { class: "hint", id: `hint-${field.name}` }, field.hint));
    }
    return row;
  }

  keep() {
    for (const [name, control] of this.controls) {
      this.values[name] = control.type === "checkbox" ? /** @type {any} */ (control).checked : control.value;
    }
    localStorage.setItem(OPTIONS, JSON.stringify(this.values));
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
  }

  /** The fields of a request. @returns {Record<string, any>} Raises OptionError. */
  request() {
    this.keep();
    const { values } = this;
    /** @type {Record<string, any>} */
    const fields = { stream: true, store: true };
    if (values.model) fields.model = values.model;
    if (values.effort) fields.reasoning = { effort: values.effort };
    if (values.instructions?.trim()) fields.instructions = values.instructions;
    for (const name of ["temperature", "top_p", "seed", "max_output_tokens"]) {
      if (values[name] !== undefined && values[name] !== "") fields[name] = Number(values[name]);
    }
    const tools = this.parsed("tools", "Tools");
    if (tools !== undefined) fields.tools = Array.isArray(tools) ? tools : [tools];
    const schema = this.parsed("schema", "Format");
    if (schema !== undefined) {
      fields.text = { format: { type: "json_schema", name: "answer", schema, strict: true } };
    }
    if (values.top_logprobs) fields.top_logprobs = Number(values.top_logprobs);
    if (values.tokens) fields.include = [RECORD];
    if (values.background) fields.background = true;
    return fields;
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

/** @param {Field} field */
function controlOf(field) {
  const common = { name: field.name };
  switch (field.kind) {
    case "select": {
      const options = (field.choices ?? []).map((value) => h("option", { value }, value || "default"));
      return h("select", common, ...options);
    }
    case "area":
      return h("textarea", { ...common, rows: 3, spellcheck: "false" });
    case "check":
      return h("input", { ...common, type: "checkbox" });
    default: {
      const { step, min, max } = field;
      return h("input", { ...common, type: "number", step, min, max, placeholder: "default" });
    }
  }
}
