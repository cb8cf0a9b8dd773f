// @ts-check
/**
 * The record of a response (`gpt_oss:record`): what it says about its tokens, and its numbers.
 *
 * @typedef {{logprob: number, top: [number, number][]}} RecordedLogprobs
 * @typedef {{start: number, end: number, prompt_tokens: number | null, cached_tokens: number | null,
 *   max_tokens: number | null, grammar: string | null, started_ms: number | null,
 *   ended_ms: number | null, token_ms: number[] | null, logprobs: RecordedLogprobs[] | null}} Sampling
 * @typedef {{recipient: string, started_ms: number, ended_ms: number}} Call
 * @typedef {{recorded: boolean, prompt_token_ids: number[], token_ids: number[],
 *   samplings: Sampling[], calls: Call[]}} SamplingRecord
 */

import { json } from "./api.js";
import { INSPECTOR } from "./labels.js";
import { bytesOf } from "./tokens.js";

/** @typedef {import("./tokens.js").Token} Token */

const CLOSING = 3; // tokens: the end of the reasoning, and the beginning of the next message

/** What the server reads from the prompt and the answer together. @param {SamplingRecord} record @param {string[]} tools */
export function parseRecord(record, tools) {
  const offset = record.prompt_token_ids.length;
  const sampled = record.samplings
    .filter(({ start, end }) => start < end)
    .map(({ start, end }) => [offset + start, offset + end]);
  const tokens = [...record.prompt_token_ids, ...record.token_ids];
  return json("playground/parse", { body: { tokens, tools, sampled } });
}

/** Mark the tokens with what the record says about them. @param {Token[]} tokens @param {SamplingRecord} record */
export async function annotate(tokens, record) {
  const offset = record.prompt_token_ids.length;
  const cached = record.samplings[0]?.cached_tokens ?? 0;
  for (const token of tokens.slice(0, Math.min(cached, offset))) token.marks.add("cached");
  for (const token of tokens.slice(offset)) token.marks.add("inserted");
  markClosed(tokens, record);
  const bytes = await alternatives(record);
  for (const { start, end, token_ms, logprobs } of record.samplings) {
    tokens.slice(offset + start, offset + end).forEach((token, index) => {
      token.marks.delete("inserted");
      token.marks.add("sampled");
      token.ms = token_ms?.[index];
      const entry = logprobs?.[index];
      if (!entry) return;
      const top = entry.top.map(([id, logprob]) => ({ bytes: /** @type {Uint8Array} */ (bytes.get(id)), logprob }));
      token.logprobs = { logprob: entry.logprob, top };
    });
  }
}

/**
 * Mark where the server closed reasoning that repeated itself: nothing but tokens of the server stands
 * between two samplings. @param {Token[]} tokens @param {SamplingRecord} record
 */
function markClosed(tokens, { prompt_token_ids, samplings }) {
  const offset = prompt_token_ids.length;
  samplings.slice(1).forEach(({ start }, index) => {
    const inserted = tokens.slice(offset + samplings[index].end, offset + start);
    if (inserted.length !== CLOSING) return;
    for (const token of inserted) {
      token.repairs.push("repetition");
      token.marks.add("repaired");
    }
  });
}

/** The bytes of all alternatives of the sampled tokens, by their ids. @param {SamplingRecord} record */
async function alternatives(record) {
  const listed = record.samplings.flatMap(({ logprobs }) => logprobs ?? []);
  const tokens = [...new Set(listed.flatMap(({ top }) => top.map(([id]) => id)))];
  /** @type {Map<number, Uint8Array>} */
  const bytes = new Map();
  if (!tokens.length) return bytes;
  const { token_bytes } = await json("detokenize", { body: { tokens, return_token_bytes: true } });
  tokens.forEach((id, index) => bytes.set(id, bytesOf(token_bytes[index])));
  return bytes;
}

/**
 * Mark the tokens that a grammar forced or restricted.
 * @param {Token[]} tokens of one sampling @param {string} grammar
 * @returns {Promise<{forced: number, restricted: number}>} how many
 */
export async function followGrammar(tokens, grammar) {
  const body = { grammar, tokens: tokens.map((token) => token.id) };
  const { permitted, refused, vocabulary } = await json("playground/permitted", { body });
  const found = { forced: 0, restricted: 0 };
  permitted.forEach((/** @type {number} */ count, /** @type {number} */ index) => {
    const token = tokens[index];
    token.permitted = count;
    if (index === refused) token.marks.add("refused");
    else if (count === 1) {
      token.marks.add("forced");
      found.forced += 1;
    } else if (count < vocabulary / 2) {
      token.marks.add("restricted");
      found.restricted += 1;
    }
  });
  return found;
}

