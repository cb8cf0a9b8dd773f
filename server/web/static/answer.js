// @ts-check
/**
 * Shows one answer: follows the events of its stream, or shows a stored response. Each kind of item
 * has a view that follows the item's events.
 */

import { button, h } from "./dom.js";
import { Markup, markup } from "./markup.js";
import { TEXT } from "./text.js";

/**
 * @typedef {{
 *   element: HTMLElement,
 *   event: (event: any) => void,
 *   done: (item: any) => void,
 * }} ItemView
 * `event` gets the events that name the item, `done` the item as it ended.
 *
 * @typedef {{approve: (item: any, approve: boolean) => void}} Actions
 */

/** The view of an item. @param {any} item @param {Actions} actions @returns {ItemView} */
function itemView(item, actions) {
  switch (item.type) {
    case "message":
      return messageView(item);
    case "reasoning":
      return reasoningView();
    case "function_call":
      return callView(TEXT.call, TEXT.arguments);
    case "custom_tool_call":
      return callView(TEXT.customCall, TEXT.input);
    case "mcp_approval_request":
      return approvalView(actions);
    default:
      return hostedView(item);
  }
}

/** @param {any} item @returns {ItemView} */
function messageView(item) {
  const preamble = item.phase === "commentary";
  const text = new Markup();
  let streamed = false;
  const element = h("div", { class: preamble ? "item preamble" : "item message" });
  if (preamble) element.append(h("span", { class: "label" }, TEXT.preamble));
  element.append(text.element);
  return {
    element,
    event(event) {
      if (event.type === "response.output_text.delta" || event.type === "response.refusal.delta") {
        streamed = true;
        text.push(event.delta);
      }
    },
    done(ended) {
      const parts = ended.content ?? [];
      const notes = parts.flatMap((/** @type {any} */ part) => part.annotations ?? []);
      if (notes.length) {
        text.element.replaceWith(markup(parts.map(withLinks).join("")), sources(notes));
        return;
      }
      // A stored message comes without deltas.
      if (!streamed) text.push(parts.map((/** @type {any} */ part) => part.text ?? part.refusal ?? "").join(""));
      text.end();
    },
  };
}

/** The text of a part, in which citations are Markdown links. @param {any} part */
function withLinks(part) {
  // Indices count characters, of which JavaScript's strings may have two units.
  const characters = Array.from(part.text ?? "");
  const notes = (part.annotations ?? []).filter(isLink);
  for (const note of [...notes].sort((a, b) => b.start_index - a.start_index)) {
    const cited = characters.slice(note.start_index, note.end_index).join("");
    if (cited.includes("](")) continue; // a link already
    const label = (note.title || host(note.url)).replace(/[[\]\\]/g, "\\$&");
    const length = note.end_index - note.start_index;
    characters.splice(note.start_index, length, ` [${label}](<${encodeURI(decode(note.url))}>)`);
  }
  return characters.join("");
}

/** @param {string} url */
function decode(url) {
  try {
    return decodeURI(url);
  } catch {
    return url;
  }
}

/** @param {any} note */
const isLink = (note) => note.type === "url_citation" && /^https?:\/\//i.test(note.url ?? "");

/** @param {string} url */
function host(url) {
  try {
    return new URL(url).host;
  } catch {
    return url;
  }
}

/** @param {any[]} notes */
function sources(notes) {
  const links = new Map(notes.filter(isLink).map((note) => [note.url, note.title || host(note.url)]));
  const list = h("ul", {});
  for (const [url, title] of links) list.append(h("li", {}, link(url, title)));
  return h("div", { class: "sources" }, h("span", { class: "label" }, TEXT.sources), list);
}

