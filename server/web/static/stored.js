// @ts-check
/**
 * What the server has stored: a list of conversations and of chains of responses, and the chats that
 * they become.
 *
 * @typedef {import("./chats.js").Chat} Chat
 * @typedef {import("./chats.js").Turn} Turn
 * @typedef {{kind: "conversation" | "response", id: string, title: string, created: number}} Entry
 */

import { ApiError, json } from "./api.js";
import { isAnswered } from "./chats.js";
import { TEXT } from "./text.js";

const PAGE = 20;
const MOST_ITEM_PAGES = 10; // of 100 items
const MOST_TURNS = 100;
const TYPED = ["function_call_output", "custom_tool_call_output", "mcp_approval_response"];
// The settings of a response that its request has: what "View code" shows. Another try has those of the form.
const REPEATED = ["model", "instructions", "temperature", "top_p", "text", "tool_choice"];

/** Reads the list, page after page: of both kinds, the newest first. */
export class StoredList {
  constructor() {
    /** @type {Record<string, string | null>} the cursor of each list that has more */
    this.cursors = { conversations: "", responses: "" };
  }

  get hasMore() {
    return Object.keys(this.cursors).length > 0;
  }

  /** The next entries. @returns {Promise<Entry[]>} */
  async next() {
    const found = await Promise.all(Object.keys(this.cursors).map((name) => this.page(name)));
    return found.flat().sort((a, b) => b.created - a.created);
  }

  /** @param {string} name @returns {Promise<Entry[]>} */
  async page(name) {
    const after = this.cursors[name];
    const query = after ? `&after=${encodeURIComponent(after)}` : "";
    const { data, has_more: more, last_id: last } = await json(`v1/${name}?limit=${PAGE}${query}`);
    if (more) this.cursors[name] = last;
    else delete this.cursors[name];
    const kind = name === "conversations" ? "conversation" : "response";
    return data.map((/** @type {any} */ each) => ({
      kind,
      id: each.id,
      title: each.metadata?.title || each["gpt_oss:preview"] || TEXT.untitled,
      created: each.created_at,
    }));
  }
}

/** The chat of an entry. @param {Entry} entry @returns {Promise<Chat>} */
export async function chatOf(entry) {
  const turns = entry.kind === "conversation" ? await ofConversation(entry.id) : await ofChain(entry.id);
  const conversation = entry.kind === "conversation" ? entry.id : undefined;
  const leaf = turns.at(-1)?.id ?? null;
  return { id: entry.id, title: entry.title, updated: 0, turns, leaf, ...(conversation && { conversation }) };
}

/** The turns of a conversation. They have their output, and no response. @param {string} id */
async function ofConversation(id) {
  /** @type {Turn[]} */
  const turns = [];
  let answered = true;
  const { items, isCut } = await newestItems(`v1/conversations/${id}/items`);
  for (const item of items) {
    const typed = isTyped(item);
    if (typed && answered) turns.push({ ...turn(turns, `${id}-${turns.length}`), output: [] });
    if (!turns.length) turns.push({ ...turn(turns, `${id}-0`), output: [] });
    const last = /** @type {any} */ (turns.at(-1));
    (typed ? last.input : last.output).push(typed ? withoutId(item) : item);
    answered = !typed;
  }
  if (isCut && turns.length) turns[0].cut = true;
  return turns;
}

/** Read the turns of a conversation. A last one without an answer follows them. @param {Chat} chat */
export async function readConversation(chat) {
  const last = chat.turns.at(-1);
  const open = last && !isAnswered(last) ? last : null;
  let turns = await ofConversation(/** @type {string} */ (chat.conversation));
  const isDone = open !== null && (await isDoneOnServer(open));
  // Its answer may have ended after the items were read.
  if (isDone) turns = await ofConversation(/** @type {string} */ (chat.conversation));
  if (open && !isDone) turns.push({ ...open, parent: turns.at(-1)?.id ?? null });
  chat.turns = turns;
  chat.leaf = turns.at(-1)?.id ?? null;
}

