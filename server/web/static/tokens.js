// @ts-check
/**
 * Tokens of harmony: what each is, and to which message it belongs.
 *
 * @typedef {{name: string, span: [number, number]}} Repair a repair, and the tokens that it concerns
 * @typedef {{role: string, channel: string | null, recipient: string | null,
 *   content_type: string | null, content: string, complete: boolean, span: [number, number],
 *   body: [number, number], repairs: Repair[]}} Message a message, as `/playground/parse` returns it
 * @typedef {{logprob: number, top: {bytes: Uint8Array, logprob: number}[]}} Logprobs
 * @typedef {{id: number, bytes: Uint8Array, text: string, kind: "control" | "header" | "body",
 *   message: number, marks: Set<string>, repairs: string[], logprobs?: Logprobs,
 *   permitted?: number, ms?: number}} Token
 * `message` is the place of its message, -1 for none. `permitted` is how many tokens the grammar
 * permitted at its place.
 */

import { TOKENS } from "./text.js";

const FIRST_CONTROL = 199998;
const LONGEST_CHARACTER = 8; // tokens that a character may be split over

/** @param {string} hex @returns {Uint8Array} */
export function bytesOf(hex) {
  const bytes = new Uint8Array(hex.length / 2);
  for (let i = 0; i < bytes.length; i++) bytes[i] = parseInt(hex.slice(2 * i, 2 * i + 2), 16);
  return bytes;
}

/**
 * The tokens with their texts and their places in the messages.
 * @param {number[]} ids @param {string[]} hex the bytes of each @param {Message[]} messages
 * @returns {Token[]}
 */
export function readTokens(ids, hex, messages) {
  const decoder = new TextDecoder();
  let at = 0;
  const tokens = ids.map((id, index) => {
    while (at < messages.length && index >= messages[at].span[1]) at += 1;
    const message = at < messages.length && index >= messages[at].span[0] ? at : -1;
    const bytes = bytesOf(hex[index]);
    /** @type {Token} */
    const token = { id, bytes, text: decoder.decode(bytes), kind: "header", message, marks: new Set(), repairs: [] };
    if (id >= FIRST_CONTROL) token.kind = "control";
    else if (message >= 0 && index >= messages[at].body[0] && index < messages[at].body[1]) token.kind = "body";
    return token;
  });
  joinCharacters(tokens);
  for (const message of messages) {
    for (const { name, span } of message.repairs) {
      for (const token of tokens.slice(...span)) {
        token.repairs.push(name);
        token.marks.add("repaired");
      }
    }
  }
  return tokens;
}

/** Show characters whole that are split over tokens. @param {Token[]} tokens */
function joinCharacters(tokens) {
  const strict = new TextDecoder("utf-8", { fatal: true });
  for (let i = 0; i < tokens.length; i++) {
    if (!tokens[i].text.includes("\ufffd")) continue;
    /** @type {number[]} */
    let bytes = [];
    for (let end = i; end < Math.min(i + LONGEST_CHARACTER, tokens.length); end++) {
      bytes = [...bytes, ...tokens[end].bytes];
      try {
        tokens[i].text = strict.decode(new Uint8Array(bytes));
      } catch {
        continue;
      }
      for (let k = i + 1; k <= end; k++) {
        tokens[k].text = "";
        tokens[k].marks.add("continued");
      }
      i = end;
      break;
    }
  }
}

/** The class of a message's colour. @param {Message | undefined} message @returns {string} */
export function colour(message) {
  if (!message) return "open";
  if (["system", "developer", "user"].includes(message.role)) return message.role;
  if (message.role !== "assistant") return "tool";
  return ["analysis", "commentary", "final"].includes(message.channel ?? "") ? String(message.channel) : "final";
}

/** The text of tokens, control tokens by their names. @param {Token[]} tokens @returns {string} */
export function textOf(tokens) {
  const bytes = new Uint8Array(tokens.reduce((sum, token) => sum + token.bytes.length, 0));
  let at = 0;
  for (const token of tokens) {
    bytes.set(token.bytes, at);
    at += token.bytes.length;
  }
  return new TextDecoder().decode(bytes);
}

/** What a control token means. @param {number} id @returns {string | undefined} */
export function explanation(id) {
  return /** @type {Record<number, string>} */ (TOKENS.control)[id];
}
