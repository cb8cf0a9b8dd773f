// @ts-check
/** Chooses messages by role, channel and recipient. */

import { button, h } from "./dom.js";
import { INSPECTOR } from "./labels.js";
import { colour } from "./tokens.js";

/** @typedef {import("./tokens.js").Message} Message */

/** @type {{name: string, label: string, of: (message: Message) => string | null}[]} */
const FIELDS = [
  { name: "role", label: INSPECTOR.role, of: (message) => message.role },
  { name: "channel", label: INSPECTOR.channel, of: (message) => message.channel },
  { name: "recipient", label: INSPECTOR.recipient, of: (message) => message.recipient },
];

/**
 * A message whose colour stands for a value; messages of the assistant have that of their channel.
 * @param {string} name @param {string} value @param {Message[]} messages
 */
function example(name, value, messages) {
  if (name === "recipient" || value === "assistant") return undefined;
  return messages.find((message) => (name === "role" ? message.role === value : message.channel === value && message.role === "assistant"));
}

export class Filters {
  /** @param {(hidden: Set<number>) => void} onchange gets the places of the hidden messages */
  constructor(onchange) {
    this.onchange = onchange;
    /** @type {Set<string>} */
    this.off = new Set();
    /** @type {Message[]} */
    this.messages = [];
    this.element = h("div", { class: "filters", role: "group", "aria-label": INSPECTOR.filters });
  }

  /** @param {Message[]} messages */
  show(messages) {
    this.messages = messages;
    const rows = FIELDS.map(({ name, label, of }) => {
      const values = [...new Set(messages.map(of))].filter((value) => value !== null);
      if (!values.length) return null;
      const toggles = values.map((value) => this.toggle(`${name}:${value}`, String(value), example(name, String(value), messages)));
      return h("span", { class: "filter-row" }, h("span", { class: "label" }, label), ...toggles);
    });
    this.element.replaceChildren(...rows.filter((row) => row !== null));
  }

  /** @param {string} key @param {string} label @param {Message | undefined} like for its colour */
  toggle(key, label, like) {
    const control = button(label, () => {
      if (!this.off.delete(key)) this.off.add(key);
      control.setAttribute("aria-pressed", String(!this.off.has(key)));
      this.onchange(this.hidden);
    }, { class: `filter ${like ? colour(like) : ""}`, "aria-pressed": String(!this.off.has(key)) });
    return control;
  }

  /** The places of the messages that are hidden. @returns {Set<number>} */
  get hidden() {
    /** @type {Set<number>} */
    const hidden = new Set();
    this.messages.forEach((message, place) => {
      if (FIELDS.some(({ name, of }) => this.off.has(`${name}:${of(message)}`))) hidden.add(place);
    });
    return hidden;
  }
}
