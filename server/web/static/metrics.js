// @ts-check
/**
 * Numbers of the load of a server: from its Prometheus metrics, or from this server's own endpoint.
 *
 * @typedef {{running: number, waiting: number, limit: number | null, sampled: number, prompt: number,
 *   cached: number, problems: Record<string, string | null>}} Load
 * `sampled`, `prompt` and `cached` are tokens since the start of the server.
 */

import { ApiError, json, send } from "./api.js";
import { LOAD } from "./labels.js";

/** The names of the numbers in the metrics of vLLM, SGLang and llama.cpp. @type {Record<string, string[]>} */
const NAMES = {
  running: ["vllm:num_requests_running", "sglang:num_running_reqs", "llamacpp:requests_processing"],
  waiting: ["vllm:num_requests_waiting", "sglang:num_queue_reqs", "llamacpp:requests_deferred"],
  sampled: ["vllm:generation_tokens_total", "sglang:generation_tokens_total", "llamacpp:tokens_predicted_total"],
  prompt: ["vllm:prompt_tokens_total", "sglang:prompt_tokens_total", "llamacpp:prompt_tokens_total"],
  cached: ["vllm:prefix_cache_hits_total", "vllm:prompt_tokens_cached_total", "sglang:cached_tokens_total"],
};

/**
 * Numbers in the text format of Prometheus; those of several engines are added.
 * @param {string} text @returns {Load | null} null where none is known
 */
export function readMetrics(text) {
  /** @type {Map<string, number>} */
  const sums = new Map();
  for (const line of text.split("\n")) {
    const found = /^([\w:]+)(?:\{.*\})?\s+(\S+)/.exec(line);
    if (found) sums.set(found[1], (sums.get(found[1]) ?? 0) + Number(found[2]));
  }
  const value = (/** @type {string} */ name) => {
    const known = NAMES[name].find((each) => sums.has(each));
    return known === undefined ? NaN : Number(sums.get(known));
  };
  const load = { running: value("running"), waiting: value("waiting"), sampled: value("sampled"), prompt: value("prompt"), cached: value("cached") };
  if (Object.values(load).every(Number.isNaN)) return null;
  return { ...load, limit: null, problems: {} };
}

/** Reads the load, from where this server has it. */
export class LoadSource {
  constructor() {
    /** Where the numbers come from, once that is known. */
    this.path = "";
  }

  /** @returns {Promise<Load>} */
  async read() {
    if (this.path !== "/metrics") {
      const own = await this.own();
      if (own) return own;
    }
    const text = await (await send("metrics", { ask: false })).text();
    const load = readMetrics(text);
    if (!load) throw new Error(LOAD.unknownMetrics);
    this.path = "/metrics";
    return load;
  }

  /** The load as this server's own endpoint has it; null where there is no such endpoint. @returns {Promise<Load | null>} */
  async own() {
    try {
      const { admitted, waiting, limit, tokens, problems } = await json("playground/load", { ask: false });
      this.path = "/playground/load";
      return { running: admitted - waiting, waiting, limit, ...tokens, problems };
    } catch (error) {
      if (error instanceof ApiError && error.status === 404) return null;
      throw error;
    }
  }
}
