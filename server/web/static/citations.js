// @ts-check
/** Citations of a message: links within its text, and a list of its sources. */

import { h } from "./dom.js";
import { TEXT } from "./text.js";

/** The text of a part, in which citations are Markdown links. @param {any} part */
export function withLinks(part) {
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
export function sources(notes) {
  const links = new Map(notes.filter(isLink).map((note) => [note.url, note.title || host(note.url)]));
  const list = h("ul", {});
  for (const [url, title] of links) list.append(h("li", {}, link(url, title)));
  return h("div", { class: "sources" }, h("span", { class: "label" }, TEXT.sources), list);
}

/** @param {string} url @param {string} [title] */
export function link(url, title) {
  if (!/^https?:\/\//i.test(url)) return h("span", {}, url);
  return h("a", { href: url, target: "_blank", rel: "noopener noreferrer nofollow" }, title ?? url);
}
