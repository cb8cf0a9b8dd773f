// @ts-check
/** Makes elements, and puts HTML of the server into them safely. */

/**
 * An element. Properties that begin with `on` are listeners; `class`, `aria-…` and the like are
 * attributes; null and false leave a property out.
 *
 * @template {keyof HTMLElementTagNameMap} K
 * @param {K} tag
 * @param {Record<string, any>} [props]
 * @param {...(Node | string | null | undefined)} children
 * @returns {HTMLElementTagNameMap[K]}
 */
export function h(tag, props = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") element.addEventListener(name.slice(2), value);
    else if (name === "value") /** @type {any} */ (element).value = value;
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children) if (child !== null && child !== undefined) element.append(child);
  return element;
}

const FROM_THE_RIGHT = /^\P{L}*[\p{sc=Arab}\p{sc=Hebr}\p{sc=Syrc}\p{sc=Thaa}\p{sc=Nkoo}]/u;

/**
 * The direction in which a text is written, by its first letter. With `dir="auto"` instead, each change
 * of a text of 300,000 characters takes a second.
 * @param {string} text
 */
export function direction(text) {
  return FROM_THE_RIGHT.test(text.slice(0, 100)) ? "rtl" : "ltr";
}

/** Say something to screen readers. @param {string} text */
export function announce(text) {
  const status = document.getElementById("status");
  if (status) status.textContent = text;
}

/**
 * A button.
 * @param {string} label @param {(event: Event) => void} onclick @param {Record<string, any>} [props]
 */
export function button(label, onclick, props = {}) {
  return h("button", { type: "button", onclick, ...props }, label);
}

const PANEL_WIDTHS = ["(min-width: 48rem)", "(max-width: 72rem)"]; // where style.css moves panels

/**
 * Make `panel` a drawer: where the page is too narrow to show it beside the rest, the button that is
 * returned opens it.
 * @param {HTMLElement} panel @param {string} label
 */
export function drawer(panel, label) {
  const opener = h("button", { type: "button", class: "quiet", popovertarget: panel.id }, label);
  panel.popover = "auto";
  panel.addEventListener("beforetoggle", () => {
    panel.style.top = `${opener.getBoundingClientRect().bottom}px`;
  });
  panel.addEventListener("toggle", () => {
    if (!panel.matches(":popover-open") || panel.contains(document.activeElement)) return;
    /** @type {HTMLElement | null} */ (panel.querySelector("button, select"))?.focus();
  });
  // Beside the rest, it would still lie above it.
  for (const width of PANEL_WIDTHS) matchMedia(width).addEventListener("change", () => panel.hidePopover());
  return opener;
}

/** Open the drawer, unless it is beside the rest. @param {HTMLElement} panel */
export function openDrawer(panel) {
  if (getComputedStyle(panel).position === "fixed") panel.togglePopover(true);
}

/**
 * A modal dialog with a title. It is removed when it closes. A drawer, which it closes, opens again then.
 * @param {string} title @param {string} closeLabel @param {...Node} children
 */
export function dialog(title, closeLabel, ...children) {
  const heading = h("h2", {}, title);
  const element = h(
    "dialog",
    { "aria-label": title },
    h(
      "div",
      { class: "dialog-head" },
      heading,
      button(closeLabel, () => element.close(), { class: "quiet" }),
    ),
    ...children,
  );
  const opener = /** @type {HTMLElement | null} */ (document.activeElement);
  const panel = /** @type {HTMLElement | null} */ (document.querySelector(".side:popover-open"));
  element.addEventListener("close", () => {
    element.remove();
    if (!panel) return;
    openDrawer(panel);
    opener?.focus();
  });
  document.body.append(element);
  element.showModal();
  return element;
}

const HTML_NAMES =
  "a blockquote br code del div em h1 h2 h3 h4 h5 h6 hr li ol p pre s span strong table tbody td th thead tr ul";
const MATH_NAMES =
  "math merror mfenced mfrac mi mmultiscripts mn mo mover mpadded mphantom mprescripts mroot mrow ms mspace msqrt mstyle msub msubsup msup mtable mtd mtext mtr munder munderover none";
const ATTRIBUTES =
  "accent accentunder align class columnalign columnlines columnspacing data-language data-tex depth display displaystyle fence form height href largeop linethickness lspace mathsize mathvariant maxsize minsize movablelimits rel rowspacing rowlines rspace scriptlevel separator separators start stretchy symmetric target title voffset width";
const MATH_NAMESPACE = "http://www.w3.org/1998/Math/MathML";
const ELEMENT_NAMES = new Set([...HTML_NAMES.split(" "), ...MATH_NAMES.split(" ")]);
const ATTRIBUTE_NAMES = new Set(ATTRIBUTES.split(" "));

const LINK = /^\s*(?:https?:\/\/|mailto:|#)/i;

/** @type {any} */
let sanitizer;
/** @type {any} */
let policy;

/**
 * Replace the element's content by HTML of which only allowed elements and attributes remain.
 * @param {Element} element @param {string} html
 */
export function setSafeHTML(element, html) {
  const target = /** @type {any} */ (element);
  if (typeof target.setHTML !== "function") {
    element.replaceChildren(...cleaned(html));
    return;
  }
  const Sanitizer = /** @type {any} */ (globalThis).Sanitizer;
  sanitizer ??= new Sanitizer({
    elements: [
      ...HTML_NAMES.split(" "),
      ...MATH_NAMES.split(" ").map((name) => ({ name, namespace: MATH_NAMESPACE })),
    ],
    attributes: [...ATTRIBUTE_NAMES],
    dataAttributes: false,
  });
  target.setHTML(html, { sanitizer });
  // It removes links to javascript: only.
  for (const link of element.querySelectorAll("[href]")) {
    if (!LINK.test(link.getAttribute("href") ?? "")) link.removeAttribute("href");
  }
}

/**
 * The nodes of `html` without anything that is not allowed, for browsers without `setHTML`.
 * The document that parses it runs no scripts and loads nothing.
 * @param {string} html @returns {Node[]}
 */
function cleaned(html) {
  const types = /** @type {any} */ (globalThis).trustedTypes;
  policy ??= types ? types.createPolicy("gpt-oss-fallback", { createHTML: (/** @type {string} */ s) => s }) : { createHTML: (/** @type {string} */ s) => s };
  const parsed = new DOMParser().parseFromString(policy.createHTML(html), "text/html");
  clean(parsed.body);
  return [...parsed.body.childNodes].map((node) => document.importNode(node, true));
}

/** @param {Element} parent */
function clean(parent) {
  for (const node of [...parent.childNodes]) {
    if (node.nodeType === Node.TEXT_NODE) continue;
    if (!(node instanceof Element) || !isAllowed(node)) {
      node.remove();
      continue;
    }
    for (const { name, value } of [...node.attributes]) {
      const isBad = name === "href" && !LINK.test(value);
      if (!ATTRIBUTE_NAMES.has(name) || isBad) node.removeAttribute(name);
    }
    clean(node);
  }
}

/** @param {Element} element */
function isAllowed(element) {
  const math = MATH_NAMES.split(" ").includes(element.localName);
  const namespace = math ? MATH_NAMESPACE : "http://www.w3.org/1999/xhtml";
  return ELEMENT_NAMES.has(element.localName) && element.namespaceURI === namespace;
}
