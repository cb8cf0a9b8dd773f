// @ts-check
/** Starts the page: its views by the address, the theme, and the key. */

import { key, onKeyNeeded, setKey } from "./api.js";
import { ChatView } from "./chat.js";
import { button, dialog, h } from "./dom.js";
import { browserShelf } from "./storage.js";
import { TEXT } from "./text.js";

const THEME = "gpt-oss-theme";
const THEMES = ["system", "light", "dark"];

/** @typedef {{element: HTMLElement, title: string, shown?: () => void, hidden?: () => void}} View */

/** @type {Record<string, () => Promise<View>>} */
const MAKERS = {
  chat: async () => chat,
  inspector: async () => new (await import("./inspector.js")).InspectorView(),
  load: async () => new (await import("./load.js")).LoadView(),
};

/** @type {Map<string, Promise<View>>} */
const views = new Map();
/** @type {View | null} */
let current = null;

const main = /** @type {HTMLElement} */ (document.getElementById("view"));

/** The view that the address names. */
function named() {
  const name = location.hash.slice(1);
  return Object.hasOwn(MAKERS, name) ? name : "chat";
}

async function route() {
  const name = named();
  for (const link of document.querySelectorAll("nav a")) {
    if (link.getAttribute("href") === `#${name}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  if (!views.has(name)) views.set(name, MAKERS[name]());
  let view;
  try {
    view = /** @type {View} */ (await views.get(name));
  } catch {
    views.delete(name); // the next visit tries again
    view = { title: "", element: h("p", { class: "notice error", role: "alert" }, TEXT.noScripts) };
  }
  // Another view may have been chosen while the scripts of this one were loading.
  if (view === current || name !== named()) return;
  current?.hidden?.();
  // A view that leaves the page would lose the heights of its parts, and with them its place.
  for (const other of main.children) other.toggleAttribute("hidden", other !== view.element);
  if (!view.element.isConnected) main.append(view.element);
  current = view;
  showTitle();
  view.shown?.();
}

/** The title of the page is that of its view. */
function showTitle() {
  const title = current?.title ?? "";
  document.title = title ? `${title} · ${TEXT.title}` : TEXT.title;
  const heading = /** @type {HTMLElement} */ (document.getElementById("title"));
  heading.textContent = title || TEXT.title;
}

/** @param {string} theme */
function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  const control = /** @type {HTMLElement} */ (document.getElementById("theme"));
  const name = /** @type {Record<string, string>} */ (TEXT.themes)[theme] ?? TEXT.themes.system;
  control.replaceChildren(h("span", { class: "long" }, TEXT.theme), name);
  control.setAttribute("aria-label", TEXT.theme + name);
  browserShelf.set(THEME, theme);
}

function nextTheme() {
  const at = THEMES.indexOf(document.documentElement.dataset.theme ?? "system");
  setTheme(THEMES[(at + 1) % THEMES.length]);
}

/** @type {Promise<boolean> | null} */
let asking = null;

/** Ask for the key; several requests share one dialog. @param {boolean} refused whether the server refused the one there is @returns {Promise<boolean>} */
function askForKey(refused) {
  asking ??= new Promise((resolve) => {
    const before = key();
    const field = h("input", { type: "password", "aria-label": TEXT.keyLabel, autocomplete: "off", value: key() });
    const wrong = h("p", { class: "notice error", hidden: !(refused && key()), role: "alert" }, TEXT.keyWrong);
    const form = h("form", { class: "key-form" }, h("p", {}, TEXT.keyText), wrong, field);
    form.append(h("div", { class: "buttons" }, h("button", { class: "primary" }, TEXT.keySave)));
    if (key()) {
      const forget = () => {
        setKey("");
        shown.close();
      };
      form.lastElementChild?.append(button(TEXT.keyForget, forget));
    }
    const shown = dialog(TEXT.keyTitle, TEXT.close, form);
    let given = false;
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      given = Boolean(field.value.trim());
      if (given) setKey(field.value.trim());
      shown.close();
    });
    shown.addEventListener("close", () => {
      asking = null;
      if (key() !== before) chat.sidebar.clearStored();
      resolve(given);
    });
    field.focus();
  });
  return asking;
}

async function changeKey() {
  if (await askForKey(false)) await chat.options.readModels();
}

const chat = new ChatView(showTitle);
onKeyNeeded(() => askForKey(true));
setTheme(browserShelf.get(THEME) ?? "system");
document.getElementById("theme")?.addEventListener("click", nextTheme);
document.getElementById("key")?.addEventListener("click", () => void changeKey());
// The address says which view is shown: the link must not change it.
document.querySelector(".skip")?.addEventListener("click", (event) => {
  event.preventDefault();
  main.focus();
});
addEventListener("hashchange", () => void route());
void route();
void chat.options.readModels();