/** @param {string} url @param {string} [title] */
function link(url, title) {
  if (!/^https?:\/\//i.test(url)) return h("span", {}, url);
  return h("a", { href: url, target: "_blank", rel: "noopener noreferrer nofollow" }, title ?? url);
}

/** @returns {ItemView} */
function reasoningView() {
  const body = h("div", { class: "reasoning-text" });
  const node = document.createTextNode("");
  body.append(node);
  const title = h("span", {}, TEXT.thinking);
  const element = h("details", { class: "item reasoning" }, h("summary", {}, title), body);
  const began = performance.now();
  let parts = 0;
  let waiting = "";
  let frame = 0;
  const draw = () => {
    frame = 0;
    node.appendData(waiting);
    waiting = "";
  };
  return {
    element,
    event(event) {
      if (event.type === "response.reasoning_summary_part.added" && parts++) waiting += "\n\n";
      if (/^response\.reasoning_(summary_)?text\.delta$/.test(event.type)) {
        waiting += event.delta;
        frame ||= requestAnimationFrame(draw);
      }
    },
    done(ended) {
      cancelAnimationFrame(frame);
      const raw = (ended.content ?? []).map((/** @type {any} */ part) => part.text).join("\n\n");
      const summary = (ended.summary ?? []).map((/** @type {any} */ part) => part.text).join("\n\n");
      node.data = raw || summary;
      const seconds = (performance.now() - began) / 1000;
      const took = seconds > 0.5 ? ` · ${seconds.toFixed(1)} s` : "";
      title.textContent = node.data ? TEXT.reasoning + took : TEXT.reasoningHidden;
    },
  };
}

/**
 * A card: a title, a state, and sections that views add.
 * @param {string} kind @param {string} name
 */
function card(kind, name) {
  const title = h("span", { class: "card-name" }, name);
  const state = h("span", { class: "state" });
  const body = h("div", { class: "card-body" });
  const head = h("div", { class: "card-head" }, h("span", { class: "label" }, kind), title, state);
  return { element: h("section", { class: "item card", "aria-label": kind }, head, body), title, state, body };
}

/** @param {string} label @param {string} text @param {string} [name] */
function section(label, text, name = "") {
  return h(
    "div",
    { class: `part ${name}` },
    h("span", { class: "label" }, label),
    h("pre", { tabindex: 0 }, h("code", {}, text)),
  );
}

/** JSON with indentation, anything else as it is. @param {string} text */
function pretty(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

/** @param {string} kind @param {string} label @returns {ItemView} */
function callView(kind, label) {
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
      shown.textContent = pretty(item.arguments ?? item.input ?? "");
      state.textContent = item.status ?? "";
    },
  };
}

/** @param {Actions} actions @returns {ItemView} */
function approvalView(actions) {
  const { element, title, state, body } = card(TEXT.approval, "…");
  return {
    element,
    event() {},
    done(item) {
      title.textContent = `${item.server_label} · ${item.name}`;
      const answer = (/** @type {boolean} */ yes) => {
        buttons.remove();
        state.textContent = yes ? TEXT.approved : TEXT.denied;
        actions.approve(item, yes);
      };
      const buttons = h(
        "div",
        { class: "buttons" },
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
});

/**
 * A call of a tool that the server runs: its state, its input as it arrives, its results.
 * @param {any} begun @returns {ItemView}
 */
function hostedView(begun) {
  const kind = NAMES[begun.type] ?? begun.type.replace(/_call$/, "").replaceAll("_", " ");
  const { element, title, state, body } = card(kind, begun.name ?? "");
  element.classList.add("hosted");
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
      state.textContent = item.status ?? "completed";
      title.textContent = hostedTitle(item);
      body.replaceChildren(...hostedParts(item));
    },
  };
}

/** @param {any} item @returns {string} */
function hostedTitle(item) {
  const action = item.action ?? {};
  if (item.type === "web_search_call") return action.query ?? action.pattern ?? action.url ?? "";
  if (item.server_label) return [item.server_label, item.name].filter(Boolean).join(" · ");
  return item.name ?? "";
}

/** @param {any} item @returns {Node[]} */
function hostedParts(item) {
  const parts = [];
  if (item.code) parts.push(markup("```python\n" + item.code.replaceAll("```", "`\u200b``") + "\n```"));
  if (item.arguments) parts.push(section(TEXT.arguments, pretty(item.arguments)));
  for (const output of item.outputs ?? []) {
    if (output.type === "logs") parts.push(section(TEXT.output, output.logs));
    else if (/^data:image\//.test(output.url ?? "")) {
      parts.push(h("img", { src: output.url, alt: TEXT.figure }));
    } else if (output.url) parts.push(link(output.url));
  }
  if (item.output) parts.push(section(TEXT.output, pretty(item.output)));
  if (item.error) parts.push(section("Error", pretty(JSON.stringify(item.error)), "error"));
  const found = [...(item.action?.sources ?? []), ...(item.results ?? [])];
  if (item.action?.url) found.push({ url: item.action.url });
  if (found.length) {
    const list = h("ul", { class: "sources" });
    for (const each of found) list.append(h("li", {}, link(each.url ?? "", each.title ?? each.filename)));
    parts.push(list);
  }
  if (item.tools) parts.push(h("p", {}, item.tools.map((/** @type {any} */ t) => t.name).join(", ")));
  return parts;
}

/**
 * @typedef {{
 *   approve: (item: any, approve: boolean) => void,
 *   results: (outputs: any[]) => void,
 * }} TurnActions
 */

const CALLS = ["function_call", "custom_tool_call"];

export class Answer {
  /** @param {TurnActions} actions */
  constructor(actions) {
    this.actions = actions;
    this.items = h("div", { class: "items" });
    this.note = h("p", { class: "note" }, TEXT.waiting);
    this.element = h("div", { class: "answer" }, this.items, this.note);
    /** @type {Map<string, ItemView>} */
    this.views = new Map();
    /** @type {any} */
    this.response = null;
    this.began = performance.now();
    this.first = 0;
  }

  reset() {
    this.views.clear();
    this.response = null;
    this.began = performance.now();
    this.first = 0;
    this.items.replaceChildren();
    this.note.textContent = TEXT.waiting;
    this.note.className = "note";
  }

