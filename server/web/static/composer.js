// @ts-check
/** The message box: Enter sends, Shift+Enter adds a line, Escape stops the answer. */

import { direction, h } from "./dom.js";
import { tabShelf } from "./storage.js";
import { TEXT } from "./text.js";

const DRAFT = "gpt-oss-draft-";

export class Composer {
  /**
   * @param {{send: (text: string) => Promise<boolean>, stop: () => void, typing: () => void, name: () => string}} actions
   * `name` is that of the chat: each has a draft of its own.
   */
  constructor({ send, stop, typing, name }) {
    this.send = send;
    this.stop = stop;
    this.name = name;
    this.running = false;
    /** @type {Set<string>} the names of the chats whose text is being sent */
    this.sending = new Set();
    this.box = h("textarea", {
      "aria-label": TEXT.message,
      placeholder: TEXT.placeholder,
      rows: 1,
      oninput: () => {
        this.keep();
        typing();
      },
      onkeydown: (/** @type {KeyboardEvent} */ event) => this.onKey(event),
    });
    // The second click of a double click would stop what the first one has sent.
    const onclick = (/** @type {MouseEvent} */ event) => event.detail > 1 && event.preventDefault();
    this.button = h("button", { class: "primary", onclick }, TEXT.send);
    this.element = h("form", { class: "composer" }, this.box, this.button);
    this.element.addEventListener("submit", (event) => {
      event.preventDefault();
      if (this.running) this.stop();
      else void this.submit();
    });
  }

  /** @param {KeyboardEvent} event */
  onKey(event) {
    // The key belongs to the input method. Safari says so by its code only.
    if (event.isComposing || event.keyCode === 229) return;
    if (event.key === "Enter" && !event.shiftKey) {
      event.preventDefault();
      if (!this.running) void this.submit();
    } else if (event.key === "Escape" && this.running) {
      this.stop();
    }
  }

  /** Send what is typed. It stays where the request cannot begin. */
  async submit() {
    const text = this.box.value;
    const name = this.name();
    if (!text.trim() || this.sending.has(name)) return;
    this.sending.add(name);
    try {
      if (!(await this.send(text))) return;
      this.forget(name); // the chat may have another one since
      this.set(this.box.value === text ? "" : this.box.value);
    } finally {
      this.sending.delete(name);
    }
  }

  /** Store what is typed, so that a reload does not lose it. */
  keep() {
    this.box.dir = direction(this.box.value);
    if (this.box.value) tabShelf.set(DRAFT + this.name(), this.box.value);
    else this.forget(this.name());
  }

  /** Show the draft of the chat that is open now. */
  read() {
    this.box.value = tabShelf.get(DRAFT + this.name()) ?? "";
    this.box.dir = direction(this.box.value);
  }

  /** Forget the draft of a chat. @param {string} name */
  forget(name) {
    tabShelf.remove(DRAFT + name);
  }

  /** @param {string} text */
  set(text) {
    this.box.value = text;
    this.keep();
  }

  /** @param {boolean} running */
  setRunning(running) {
    this.running = running;
    this.button.textContent = running ? TEXT.stop : TEXT.send;
    this.button.classList.toggle("stop", running);
  }

  focus() {
    this.box.focus({ preventScroll: true });
  }
}
