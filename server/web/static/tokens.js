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

const FIRST_CONTROL = 199998;
const LONGEST_CHARACTER = 8; // tokens that a character may be split over
const REPLACEMENT = "\ufffd"; // for bytes that are no character

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
  // Most tokens of a text occur many times.
  /** @type {Map<string, {bytes: Uint8Array, text: string}>} */
  const pieces = new Map();
  const piece = (/** @type {string} */ digits) => {
    let found = pieces.get(digits);
    if (!found) {
      const bytes = bytesOf(digits);
      found = { bytes, text: decoder.decode(bytes) };
      pieces.set(digits, found);
    }
    return found;
  };
  let at = 0;
  const tokens = ids.map((id, index) => {
    while (at < messages.length && index >= messages[at].span[1]) at += 1;
    const message = at < messages.length && index >= messages[at].span[0] ? at : -1;
    const { bytes, text } = piece(hex[index]);
    /** @type {Token} */
    const token = { id, bytes, text, kind: "header", message, marks: new Set(), repairs: [] };
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
  const decoder = new TextDecoder();
  for (let first = 0; first < tokens.length; first++) {
    if (!tokens[first].text.includes(REPLACEMENT) || !missing(tokens[first].bytes)) continue;
    const bytes = [...tokens[first].bytes];
    let last = first;
    while (missing(bytes) && last + 1 < tokens.length && last - first < LONGEST_CHARACTER) {
      last += 1;
      bytes.push(...tokens[last].bytes);
    }
    const text = decoder.decode(new Uint8Array(bytes));
    if (text.includes(REPLACEMENT)) continue;
    tokens[first].text = text;
    for (const token of tokens.slice(first + 1, last + 1)) {
      token.text = "";
      token.marks.add("continued");
    }
    first = last;
  }
}

/** How many bytes the last character of UTF-8 lacks. @param {ArrayLike<number>} bytes @returns {number} */
function missing(bytes) {
  for (let back = 1; back <= Math.min(4, bytes.length); back++) {
    const byte = bytes[bytes.length - back];
    if ((byte & 0xc0) === 0x80) continue;
    const length = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc0 ? 2 : 1;
    return Math.max(length - back, 0);
  }
  return 0;
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
