// @ts-check
/** Files that code of an answer has written: buttons that save them, and pictures as such. */

import { ApiError, send } from "./api.js";
import { button, h } from "./dom.js";
import { TEXT } from "./text.js";

const LARGEST_PICTURE = 8 * 2 ** 20; // bytes: larger ones are only saved
const PICTURES = new Map([
  ["gif", "image/gif"],
  ["jpeg", "image/jpeg"],
  ["jpg", "image/jpeg"],
  ["png", "image/png"],
  ["svg", "image/svg+xml"],
  ["webp", "image/webp"],
]);

/** Whether an annotation names a file that code has written. @param {any} note */
export const isFile = (note) => note.type === "container_file_citation";

/** The files of an answer. @param {any[]} notes */
export function files(notes) {
  const written = new Map(notes.filter(isFile).map((note) => [note.file_id, note]));
  return h("div", { class: "files" }, ...[...written.values()].map(file));
}

/** @param {any} note */
function file({ container_id: container, file_id: id, filename }) {
  const name = String(filename || id); // other servers may give no name
  const problem = h("span", { class: "hint error", role: "alert" });
  const path = `v1/containers/${encodeURIComponent(container)}/files/${encodeURIComponent(id)}/content`;
  /** Use the content, or say why it cannot be had. @param {(answer: Response) => Promise<unknown>} use @param {boolean} ask */
  const read = async (use, ask) => {
    try {
      problem.textContent = "";
      await use(await send(path, { ask }));
    } catch (error) {
      const gone = error instanceof ApiError && error.status === 404;
      problem.textContent = gone ? TEXT.fileGone : /** @type {Error} */ (error).message;
    }
  };
  const save = async (/** @type {Response} */ answer) => saveFile(await answer.blob(), name);
  const get = button(TEXT.saveFile(name), () => void read(save, true));
  const element = h("div", { class: "file" }, get, problem);
  const type = PICTURES.get(name.slice(name.lastIndexOf(".") + 1).toLowerCase());
  // Only the content says whether there is a picture: an answer may be shown when its files are gone.
  const show = async (/** @type {Response} */ answer) => {
    const src = type && (await pictureAddress(answer, type));
    if (src) element.prepend(h("img", { src, alt: name }));
  };
  if (type) whenVisible(element, () => void read(show, false));
  return element;
}

/** @param {Element} element @param {() => void} action is taken once */
function whenVisible(element, action) {
  const observer = new IntersectionObserver((entries) => {
    if (!entries.some(({ isIntersecting }) => isIntersecting)) return;
    observer.disconnect();
    action();
  });
  observer.observe(element);
}

/** The address of a picture that the page's policy permits; null of one that is too large. @param {Response} answer @param {string} type */
async function pictureAddress(answer, type) {
  const isLarge = (/** @type {number} */ size) => size > LARGEST_PICTURE;
  if (isLarge(Number(answer.headers.get("content-length")))) {
    await answer.body?.cancel();
    return null;
  }
  const content = await answer.blob();
  if (isLarge(content.size)) return null; // of which nothing said the size before
  const reader = new FileReader();
  const read = new Promise((resolve, reject) => {
    reader.addEventListener("load", resolve);
    reader.addEventListener("error", () => reject(reader.error));
  });
  reader.readAsDataURL(new Blob([content], { type }));
  await read;
  return String(reader.result);
}

/** Let the browser save a file. @param {Blob} content @param {string} name */
export function saveFile(content, name) {
  const href = URL.createObjectURL(content);
  h("a", { href, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(href));
}