  /** Whether the answer is complete, or ended otherwise. */
  get ended() {
    return Boolean(this.response) && !["queued", "in_progress"].includes(this.response.status);
  }

  /** @param {any} event */
  apply(event) {
    if (event.type === "response.output_item.added") this.open(event.item);
    else if (event.type === "response.output_item.done") this.close(event.item);
    else if (event.item_id) this.views.get(event.item_id)?.event(event);
    else if (event.type === "error") this.fail(event.message);
    else if (event.response) this.follow(event);
    if (!this.first && event.type.endsWith(".delta")) {
      this.first = performance.now() - this.began;
      this.note.textContent = "";
    }
  }

  /** @param {any} item */
  open(item) {
    const view = itemView(item, this.actions);
    this.views.set(item.id, view);
    this.items.append(view.element);
    view.event({ type: "response.output_item.added", item });
  }

  /** @param {any} item */
  close(item) {
    if (!this.views.has(item.id)) this.open(item);
    this.views.get(item.id)?.done(item);
  }

  /** @param {any} event */
  follow(event) {
    this.response = event.response;
    if (event.type === "response.queued") this.note.textContent = TEXT.queued;
    else if (this.ended) this.end();
  }

  /** The response has ended: say how, and offer what comes next. */
  end() {
    const { status, usage, incomplete_details: why, error } = this.response;
    if (status === "failed") this.fail(error?.message ?? TEXT.failed);
    else if (status === "cancelled") this.say(TEXT.interrupted);
    else if (status === "incomplete" && why?.reason === "max_output_tokens") this.say(TEXT.incomplete);
    else this.say("");
    if (usage) this.note.append(h("span", { class: "usage" }, this.usage(usage)));
    if (status === "completed") this.offerResults();
  }

  /** @param {any} usage */
  usage(usage) {
    const cached = usage.input_tokens_details?.cached_tokens;
    const parts = [`${TEXT.tokens(usage.input_tokens)} in${cached ? ` (${cached} cached)` : ""}`];
    const reasoning = usage.output_tokens_details?.reasoning_tokens;
    parts.push(`${usage.output_tokens} out${reasoning ? ` (${reasoning} reasoning)` : ""}`);
    const seconds = (performance.now() - this.began - this.first) / 1000;
    if (this.first && seconds > 0.05) {
      parts.push(`${(usage.output_tokens / seconds).toFixed(0)} tokens/s`);
      parts.push(`first after ${(this.first / 1000).toFixed(2)} s`);
    }
    return parts.join(" · ");
  }

  /** @param {string} text */
  say(text) {
    this.note.className = "note";
    this.note.replaceChildren(text ? h("span", {}, `${text} `) : "");
  }

  /** @param {string} message */
  fail(message) {
    this.note.className = "note error";
    this.note.setAttribute("role", "alert");
    this.note.replaceChildren(message);
  }

  /** A field for the result of each call of a client's function. */
  offerResults() {
    const calls = (this.response.output ?? []).filter((/** @type {any} */ item) => CALLS.includes(item.type));
    if (!calls.length) return;
    const form = h("form", { class: "results" });
    const fields = calls.map((/** @type {any} */ call) => {
      const field = h("textarea", { rows: 2, placeholder: TEXT.resultPlaceholder });
      form.append(h("label", {}, h("span", { class: "label" }, `${TEXT.result}: ${call.name}`), field));
      return { call, field };
    });
    form.append(h("button", { class: "primary" }, TEXT.sendResults));
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      form.remove();
      const output = (/** @type {any} */ { call, field }) => ({
        type: `${call.type}_output`,
        call_id: call.call_id,
        output: field.value,
      });
      this.actions.results(fields.map(output));
    });
    this.items.append(form);
  }

  /** Show a response that the server has stored. @param {any} response @param {boolean} isLast */
  show(response, isLast) {
    this.reset();
    this.response = response;
    for (const item of response.output ?? []) this.close(item);
    this.first = 0;
    this.end();
    if (!isLast) this.settled();
  }

  /** Another turn follows: nothing here can be answered any more. */
  settled() {
    for (const each of this.items.querySelectorAll(".results, .buttons")) each.remove();
  }
}

/** What was typed, with a button that changes it. @param {string} text @param {(text: string) => void} resend */
export function question(text, resend) {
  const shown = h("div", { class: "typed" }, text);
  const element = h("div", { class: "question" }, shown);
  const edit = () => {
    const field = h("textarea", { rows: 3, "aria-label": TEXT.edit, value: text });
    const done = () => form.replaceWith(shown);
    const form = h(
      "form",
      { class: "edit" },
      field,
      h(
        "div",
        { class: "buttons" },
        h("button", { class: "primary" }, TEXT.save),
        button(TEXT.cancel, done),
      ),
    );
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      done();
      resend(field.value);
    });
    shown.replaceWith(form);
    field.focus();
  };
  return { element, edit };
}
