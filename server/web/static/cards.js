// @ts-check
/** Cards: calls of functions and of tools that the server runs, and requests for approval. */

import { link } from "./citations.js";
import { button, h } from "./dom.js";
import { markup } from "./markup.js";
import { TEXT } from "./text.js";

/**
 * @typedef {import("./items.js").ItemView} ItemView
 * @typedef {import("./items.js").Actions} Actions
 */

const MOST_UNFOLDED = 2000; // characters
const MOST_TOOLS = 12; // names of tools that are shown unfolded

/**
 * A card: a title, a state, and sections that views add.
 * @param {string} kind @param {string} name
 */
function card(kind, name) {
  const label = h("span", { class: "label" }, kind);
  const title = h("span", { class: "card-name" }, name);
  const state = h("span", { class: "state" });
  const body = h("div", { class: "card-body" });
  const head = h("div", { class: "card-head" }, label, title, state);
  const element = h("section", { class: "item card", "aria-label": kind }, head, body);
  return { element, label, title, state, body };
}

/** @param {string} label @param {string} text @param {string} [name] */
function section(label, text, name = "") {
  const shown = h("pre", { tabindex: 0 }, h("code", {}, text));
  return h("div", { class: `part ${name}` }, h("span", { class: "label" }, label), shown);
}

/** A section that is folded where it is long. @param {string} label @param {string} text */
function foldable(label, text) {
  if (text.length <= MOST_UNFOLDED) return section(label, text);
  return fold(`${label} · ${TEXT.characters(text.length)}`, h("pre", { tabindex: 0 }, h("code", {}, text)));
}

/** @param {string} title @param {Node} shown */
function fold(title, shown) {
  return h("details", { class: "part" }, h("summary", { class: "label" }, title), shown);
}

const OUTSIDE_STRINGS = /("(?:[^"\\]|\\.)*")|\s+/g;

/** JSON with indentation, anything else as it is. @param {string} text */
function pretty(text) {
  try {
    const value = JSON.parse(text);
    // Long numbers and names that occur twice would be shown otherwise than they are sent.
    const isSame = JSON.stringify(value) === text.replace(OUTSIDE_STRINGS, "$1");
    return isSame ? JSON.stringify(value, null, 2) : text;
  } catch {
    return text;
  }
}

/** @param {string} kind @param {string} label @returns {ItemView} */
export function callView(kind, label) {
  const { element, title, state, body } = card(kind, "…");
  const shown = h("code");
  body.append(h("div", { class: "part" }, h("span", { class: "label" }, label), h("pre", { tabindex: 0 }, shown)));
  return {
    element,
    event(event) {
      if (event.type.endsWith(".delta")) shown.append(event.delta);
      else if (event.item?.name) title.textContent = event.item.name;
    },
    done(item) {
      title.textContent = item.namespace ? `${item.namespace}.${item.name}` : item.name;
      body.replaceChildren(foldable(label, pretty(item.arguments ?? item.input ?? "")));
      state.textContent = item.status ?? "";
    },
    cut() {
      state.textContent = TEXT.cut;
    },
  };
}

/** @param {Actions} actions @returns {ItemView} */
export function approvalView(actions) {
  const { element, title, state, body } = card(TEXT.approval, "…");
  return {
    element,
    event() {},
    cut() {},
    done(item) {
      title.textContent = `${item.server_label} · ${item.name}`;
      const answer = (/** @type {boolean} */ yes) => {
        state.textContent = yes ? TEXT.approved : TEXT.denied;
        actions.approve(item, yes);
      };
      const buttons = h(
        "div",
        { class: "buttons reply" },
        button(TEXT.approve, () => answer(true), { class: "primary" }),
        button(TEXT.deny, () => answer(false)),
      );
      body.replaceChildren(section(TEXT.arguments, pretty(item.arguments ?? "")), buttons);
    },
  };
}

