// @ts-check
/** The events of an answer, from the API that the server has. */

import { ApiError, events, send } from "./api.js";

/** @typedef {import("./chats.js").Turn} Turn */

const SHORTEST_PAUSE = 500; // milliseconds before the server is asked again
const LONGEST_PAUSE = 15_000;

/** Whether the server may have no Responses API. @param {any} error */
const isWithoutResponses = (error) =>
  error instanceof ApiError && [404, 405, 501].includes(error.status) && !error.param;

/** Whether the server, or what is before it, may answer again later. @param {any} error */
const isAway = (error) => error instanceof ApiError && (error.status === 0 || error.status >= 500);

/** @param {any} event */
const isLast = ({ response }) => Boolean(response) && !["queued", "in_progress"].includes(response.status);

/**
 * The events of a turn's answer, in batches. A background answer goes on without its stream: where the
 * connection is lost, the rest of its events is asked for until the server has given the last one.
 * @param {Turn} turn @param {Turn[]} before the earlier turns
 * @param {{signal: AbortSignal, resumed?: string, onlost: () => void}} options
 * `resumed` is the path of a stream that goes on. `onlost` is called before each pause.
 * @returns {AsyncGenerator<any[]>}
 */
export async function* answerEvents(turn, before, { signal, resumed, onlost }) {
  let path = resumed;
  let sequence = -1;
  for (let pause = SHORTEST_PAUSE; ; pause = Math.min(2 * pause, LONGEST_PAUSE)) {
    try {
      for await (const batch of oneStream(turn, before, signal, path)) {
        yield batch;
        if (batch.some(isLast)) return;
        sequence = batch.at(-1)?.sequence_number ?? sequence;
        pause = SHORTEST_PAUSE;
      }
      if (!turn.background || !turn.response) return;
    } catch (error) {
      if (signal.aborted || !turn.background || !turn.response || !isAway(error)) throw error;
    }
    onlost();
    await pauseOrOnline(pause, signal);
    const after = sequence < 0 ? "" : `&starting_after=${sequence}`;
    path = `v1/responses/${turn.response}?stream=true${after}`;
  }
}

/**
 * @param {Turn} turn @param {Turn[]} before @param {AbortSignal} signal @param {string} [resumed]
 * @returns {AsyncGenerator<any[]>}
 */
async function* oneStream(turn, before, signal, resumed) {
  let answer;
  try {
    answer = await (resumed ? send(resumed, { signal }) : send("v1/responses", { body: turn.request, signal }));
  } catch (error) {
    if (resumed || !isWithoutResponses(error)) throw error;
    const { completionEvents } = await import("./completions.js");
    yield* completionEvents({ ...turn.request, input: turn.input }, before, signal);
    return;
  }
  yield* events(answer);
}

/** Wait, at most until the browser has a connection again. @param {number} milliseconds @param {AbortSignal} signal */
function pauseOrOnline(milliseconds, signal) {
  const over = AbortSignal.any([signal, AbortSignal.timeout(milliseconds)]);
  return new Promise((resolve) => {
    over.addEventListener("abort", resolve);
    addEventListener("online", resolve, { signal: over });
  });
}
