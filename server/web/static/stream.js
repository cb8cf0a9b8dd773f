// @ts-check
/** The events of an answer, from the API that the server has. */

import { ApiError, events, send } from "./api.js";

/** @typedef {import("./chats.js").Turn} Turn */

/** Whether the server may have no Responses API. @param {any} error */
const isWithoutResponses = (error) =>
  error instanceof ApiError && [404, 405, 501].includes(error.status) && !error.param;

/**
 * The events of a turn's answer, in batches.
 * @param {Turn} turn @param {Turn[]} before the earlier turns
 * @param {AbortSignal} signal @param {string} [resumed] the path of a stream that goes on
 * @returns {AsyncGenerator<any[]>}
 */
export async function* answerEvents(turn, before, signal, resumed) {
  let answer;
  try {
    answer = await (resumed ? send(resumed, { signal }) : send("v1/responses", { body: turn.request, signal }));
  } catch (error) {
    if (resumed || !isWithoutResponses(error)) throw error;
    const { completionEvents } = await import("./completions.js");
    yield* completionEvents(turn.request, before, signal);
    return;
  }
  yield* events(answer);
}