const NAMES = /** @type {Record<string, string>} */ ({
  code_interpreter_call: TEXT.codeRun,
  web_search_call: TEXT.webSearch,
  mcp_list_tools: TEXT.mcpTools,
  mcp_call: TEXT.mcpCall,
});

const ACTIONS = /** @type {Record<string, string>} */ ({
  open_page: TEXT.pageOpened,
  find_in_page: TEXT.pageSearched,
});

/**
 * A call of a tool that the server runs: its state, its input as it arrives, its results.
 * @param {any} begun @returns {ItemView}
 */
export function hostedView(begun) {
  const kind = NAMES[begun.type] ?? begun.type.replace(/_call$/, "").replaceAll("_", " ");
  const { element, label, title, state, body } = card(kind, hostedTitle(begun));
  element.classList.add("hosted");
  state.textContent = TEXT.running;
  const arriving = h("code");
  return {
    element,
    event(event) {
      if (event.type.endsWith(".delta")) {
        if (!arriving.isConnected) body.append(h("pre", { tabindex: 0 }, arriving));
        arriving.append(event.delta);
      } else if (event.type.startsWith(`response.${begun.type}.`)) {
        state.textContent = event.type.split(".").pop()?.replaceAll("_", " ") ?? "";
      }
    },
    done(item) {
      state.textContent = (item.status ?? "completed").replaceAll("_", " ");
      title.textContent = hostedTitle(item);
      label.textContent = ACTIONS[item.action?.type] ?? kind;
      body.replaceChildren(...hostedParts(item));
    },
    cut() {
      state.textContent = TEXT.cut;
    },
  };
}

/** @param {any} item @returns {string} */
function hostedTitle(item) {
  const action = item.action ?? {};
  if (item.type === "web_search_call") return action.query || action.pattern || "";
  if (item.server_label) return [item.server_label, item.name].filter(Boolean).join(" · ");
  return item.name ?? "";
}

/** @param {any} item @returns {Node[]} */
function hostedParts(item) {
  const parts = [];
  if (item.code) parts.push(markup(fenced(item.code)));
  if (item.arguments) parts.push(foldable(TEXT.arguments, pretty(item.arguments)));
  for (const output of item.outputs ?? []) {
    if (output.type === "logs") parts.push(foldable(TEXT.output, output.logs));
    else if (/^data:image\//.test(output.url ?? "")) {
      parts.push(h("img", { src: output.url, alt: TEXT.figure }));
    } else if (output.url) parts.push(link(output.url));
  }
  if (item.output) parts.push(foldable(TEXT.output, pretty(item.output)));
  if (item.error) parts.push(section(TEXT.error, errorText(item.error), "error"));
  parts.push(...foundParts(item));
  if (item.tools) parts.push(toolNames(item.tools));
  return parts;
}

/** @param {any[]} tools */
function toolNames(tools) {
  const names = h("p", {}, tools.map(({ name }) => name).join(", "));
  return tools.length > MOST_TOOLS ? fold(TEXT.toolCount(tools.length), names) : names;
}

/** Python as Markdown, in a fence that is longer than all in it. @param {string} code */
function fenced(code) {
  const runs = code.match(/`{3,}/g) ?? [];
  const fence = "`".repeat(runs.reduce((most, { length }) => Math.max(most, length + 1), 3));
  return `${fence}python\n${code}\n${fence}`;
}

/** @param {any} error */
function errorText(error) {
  return typeof error === "string" ? error : (error.message ?? pretty(JSON.stringify(error)));
}

/** What a search found, or the page that was opened. @param {any} item @returns {Node[]} */
function foundParts(item) {
  const found = [...(item.results ?? item.action?.sources ?? [])];
  if (item.action?.url) found.push({ url: item.action.url });
  if (!found.length) return [];
  const rows = found.map((each) => {
    const row = h("li", {}, link(each.url ?? "", each.title ?? each.filename));
    const text = each.snippet ?? each.text;
    if (text) row.append(h("p", { class: "hint" }, text));
    return row;
  });
  return [h("ul", { class: "sources" }, ...rows)];
}