/** Whether the conversation has the answer, or the server no longer knows it. @param {Turn} turn */
async function isDoneOnServer(turn) {
  if (!turn.response) return false;
  try {
    const { status } = await json(`v1/responses/${turn.response}`);
    return ["completed", "incomplete"].includes(status);
  } catch (error) {
    return error instanceof ApiError && error.status === 404;
  }
}

/** The turns of the responses up to `id`. @param {string} id */
async function ofChain(id) {
  const responses = await chain(id);
  const { items, isCut } = await newestItems(`v1/responses/${id}/input_items`);
  const places = new Map(items.map((item, place) => [item.id, place]));
  /** @type {Turn[]} */
  const turns = [];
  /** @type {number | null} */
  let start = isCut ? null : 0; // of the input; null where it was not read
  for (const [index, response] of responses.entries()) {
    const end = { from: items.length, to: items.length };
    const output = response.id === id ? end : await outputAmong(places, response, isCut);
    const input = items.slice(start ?? 0, output?.from ?? 0).map(withoutId);
    const previous = index ? responses[index - 1].id : undefined;
    const request = requestOf(response, input, previous);
    const cut = start === null;
    turns.push({ ...turn(turns, `${response.id}-turn`), input, request, response: response.id, ...(cut && { cut }) });
    start = output?.to ?? start;
  }
  return turns;
}

/**
 * Where the output of a response begins and ends; null where it was not read.
 * @param {Map<string, number>} places of the items that were read @param {any} response @param {boolean} isCut
 */
async function outputAmong(places, response, isCut) {
  const made = response.output.flatMap((/** @type {any} */ item) => places.get(item.id) ?? []);
  if (made.length) return { from: made[0], to: made[made.length - 1] + 1 };
  if (isCut && response.output.length) return null;
  // Without output, it is after the input, of which its own list has the last item.
  const { last_id: last } = await json(`v1/responses/${response.id}/input_items?order=desc&limit=1`);
  const place = places.get(last);
  return place === undefined ? null : { from: place + 1, to: place + 1 };
}

/** The responses that lead to `id`, the oldest first. @param {string} id */
async function chain(id) {
  const found = [await json(`v1/responses/${id}`)];
  while (found[0].previous_response_id && found.length < MOST_TURNS) {
    try {
      found.unshift(await json(`v1/responses/${found[0].previous_response_id}`));
    } catch (error) {
      if (error instanceof ApiError && error.status === 404) break; // it was deleted
      throw error;
    }
  }
  return found;
}

/**
 * The newest items of a list, in the order of the chat, and whether there are older ones.
 * @param {string} path @returns {Promise<{items: any[], isCut: boolean}>}
 */
async function newestItems(path) {
  /** @type {any[]} */
  const found = [];
  let isCut = false;
  let after = "";
  for (let page = 0; page < MOST_ITEM_PAGES; page += 1) {
    const query = after ? `&after=${encodeURIComponent(after)}` : "";
    const { data, has_more: more, last_id: last } = await json(`${path}?order=desc&limit=100${query}`);
    found.push(...data);
    isCut = more;
    if (!more) break;
    after = last;
  }
  return { items: found.reverse(), isCut };
}

/** Whether a person or a program wrote the item, not the model. @param {any} item */
function isTyped(item) {
  return TYPED.includes(item.type) || (item.type === "message" && item.role !== "assistant");
}

/** The item as it is sent again. @param {any} item */
function withoutId({ id, status, ...item }) {
  return item;
}

/** @param {Turn[]} before @param {string} id @returns {Turn} */
function turn(before, id) {
  const parent = before.at(-1)?.id ?? null;
  return { id, parent, input: [], request: null, response: null, error: null, background: false, ended: true };
}

/** The request that made a response, as far as the response shows it. */
function requestOf(/** @type {any} */ response, /** @type {any[]} */ input, /** @type {string | undefined} */ previous) {
  const { tools, reasoning } = response;
  const repeated = REPEATED.filter((name) => response[name] !== null && response[name] !== undefined);
  return {
    stream: true,
    store: true,
    ...Object.fromEntries(repeated.map((name) => [name, response[name]])),
    ...(tools?.length && { tools }),
    ...(reasoning?.effort && { reasoning: { effort: reasoning.effort } }),
    input,
    ...(previous && { previous_response_id: previous }),
  };
}
