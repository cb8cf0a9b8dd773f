// @ts-check
/** Shows what somebody typed, and the form that changes it. */

import { button, direction, h } from "./dom.js";
import { TEXT } from "./text.js";

/** What was typed, with a button that changes it. @param {string} text @param {(text: string) => Promise<boolean>} resend */
export function question(text, resend) {
  const shown = h("div", { class: "typed", dir: direction(text) }, text);
  const element = h("div", { class: "question" }, shown);
  const edit = () => {
    const opener = /** @type {HTMLElement | null} */ (document.activeElement);
    const field = h("textarea", { rows: 3, "aria-label": TEXT.edit, value: text });
    const done = () => form.replaceWith(shown);
    const cancel = () => {
      done();
      opener?.focus();
    };
    const form = h(
      "form",
      { class: "edit" },
      field,
      h(
        "div",
        { class: "buttons" },
        h("button", { class: "primary" }, TEXT.save),
        button(TEXT.cancel, cancel),
      ),
    );
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      if (await resend(field.value)) done();
    });
    form.addEventListener("keydown", (event) => {
      // An input method closes its list of words with the key.
      if (event.key === "Escape" && !event.isComposing) cancel();
    });
    shown.replaceWith(form);
    field.focus();
  };
  return { element, edit };
}
