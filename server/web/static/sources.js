// @ts-check
/** What the inspector asks the server for: prompts of requests, and records of responses. */

import { ApiError, json } from "./api.js";
import { TEXT } from "./text.js";

/** The JSON in a field. @param {string} text */
export function readJson(text) {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new ApiError(TEXT.badJson + /** @type {Error} */ (error).message, 0);
  }
}

/** The prompt of a request. @param {any} body */
export function rendered(body) {
  const path = "messages" in body ? "v1/chat/completions/render" : "v1/responses/render";
  return json(`${path}?return_token_bytes=true`, { body });
}

/** A stored response with its record. @param {string} id */
export function fetchRecord(id) {
  return json(`v1/responses/${encodeURIComponent(id)}?include[]=gpt_oss:record`);
}