/**
 * The entropy of a token's alternatives, in bits. What is not listed counts as one alternative, so
 * the true entropy is not lower. @param {Token} token @returns {number} NaN without alternatives
 */
export function entropy({ logprobs }) {
  if (!logprobs?.top.length) return NaN;
  const chances = logprobs.top.map(({ logprob }) => Math.exp(logprob));
  const rest = 1 - chances.reduce((sum, chance) => sum + chance, 0);
  return [...chances, rest].reduce((sum, chance) => sum - (chance > 1e-9 ? chance * Math.log2(chance) : 0), 0);
}

/** The numbers of an answer, as names and values. @param {any} response @param {SamplingRecord} record */
export function numbers(response, record) {
  /** @type {[string, string][]} */
  const rows = [];
  const { samplings, calls } = record;
  const [first] = samplings;
  const count = samplings.reduce((sum, { start, end }) => sum + end - start, 0);
  const shown = (/** @type {number} */ n) => n.toLocaleString("en");
  rows.push([INSPECTOR.promptTokens, shown(record.prompt_token_ids.length)]);
  if (first?.cached_tokens) rows.push([INSPECTOR.cachedTokens, shown(first.cached_tokens)]);
  const limit = first?.max_tokens;
  rows.push([INSPECTOR.sampledTokens, limit ? INSPECTOR.budget(shown(count), shown(limit), (100 * count) / limit) : shown(count)]);
  const reasoning = response.usage?.output_tokens_details?.reasoning_tokens;
  if (reasoning) rows.push([INSPECTOR.reasoningTokens, shown(reasoning)]);
  rows.push([INSPECTOR.samplings, shown(samplings.length)]);
  if (calls.length) {
    const most = response.max_tool_calls;
    rows.push([INSPECTOR.calls, most ? INSPECTOR.ofMost(calls.length, most) : shown(calls.length)]);
  }
  if (first?.token_ms?.length) {
    rows.push([INSPECTOR.firstToken, INSPECTOR.ms(first.token_ms[0])]);
    const speed = tokensPerSecond(samplings);
    if (speed) rows.push([INSPECTOR.speed, speed.toFixed(speed < 10 ? 1 : 0)]);
    rows.push([INSPECTOR.duration, INSPECTOR.ms(samplings[samplings.length - 1].ended_ms ?? 0)]);
  }
  return rows;
}

/** The speed after the first token of each sampling. @param {Sampling[]} samplings */
function tokensPerSecond(samplings) {
  let [tokens, ms] = [0, 0];
  for (const { token_ms } of samplings) {
    if (!token_ms?.length) continue;
    tokens += token_ms.length - 1;
    ms += token_ms[token_ms.length - 1] - token_ms[0];
  }
  return ms > 0 ? (1000 * tokens) / ms : 0;
}

/** The periods of the answer: waiting, prefill and decoding of each sampling, and calls. @param {SamplingRecord} record */
export function periods({ samplings, calls }) {
  /** @type {import("./plots.js").Period[]} */
  const found = [];
  let waited = 0;
  const events = [...samplings.map((sampling) => ({ at: sampling.started_ms ?? 0, sampling })), ...calls.map((call) => ({ at: call.started_ms, call }))];
  events.sort((one, two) => one.at - two.at);
  events.forEach((event, row) => {
    if (event.at > waited) found.push({ row, name: INSPECTOR.waiting, start: waited, end: event.at, kind: "waiting" });
    if ("call" in event) {
      const { recipient, started_ms, ended_ms } = event.call;
      found.push({ row, name: recipient, start: started_ms, end: ended_ms, kind: "call" });
      waited = ended_ms;
      return;
    }
    const { started_ms, ended_ms, token_ms } = event.sampling;
    const [start, end] = [started_ms ?? 0, ended_ms ?? 0];
    const first = token_ms?.length ? token_ms[0] : end;
    found.push({ row, name: INSPECTOR.prefill, start, end: first, kind: "prefill" });
    found.push({ row, name: INSPECTOR.decode, start: first, end, kind: "decode" });
    waited = end;
  });
  return found;
}
