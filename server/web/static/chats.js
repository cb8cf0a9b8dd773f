// @ts-check
/**
 * The chats of this browser. The browser keeps their titles, what was typed, and the ids of the
 * answers; the answers themselves are stored on the server.
 *
 * A chat is a tree of turns: an edit or another try is a further child of the same parent.
 *
 * @typedef {{
 *   id: string, parent: string | null, input: any[], request: any, response: string | null,
 *   error: string | null, background: boolean, ended: boolean, output?: any[], status?: string,
 *   unstored?: string, unseen?: string[], refused?: boolean, gone?: boolean, shortened?: boolean, cut?: boolean,
 * }} Turn
 * `output` is that of an answer that the server does not store, `status` how an answer ended. `unstored` is
 * an id that the server gave the answer, and does not know. `unseen` has the ids of earlier turns that are sent
 * again: the server has them not. `refused`: the server does not accept the input. `gone`: it no longer has
 * the response before. `shortened`: the browser stores only the beginning of the input.
 * `cut`: the page has read only the end of the input, or nothing of it.
 * @typedef {{
 *   id: string, title: string, updated: number, turns: Turn[], leaf: string | null, conversation?: string,
 * }} Chat
 * `conversation` is the id of a conversation on the server, whose turns the server has.
 */

import { send } from "./api.js";
import { browserShelf } from "./storage.js";
import { TEXT } from "./text.js";

export const CHATS = "gpt-oss-chats";
const REMOVED = "gpt-oss-removed-chats";
const MOST = 200;
const MOST_CHARACTERS = 100_000; // that are stored of the input of one turn
export const CALLS = ["function_call", "custom_tool_call"];

/** @returns {Chat[]} the newest first */
export function chats() {
  try {
    const found = JSON.parse(browserShelf.get(CHATS) ?? "[]");
    if (!Array.isArray(found)) return [];
    for (const chat of found) {
      for (const turn of chat.turns) if (turn.request) turn.request.input = sentInput(chat, turn);
    }
    return found;
  } catch {
    return [];
  }
}

/** @returns {Chat} */
export function newChat() {
  return { id: crypto.randomUUID?.() ?? String(Math.random()), title: "", updated: 0, turns: [], leaf: null };
}

/** The ids of the chats that were removed last. @returns {string[]} */
function removed() {
  try {
    return JSON.parse(browserShelf.get(REMOVED) ?? "[]");
  } catch {
    return [];
  }
}

/** Whether a chat was removed, here or in another tab: an answer that ends later must not bring it back. @param {string} id */
export function isRemoved(id) {
  return removed().includes(id);
}

/** Somebody opens a chat again that was removed. @param {string} id */
export function restore(id) {
  browserShelf.set(REMOVED, JSON.stringify(removed().filter((each) => each !== id)));
}

/**
 * Store the chat. What does not fit drops the oldest chats. Another tab may have changed it since: its
 * title is the stored one, and so is its leaf, unless somebody has chosen another one here.
 * @param {Chat} chat @param {{isMoved: boolean}} options `isMoved`: the leaf is what somebody has chosen
 * @returns how many chats were dropped because the browser's storage is full
 */
export function save(chat, { isMoved }) {
  if (isRemoved(chat.id)) return 0;
  const all = chats();
  const stored = all.find(({ id }) => id === chat.id);
  chat.updated = Date.now();
  chat.title = stored?.title || chat.title;
  if (stored) addTurnsOfOthers(chat, stored);
  const leaf = isMoved || !stored ? chat.leaf : stored.leaf;
  return write([unstored({ ...chat, leaf }), ...all.filter((each) => each.id !== chat.id)].slice(0, MOST));
}

/** @param {string} id @param {string} title @returns how many chats were dropped because the browser's storage is full */
export function rename(id, title) {
  return write(chats().map((chat) => (chat.id === id ? { ...chat, title } : chat)));
}

/** Store the chats, the first ones if not all fit. @param {Chat[]} all @returns how many do not fit */
function write(all) {
  const texts = all.map((chat) => JSON.stringify({ ...chat, turns: chat.turns.map(storedForm) }));
  const list = (/** @type {number} */ count) => `[${texts.slice(0, count).join()}]`;
  if (browserShelf.offer(CHATS, list(all.length))) return 0;
  let [fitting, tooMany] = [0, all.length];
  while (tooMany - fitting > 1) {
    const count = (fitting + tooMany) >> 1;
    if (browserShelf.offer(CHATS, list(count))) fitting = count;
    else tooMany = count;
  }
  if (fitting) return all.length - fitting;
  browserShelf.set(CHATS, list(all.length)); // not one fits: all stay until the page is left
  return 0;
}

