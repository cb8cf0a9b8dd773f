// @ts-check
/** A form for the tools of a request. Their JSON is what counts: the form reads and writes it. */

import { button, dialog, h } from "./dom.js";
import { TEXT } from "./text.js";

/**
 * @typedef {{name: string, label: string, kind?: "area" | "check", value?: string, required?: boolean}} Field
 * @type {Record<string, Field[]>}
 */
const FIELDS = {
  function: [
    { name: "name", label: TEXT.toolsName, required: true },
    { name: "description", label: TEXT.toolsDescription },
    {
      name: "parameters",
      label: TEXT.toolsParameters,
      kind: "area",
      value: '{"type": "object", "properties": {}}',
    },
  ],
  code_interpreter: [],
  web_search: [],
  mcp: [
    { name: "server_label", label: TEXT.toolsLabel, required: true },
    { name: "server_url", label: TEXT.toolsUrl },
    { name: "require_approval", label: TEXT.toolsApproval, kind: "check" },
  ],
};

/** @param {string} kind @param {(name: string) => string | boolean} value @returns {any} */
function toolOf(kind, value) {
  switch (kind) {
    case "function": {
      const description = value("description");
      const parameters = JSON.parse(String(value("parameters")));
      return { type: kind, name: value("name"), ...(description && { description }), parameters };
    }
    case "code_interpreter":
      return { type: kind, container: { type: "auto" } };
    case "mcp":
      return {
        type: kind,
        server_label: value("server_label"),
        ...(value("server_url") && { server_url: value("server_url") }),
        require_approval: value("require_approval") ? "always" : "never",
      };
    default:
      return { type: kind };
  }
}

/** What a list calls the tool. @param {any} tool */
function nameOf(tool) {
  const kinds = /** @type {Record<string, string>} */ (TEXT.toolKinds);
  return tool?.name ?? tool?.server_label ?? kinds[tool?.type] ?? String(tool?.type);
}

/**
 * Open the form. `read` gives the tools, and null where their text is no list; `write` stores them.
 * @param {() => any[] | null} read @param {(tools: any[]) => void} write
 */
export function editTools(read, write) {
  const list = h("ul", { class: "tool-list" });
  const form = h("form", { class: "options" });
  const shown = dialog(TEXT.toolsTitle, TEXT.close, list, form);
  const draw = () => {
    const tools = read();
    if (!tools) return list.replaceChildren(h("li", { class: "error" }, TEXT.toolsBad));
    const rows = tools.map((tool, index) => {
      const remove = () => {
        write(tools.filter((_, other) => other !== index));
        draw();
      };
      const label = `${TEXT.toolsRemove}: ${nameOf(tool)}`;
      return h("li", {}, h("code", {}, nameOf(tool)), button("×", remove, { class: "quiet", "aria-label": label }));
    });
    list.replaceChildren(...(rows.length ? rows : [h("li", { class: "hint" }, TEXT.toolsNone)]));
  };
  draw();
  fill(form, (tool) => {
    const tools = read();
    // What somebody typed there must not be replaced.
    if (tools) write([...tools, tool]);
    draw();
  });
  return shown;
}

/** The fields for a new tool. @param {HTMLFormElement} form @param {(tool: any) => void} add */
function fill(form, add) {
  const kinds = Object.entries(TEXT.toolKinds).map(([value, text]) => h("option", { value }, text));
  const kind = h("select", { name: "kind" }, ...kinds);
  const fields = h("div", { class: "options" });
  const error = h("p", { class: "notice error", role: "alert", hidden: true });
  const draw = () => fields.replaceChildren(...FIELDS[kind.value].map(row));
  kind.addEventListener("change", draw);
  form.append(labelled(TEXT.toolsKind, kind), fields, error);
  form.append(h("div", { class: "buttons" }, h("button", { class: "primary" }, TEXT.toolsAdd)));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const value = (/** @type {string} */ name) => {
      const control = /** @type {HTMLInputElement} */ (fields.querySelector(`[name="${name}"]`));
      return control.type === "checkbox" ? control.checked : control.value.trim();
    };
    try {
      add(toolOf(kind.value, value));
      error.hidden = true;
      draw();
    } catch (problem) {
      error.textContent = `${TEXT.toolsParameters}: ${TEXT.badJson}${/** @type {Error} */ (problem).message}`;
      error.hidden = false;
    }
  });
  draw();
}

/** @param {Field} field */
function row({ name, label, kind, value, required }) {
  if (kind === "area") return labelled(label, h("textarea", { name, rows: 4, spellcheck: "false", value }));
  if (kind !== "check") return labelled(label, h("input", { name, required, autocomplete: "off" }));
  return labelled(label, h("input", { name, type: "checkbox", checked: true }), "row check");
}

/** @param {string} label @param {HTMLElement} control @param {string} [name] */
function labelled(label, control, name = "row") {
  return h("label", { class: name }, h("span", { class: "label" }, label), control);
}
