// @ts-check
/**
 * Citations of a message: links within its text, and a list of its sources. What a browser cannot open,
 * such as a file that the server has searched, has its title in place of a link.
 */

import { h } from "./dom.js";
import { isFile } from "./files.js";
import { TEXT } from "./text.js";

/** The text of a part, in which citations are Markdown links. @param {any} part */
export function withLinks(part) {
  // Indices count characters, of which JavaScript's strings may have two units.
  const characters = Array.from(part.text ?? "");
  const all = part.annotations ?? [];
  const notes = all.filter(isCitation);
  /** @type {[string, string][]} */
  const links = all.filter(isFile).map((/** @type {any} */ note) => {
    return [characters.slice(note.start_index, note.end_index).join(""), note.filename ?? ""];
  });
  for (const note of [...notes].sort((a, b) => b.start_index - a.start_index)) {
    const cited = characters.slice(note.start_index, note.end_index).join("");
    if (isLink(note.url) && cited.includes("](")) continue; // a link already
    const length = note.end_index - note.start_index;
    const label = plain(titleOf(note));
    const shown = isLink(note.url) ? `[${label}](<${destination(note.url)}>)` : `(${label})`;
    characters.splice(note.start_index, length, ` ${shown}`);
  }
  return links.reduce(withoutLinks, characters.join(""));
}

/**
 * The text with the labels of links to a file in place of the links: no browser can open `sandbox:`.
 * @param {string} text @param {[string, string]} file its address and its name
 */
function withoutLinks(text, [address, name]) {
  if (!address) return text;
  const escaped = address.replace(/[\\^$.*+?()[\]{}|]/g, "\\$&");
  const link = new RegExp(`!?\\[([^[\\]\\n]*)\\]\\(<?${escaped}>?(?:\\s+"[^"\\n]*")?\\)`, "g");
  return text.replace(link, (_, label) => label || plain(name));
}

/** A text without any mark of Markdown. With backslashes, brackets would begin a formula. @param {string} text */
const plain = (text) =>
  text.replace(/\s+/g, " ").replace(/[!-/:-@[-`{-~]/g, (mark) => `&#${mark.charCodeAt(0)};`);

/** An address between angle brackets. Its own escapes stay. @param {string} url */
const destination = (url) => url.replace(/[\s<>\\]/g, encodeURIComponent).replaceAll("&", "&amp;");

/** The text of a message as Markdown. @param {any} message @returns {string} */
export function messageText({ content }) {
  return (content ?? []).map((/** @type {any} */ part) => part.refusal ?? withLinks(part)).join("");
}

/** Whether an annotation cites a source. @param {any} note */
export const isCitation = (note) => note.type === "url_citation" && Boolean(note.url);

/** Whether a browser can open an address. @param {string} url */
const isLink = (url) => /^https?:\/\//i.test(url);

/** @param {any} note @returns {string} */
const titleOf = (note) => note.title || host(note.url);

/** @param {string} url */
function host(url) {
  try {
    return new URL(url).host;
  } catch {
    return url;
  }
}

/** @param {any[]} notes */
export function sources(notes) {
  const links = new Map(notes.filter(isCitation).map((note) => [note.url, titleOf(note)]));
  const list = h("ul", {});
  for (const [url, title] of links) list.append(h("li", {}, link(url, title)));
  return h("div", { class: "sources" }, h("span", { class: "label" }, TEXT.sources), list);
}

/** @param {string} url @param {string} [title] */
export function link(url, title) {
  if (!isLink(url)) return h("span", { title: url }, title ?? url);
  return h("a", { href: url, target: "_blank", rel: "noopener noreferrer nofollow" }, title ?? url);
}
