// @ts-check
/** Requests to the server's API, with the key of this tab, and its streams. */

import { tabShelf } from "./storage.js";
import { TEXT } from "./text.js";

const KEY = "gpt-oss-key";
const SHORTEST_PAUSE = 500; // milliseconds before the server is asked again
const LONGEST_PAUSE = 15_000;

/** An answer that is an error, or no answer. `message` is for people. */
export class ApiError extends Error {
  /** @param {string} message @param {number} status @param {{param?: string | null, code?: string | null}} [error] what the server says of it */
  constructor(message, status, { param = null, code = null } = {}) {
    super(message);
    this.status = status;
    this.param = param;
    this.code = code;
  }
}

/** @type {() => Promise<boolean>} asks for a key; false if none was given */
let askForKey = async () => false;

/** @param {() => Promise<boolean>} ask */
export function onKeyNeeded(ask) {
  askForKey = ask;
}

/** @returns {string} the key of this tab, or nothing */
export function key() {
  return tabShelf.get(KEY) ?? "";
}

/** @param {string} value */
export function setKey(value) {
  if (value) tabShelf.set(KEY, value);
  else tabShelf.remove(KEY);
}

/** The address of a path of the server, relative to the page. @param {string} path */
export function address(path) {
  return new URL(path, document.baseURI).href;
}

/**
 * Send a request. Where the key is missing or wrong, it is asked for, and the request sent again.
 * @param {string} path
 * @param {{method?: string, body?: any, signal?: AbortSignal, ask?: boolean}} [options]
 * @returns {Promise<Response>} with a status below 400
 */
export async function send(path, { method, body, signal, ask = true } = {}) {
  /** @type {Record<string, string>} */
  const headers = {};
  if (body !== undefined) headers["content-type"] = "application/json";
  // Headers take characters up to U+00FF only: the key is sent as UTF-8.
  const bytes = new TextEncoder().encode(key());
  if (bytes.length) headers.authorization = `Bearer ${String.fromCharCode(...bytes)}`;
  let response;
  try {
    response = await fetch(address(path), {
      method: method ?? (body === undefined ? "GET" : "POST"),
      headers,
      body: body === undefined ? undefined : JSON.stringify(body),
      signal,
    });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new ApiError(TEXT.unreachable, 0);
  }
  if (response.ok) return response;
  if (response.status === 401 && ask && (await askForKey())) {
    return send(path, { method, body, signal, ask });
  }
  throw await errorOf(response);
}

/** @param {Response} response */
async function errorOf(response) {
  try {
    const { error } = await response.json();
    return new ApiError(messageOf(error) || TEXT.badStatus(response.status), response.status, error);
  } catch {
    // A proxy's page, for instance: the status has to do.
    return new ApiError(TEXT.badStatus(response.status), response.status);
  }
}

/** What the server says of an error: some servers say it without an object. @param {any} error @returns {string} */
export const messageOf = (error) => (typeof error === "string" ? error : error.message);

/** Whether a response is complete, or has ended otherwise. @param {any} response */
export const hasEnded = ({ status }) => !["queued", "in_progress"].includes(status);

/** Whether the server, or what is before it, may answer again later. @param {any} error */
export const isAway = (error) => error instanceof ApiError && (error.status === 0 || error.status >= 500);

/** The pauses before the server is asked again: each is longer, and ends where the browser has a connection again. */
export class Pauses {
  constructor() {
    this.next = SHORTEST_PAUSE;
  }

  /** The server has answered. */
  reset() {
    this.next = SHORTEST_PAUSE;
  }

  /** @param {AbortSignal[]} signals that end the pause */
  pass(...signals) {
    const over = AbortSignal.any([...signals, AbortSignal.timeout(this.next)]);
    this.next = Math.min(2 * this.next, LONGEST_PAUSE);
    return new Promise((resolve) => {
      over.addEventListener("abort", resolve);
      addEventListener("online", resolve, { signal: over });
    });
  }
}

/**
 * Scripts that are loaded when they are needed. Raises ApiError where the server does not send them.
 * @template T @param {Promise<T>} loading @returns {Promise<T>}
 */
export async function scripts(loading) {
  try {
    return await loading;
  } catch {
    throw new ApiError(navigator.onLine ? TEXT.noScripts : `${TEXT.unreachable} ${TEXT.kept}`, 0);
  }
}

/**
 * A request whose answer is JSON.
 * @param {string} path @param {Parameters<typeof send>[1]} [options] @returns {Promise<any>}
 */
export async function json(path, options) {
  return (await send(path, options)).json();
}

/**
 * The events of a stream, in the batches in which they arrive. The JSON of each is one line.
 * @param {Response} response @returns {AsyncGenerator<any[]>}
 */
export async function* events(response) {
  if (!response.body) return;
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      rest += value;
      const end = rest.lastIndexOf("\n");
      if (end < 0) continue;
      const batch = rest.slice(0, end);
      rest = rest.slice(end + 1);
      yield [...parsed(batch)];
    }
  } catch (error) {
    if (/** @type {any} */ (error)?.name === "AbortError") throw error;
    throw new ApiError(TEXT.lost, 0);
  } finally {
    reader.cancel().catch(() => undefined);
  }
}

/** @param {string} text */
function* parsed(text) {
  for (const line of text.split("\n")) {
    // Servers may end lines with \r\n, and need not write a space after the colon.
    const data = line.startsWith("data:") ? line.slice(5).trim() : "";
    if (data && data !== "[DONE]") yield JSON.parse(data);
  }
}