/**
 * The turn with its input once, and without secrets of MCP servers. Of a long input only the beginning
 * stays, unless the server stores no answers.
 * @param {Turn} turn
 */
function storedForm(turn) {
  const text = turn.output ? "" : textOf(turn.input);
  if (text.length > MOST_CHARACTERS) {
    return { ...turn, input: [{ role: "user", content: text.slice(0, MOST_CHARACTERS) }], request: null, shortened: true };
  }
  if (!turn.request) return turn;
  const { input, ...request } = turn.request;
  if (Array.isArray(request.tools)) request.tools = request.tools.map(withoutSecrets);
  return { ...turn, request };
}

/** @param {any} tool */
function withoutSecrets(tool) {
  if (tool?.type !== "mcp") return tool;
  const { authorization, headers, ...shown } = tool;
  return shown;
}

/** Add the turns that other tabs have stored since this one opened the chat. @param {Chat} chat @param {Chat} stored */
export function addTurnsOfOthers(chat, stored) {
  if (chat.conversation) return; // the server has its turns
  const known = new Map(stored.turns.map((turn) => [turn.id, turn]));
  for (const turn of chat.turns) {
    const other = known.get(turn.id);
    if (!other) continue;
    // Another tab may have seen the end of its answer.
    turn.response ??= other.response;
    turn.error ??= other.error;
    turn.output ??= other.output;
    turn.status ??= other.status;
    turn.refused ??= other.refused;
    turn.gone ??= other.gone;
    turn.ended ||= other.ended;
    turn.unstored ??= other.unstored;
    if (turn.unstored) turn.response = null;
  }
  // A map keeps the first place of a key, and its last value: the turns of this tab.
  chat.turns = [...new Map([...stored.turns, ...chat.turns].map((turn) => [turn.id, turn])).values()];
}

/**
 * The chat without what the server has of a conversation: with its last turn, unless that has an
 * answer. What failed before another turn began is forgotten.
 * @param {Chat} chat @returns {Chat}
 */
function unstored(chat) {
  if (!chat.conversation) return chat;
  return { ...chat, turns: chat.turns.slice(-1).filter((turn) => !isAnswered(turn)) };
}

/** Whether the server has the answer among the items of the turn's conversation. @param {Turn} turn */
export function isAnswered(turn) {
  return Boolean(turn.output) || (turn.ended && !turn.error && turn.status !== "cancelled");
}

/** The response of such an answer. @param {Turn} turn */
export function responseOf({ output, status = "completed" }) {
  const why = status === "incomplete" ? { reason: "max_output_tokens" } : null;
  return { output, status, incomplete_details: why };
}

/** @param {string} id */
export function remove(id) {
  browserShelf.set(REMOVED, JSON.stringify([id, ...removed()].slice(0, MOST)));
  write(chats().filter((each) => each.id !== id));
}

/** Delete what the server has of a chat. @param {Chat} chat @returns how much could not be deleted */
export async function removeFromServer(chat) {
  const erase = (/** @type {string} */ path) => send(path, { method: "DELETE", ask: false });
  const paths = chat.turns.flatMap((turn) => turn.response ?? []).map((id) => `v1/responses/${id}`);
  if (chat.conversation) paths.push(`v1/conversations/${chat.conversation}`);
  // The server may have stored these after it was asked for them.
  for (const { unstored } of chat.turns) if (unstored) erase(`v1/responses/${unstored}`).catch(() => undefined);
  const results = await Promise.allSettled(paths.map(erase));
  return results.filter((result) => result.status === "rejected" && result.reason.status !== 404).length;
}

/**
 * Add a turn, which becomes the leaf.
 * @param {Chat} chat @param {string | null} parent @param {any[]} input @returns {Turn}
 */
export function addTurn(chat, parent, input) {
  /** @type {Turn} */
  const turn = {
    id: `t${chat.turns.length}-${Date.now().toString(36)}`,
    parent,
    input,
    request: null,
    response: null,
    error: null,
    background: false,
    ended: false,
  };
  chat.turns.push(turn);
  chat.leaf = turn.id;
  if (!chat.title) chat.title = textOf(input).slice(0, 80) || "Chat";
  return turn;
}

