// @ts-check
/** Files that code of an answer has written: buttons that save them, and pictures as such. */

import { ApiError, send } from "./api.js";
import { button, h } from "./dom.js";
import { TEXT } from "./text.js";

const PICTURES = /** @type {Record<string, string>} */ ({
  gif: "image/gif",
  jpeg: "image/jpeg",
  jpg: "image/jpeg",
  png: "image/png",
  svg: "image/svg+xml",
  webp: "image/webp",
});

/** Whether an annotation names a file that code has written. @param {any} note */
export const isFile = (note) => note.type === "container_file_citation";

/** The files of an answer. @param {any[]} notes */
export function files(notes) {
  const written = new Map(notes.filter(isFile).map((note) => [note.file_id, note]));
  return h("div", { class: "files" }, ...[...written.values()].map(file));
}

/** @param {any} note */
function file({ container_id: container, file_id: id, filename }) {
  const problem = h("span", { class: "hint error", role: "alert" });
  const path = `v1/containers/${encodeURIComponent(container)}/files/${encodeURIComponent(id)}/content`;
  /** Use the content, or say why it cannot be had. @param {(content: Blob) => unknown} use @param {boolean} ask */
  const read = async (use, ask) => {
    try {
      problem.textContent = "";
      await use(await (await send(path, { ask })).blob());
    } catch (error) {
      const gone = error instanceof ApiError && error.status === 404;
      problem.textContent = gone ? TEXT.fileGone : /** @type {Error} */ (error).message;
    }
  };
  const get = button(TEXT.saveFile(filename), () => void read((content) => saveFile(content, filename), true));
  const element = h("div", { class: "file" }, get, problem);
  const type = PICTURES[filename.split(".").pop().toLowerCase()];
  // Only the content says whether there is a picture: an answer may be shown when its files are gone.
  if (type) void read(async (content) => element.prepend(await picture(content, type, filename)), false);
  return element;
}

/** A picture, as an address that the page's policy permits. @param {Blob} content @param {string} type @param {string} alt */
async function picture(content, type, alt) {
  const reader = new FileReader();
  const read = new Promise((resolve) => reader.addEventListener("loadend", resolve));
  reader.readAsDataURL(new Blob([content], { type }));
  await read;
  return h("img", { src: String(reader.result), alt });
}

/** Let the browser save a file. @param {Blob} content @param {string} name */
export function saveFile(content, name) {
  const href = URL.createObjectURL(content);
  h("a", { href, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(href));
}
