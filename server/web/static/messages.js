// @ts-check
/** The messages of harmony as cards, with the repairs of each. */

import { button, h } from "./dom.js";
import { INSPECTOR } from "./labels.js";
import { colour } from "./tokens.js";

/** @typedef {import("./tokens.js").Message} Message */

const MOST_CHARACTERS = 10_000; // of a message, until somebody asks for all of it

export class MessagePane {
  /**
   * @param {(place: number) => void} onpick gets the place of a message
   * @param {(place: number) => (content: string) => void} onedit returns what takes the new content of a message
   */
  constructor(onpick, onedit) {
    this.onedit = onedit;
    /** @type {HTMLTextAreaElement | null} where a message is edited */
    this.field = null;
    /** @type {Map<number, HTMLElement>} */
    this.cards = new Map();
    this.element = h("div", { class: "messages", tabindex: 0, role: "group", "aria-label": INSPECTOR.messages });
    this.element.addEventListener("pointerover", (event) => {
      const card = /** @type {Element} */ (event.target).closest(".card");
      for (const [place, each] of this.cards) if (each === card) onpick(place);
    });
  }

  /** @param {Message[]} messages @param {Set<number>} [hidden] */
  show(messages, hidden = new Set()) {
    this.cards.clear();
    messages.forEach((message, place) => {
      if (!hidden.has(place)) this.cards.set(place, this.card(message, place));
    });
    this.element.replaceChildren(...this.cards.values());
  }

  /** Mark a message, and scroll to it if it is out of view. @param {number} place */
  mark(place) {
    this.element.querySelector(".marked")?.classList.remove("marked");
    const card = this.cards.get(place);
    if (!card) return;
    card.classList.add("marked");
    const view = this.element.getBoundingClientRect();
    const { top, bottom } = card.getBoundingClientRect();
    if (bottom < view.top || top > view.bottom) this.element.scrollTop += top - view.top;
  }

  /** @param {Message} message @param {number} place */
  card(message, place) {
    const kind = message.channel ? `${message.role} · ${message.channel}` : message.role;
    const head = h("div", { class: "card-head" }, h("span", { class: `filter ${colour(message)}` }, kind));
    if (message.recipient) head.append(h("span", { class: "card-name" }, `→ ${message.recipient}`));
    if (message.content_type) head.append(h("span", { class: "card-name" }, message.content_type));
    for (const { name } of message.repairs) head.append(h("span", { class: "repair" }, name.replaceAll("_", " ")));
    if (!message.complete) head.append(h("span", { class: "repair" }, INSPECTOR.incomplete));
    const body = h("div", { class: "card-body" });
    const shown = content(message.content);
    body.append(shown);
    head.append(button(INSPECTOR.edit, () => this.edit(message, place, shown), { class: "quiet", "aria-label": INSPECTOR.editMessage(place + 1) }));
    return h("div", { class: "card" }, head, body);
  }

  /** @param {Message} message @param {number} place @param {HTMLElement} shown */
  edit(message, place, shown) {
    const field = h("textarea", { rows: 6, value: message.content, spellcheck: "false", "aria-label": INSPECTOR.contentOf(place + 1) });
    // What is around the content is taken when typing begins: another message may be read until then.
    /** @type {((content: string) => void) | null} */
    let write = null;
    field.addEventListener("input", () => {
      write ??= this.onedit(place);
      write(field.value);
    });
    this.field?.replaceWith(content(this.field.value)); // one at a time
    this.field = field;
    shown.replaceWith(field);
    field.focus();
  }
}

/** @param {string} text */
function content(text) {
  const code = h("code", {}, text.slice(0, MOST_CHARACTERS));
  const shown = h("pre", { tabindex: 0 }, code);
  if (text.length > MOST_CHARACTERS) {
    const more = button(INSPECTOR.showAll(text.length), () => {
      code.textContent = text;
      more.remove();
    });
    shown.append(more);
  }
  return shown;
}