/** @param {Chat} chat @param {string | null} id @returns {Turn | undefined} */
function turnOf(chat, id) {
  return chat.turns.find((turn) => turn.id === id);
}

/** The turns from the first one to the leaf. @param {Chat} chat */
export function path(chat) {
  /** @type {Turn[]} */
  const found = [];
  for (let turn = turnOf(chat, chat.leaf); turn; turn = turnOf(chat, turn.parent)) found.unshift(turn);
  return found;
}

/** The response to continue. One that failed has its input, too. @param {Chat} chat @param {string | null} id */
export function lastResponse(chat, id) {
  return path({ ...chat, leaf: id }).findLast((turn) => turn.response)?.response ?? null;
}

/** Whether the server has the turn, for later ones. @param {Chat} chat @param {Turn} turn */
function isSeen(chat, turn) {
  return chat.conversation ? isAnswered(turn) : Boolean(turn.response);
}

/** Whether no later turn has the input of this one. @param {Turn} turn */
export function isLeftOut(turn) {
  return Boolean(turn.refused || turn.shortened) && !turn.response && !turn.output;
}

/** The ids of the turns up to `id` since the last one that the server has. @param {Chat} chat @param {string | null} id */
function unseenTurns(chat, id) {
  const before = path({ ...chat, leaf: id });
  const from = before.findLastIndex((turn) => isSeen(chat, turn)) + 1;
  return before.slice(from).filter((turn) => !isLeftOut(turn)).map((turn) => turn.id);
}

/** The input that the turn's request has: what was not seen, and its own. @param {Chat} chat @param {Turn} turn @returns {any[]} */
export function sentInput(chat, turn) {
  const unseen = (turn.unseen ?? []).flatMap((id) => turnOf(chat, id) ?? []);
  return [...unseen.flatMap((each) => [...each.input, ...sentOutput(each)]), ...turn.input];
}

/** The output as later turns send it. A call that was cut off is no call, and has no result. @param {Turn} turn */
export function sentOutput({ output = [], status = "completed" }) {
  return output.filter(({ type }) => status === "completed" || !CALLS.includes(type));
}

/** What is shown of each turn up to the leaf, as far as it is stored. @param {Chat} chat */
export function states(chat) {
  return path(chat).map((turn) => {
    const { id, response, error, ended } = turn;
    return JSON.stringify([id, response, error, ended, versions(chat, turn).length]);
  });
}

/** Give a new turn its request. @param {Chat} chat @param {Turn} turn @param {any} fields of the options */
export function addRequest(chat, turn, fields) {
  const unseen = unseenTurns(chat, turn.parent);
  if (unseen.length) turn.unseen = unseen;
  const previous = lastResponse(chat, turn.parent);
  const before = chat.conversation ? { conversation: chat.conversation } : previous && { previous_response_id: previous };
  turn.request = { ...fields, input: sentInput(chat, turn), ...before };
  turn.background = Boolean(fields.background);
}

/** All versions of a turn, itself included. @param {Chat} chat @param {Turn} turn */
export function versions(chat, turn) {
  return chat.turns.filter((each) => each.parent === turn.parent);
}

/** The last turn below `turn`: the newest child of each. @param {Chat} chat @param {Turn} turn */
export function newestBelow(chat, turn) {
  for (;;) {
    const child = chat.turns.filter((each) => each.parent === turn.id).pop();
    if (!child) return turn;
    turn = child;
  }
}

/** The text that somebody typed, and the names of files. @param {any[]} input @returns {string} */
export function textOf(input) {
  return input
    .map((item) => {
      if (item.type === "mcp_approval_response") return item.approve ? TEXT.approved : TEXT.denied;
      const content = item.content ?? item.output ?? "";
      return typeof content === "string" ? content : content.map((/** @type {any} */ part) => part.text ?? part.refusal ?? ` [${part.filename ?? part.type}] `).join("");
    })
    .filter(Boolean)
    .join("\n");
}

/** Where the last of the input begins that somebody typed: what is before it was sent along. @param {any[]} input */
export function typedFrom(input) {
  const isMade = ({ role = "", type = "" }) => role === "assistant" || !(role || /_output$|_response$/.test(type));
  return input.findLastIndex(isMade) + 1;
}

/** Whether all of the input is text of a user, which can be edited. @param {any[]} input */
export function isText(input) {
  return input.every(
    ({ role, content }) =>
      role === "user" &&
      (typeof content === "string" || content?.every((/** @type {any} */ part) => part.type === "input_text")),
  );
}
