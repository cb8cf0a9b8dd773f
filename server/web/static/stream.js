// @ts-check
/** The events of an answer, from the API that the server has. */

import { ApiError, events, hasEnded, isAway, Pauses, scripts, send } from "./api.js";

/** @typedef {import("./chats.js").Turn} Turn */

/**
 * Whether the server may have no Responses API. One that has stored a response has it.
 * @param {any} error @param {any} request
 */
const isWithoutResponses = (error, request) =>
  error instanceof ApiError && [404, 405, 501].includes(error.status) && !error.param && !request.previous_response_id;

/** @param {any} event */
const isLast = ({ response }) => Boolean(response) && hasEnded(response);

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
  for (const pauses = new Pauses(); ; ) {
    try {
      for await (const batch of oneStream(turn, before, signal, path)) {
        yield batch;
        if (batch.some(isLast)) return;
        sequence = batch.at(-1)?.sequence_number ?? sequence;
        pauses.reset();
      }
      if (!turn.background || !turn.response) return;
    } catch (error) {
      if (signal.aborted || !turn.background || !turn.response || !isAway(error)) throw error;
    }
    onlost();
    await pauses.pass(signal);
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
    if (resumed || !isWithoutResponses(error, turn.request)) throw error;
    const { completionEvents } = await scripts(import("./completions.js"));
    yield* completionEvents({ ...turn.request, input: turn.input }, before, signal);
    return;
  }
  yield* events(answer);
}
