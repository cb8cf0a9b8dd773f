// @ts-check
/** A dialog that renames a chat, and saves it as a file. */

import { ApiError, json, scripts } from "./api.js";
import * as store from "./chats.js";
import { messageText } from "./citations.js";
import { button, dialog, h } from "./dom.js";
import { saveFile } from "./files.js";
import { TEXT } from "./text.js";

/**
 * @typedef {import("./chats.js").Chat} Chat
 * @typedef {import("./chats.js").Turn} Turn
 * @typedef {{input: any[], output: any[], error?: string, notes?: string[]}} Exchange
 * `notes` say what is missing.
 */

/** @param {Chat} chat @param {(title: string) => void} rename @returns {HTMLDialogElement} */
export function manageChat(chat, rename) {
  const field = h("input", { value: chat.title, maxlength: 200, required: true });
  const label = h("label", { class: "row" }, h("span", { class: "label" }, TEXT.chatTitle), field);
  const form = h("form", { class: "key-form" }, label, h("div", { class: "buttons" }, h("button", { class: "primary" }, TEXT.rename)));
  const problem = h("p", { class: "notice error", role: "alert", hidden: true });
  const save = async (/** @type {string} */ type, /** @type {(exchanges: Exchange[]) => string} */ write) => {
    problem.hidden = true;
    try {
      download(chat.title || TEXT.untitled, type, write(await exchanges(chat)));
    } catch (error) {
      problem.textContent = /** @type {Error} */ (error).message;
      problem.hidden = false;
    }
  };
  const files = h(
    "div",
    { class: "buttons" },
    button(TEXT.exportMarkdown, () => void save("markdown", (all) => markdown(chat.title || TEXT.untitled, all))),
    button(TEXT.exportJson, () => void save("json", (turns) => `${JSON.stringify({ title: chat.title, turns }, null, 2)}\n`)),
  );
  const shown = dialog(TEXT.manage, TEXT.close, form, files, h("p", { class: "hint" }, TEXT.exportHint), problem);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    shown.close(); // it gives the focus back to a button that a new title replaces
    rename(field.value.trim() || chat.title);
  });
  field.select();
  return shown;
}

/** The turns in view, with their answers. @param {Chat} chat @returns {Promise<Exchange[]>} */
async function exchanges(chat) {
  const read = { ...chat };
  if (chat.conversation) await (await scripts(import("./stored.js"))).readConversation(read);
  return Promise.all(store.path(read).map(exchange));
}

/** @param {Turn} turn @returns {Promise<Exchange>} */
async function exchange(turn) {
  const { input, error } = turn;
  const output = turn.output ?? (await outputOf(turn));
  const notes = [...(turn.cut ? [TEXT.earlierLeft] : []), ...(turn.shortened ? [TEXT.shortened] : []), ...(output ? [] : [TEXT.expired])];
  return { input, output: output ?? [], ...(error && { error }), ...(notes.length && { notes }) };
}

/** What the answer has; null if it is no longer stored. @param {Turn} turn @returns {Promise<any[] | null>} */
async function outputOf({ response }) {
  if (!response) return [];
  try {
    return (await json(`v1/responses/${response}`)).output;
  } catch (error) {
    if (error instanceof ApiError && error.status === 404) return null;
    throw error;
  }
}

/** @param {string} title @param {Exchange[]} all */
function markdown(title, all) {
  const parts = [`# ${title}`];
  for (const { input, output, error, notes = [] } of all) {
    parts.push(`## ${TEXT.you}`, store.textOf(input));
    const messages = output.filter(({ type, phase }) => type === "message" && phase !== "commentary");
    const answer = messages.map(messageText).join("\n\n") || error;
    if (answer) parts.push(`## ${TEXT.answer}`, answer);
    parts.push(...notes.map((note) => `*${note}*`));
  }
  return `${parts.join("\n\n")}\n`;
}

/** Let the browser save a text. @param {string} title @param {string} type @param {string} text */
function download(title, type, text) {
  const name = title.replace(/[^\p{L}\p{N}]+/gu, "-").replace(/^-|-$/g, "").slice(0, 60) || "chat";
  saveFile(new Blob([text], { type: `text/${type}` }), `${name}.${type === "json" ? "json" : "md"}`);
}
