// @ts-check
/**
 * Follows an answer to its end, whether the page shows its chat or another one.
 *
 * @typedef {import("./answer.js").Answer} Answer
 * @typedef {import("./chat.js").ChatView} ChatView
 * @typedef {import("./chats.js").Chat} Chat
 * @typedef {import("./chats.js").Turn} Turn
 */

import { ApiError, scripts, send } from "./api.js";
import * as store from "./chats.js";
import { announce, button } from "./dom.js";
import { TEXT } from "./text.js";

export const MOST_RUNS = 4; // a browser has six connections to a server, for all of its tabs
const LONGEST_STOP = 5000; // milliseconds for which the end of a stopped answer is awaited
const LONGEST_CHECK = 5000; // milliseconds for which a next turn waits to know what the server has stored
const REFUSALS = [400, 404, 413, 422]; // what the same input gets again
const UNSTORED = [404, 405, 501]; // of a response that the server has just made
const LATE = 1000; // milliseconds after which a server has stored an answer that was stopped

const LOCK = "gpt-oss-answer "; // how the names of the locks begin that answers hold
const TAB = LOCK + Math.random(); // the name for the answers of this tab

let hasStored = false; // whether the server is known to store responses
/** @type {Promise<unknown>} */
let checks = Promise.resolve();

/** Until it is known of the answers that have ended whether the server stores them. */
export const checked = () => checks;

/** The server no longer has the response before, or has never stored it. @param {any} request @param {ApiError} error */
function isGone(request, { status, code, param, message }) {
  if (!request?.previous_response_id) return false;
  if (code === "previous_response_not_found" || message.includes("previous_response_id")) return true;
  return status === 404 && [null, "response_id", "previous_response_id"].includes(param);
}

export class Run {
  /** @param {ChatView} view @param {Chat} chat @param {Turn} turn @param {Answer} shown */
  constructor(view, chat, turn, shown) {
    this.view = view;
    this.chat = chat;
    this.turn = turn;
    this.shown = shown;
    this.controller = new AbortController();
    this.isLost = false; // whether the connection is
    /** @type {Promise<void>} */
    this.finished = Promise.resolve();
  }

  /** Send the turn's request, or follow a stream that goes on. @param {string} [resumed] the path of that stream */
  start(resumed) {
    const { runs } = this.view;
    runs.set(this.turn.id, this);
    this.view.showRuns();
    this.finished = this.follow(resumed).finally(() => {
      runs.delete(this.turn.id);
      this.view.showRuns();
      checks = Promise.all([checks, this.keepUnstored().catch(() => undefined)]);
    });
    navigator.locks?.request(TAB, { mode: "shared" }, () => this.finished).catch(() => undefined);
  }

  /** @param {string} [resumed] @returns {Promise<void>} */
  async follow(resumed) {
    const { view, chat, turn, shown, controller } = this;
    const { signal } = controller;
    shown.reset({ isTimed: !resumed });
    try {
      const before = store.path({ ...chat, leaf: turn.parent }).filter((each) => !store.isLeftOut(each));
      const { answerEvents } = await scripts(import("./stream.js"));
      const onlost = () => this.lose();
      for await (const batch of answerEvents(turn, before, { signal, resumed, onlost })) this.apply(batch);
      if (!shown.ended) throw new ApiError(shown.problem || TEXT.lost, 0);
    } catch (error) {
      if (view.options.withoutTokens(turn.request, error)) return this.follow();
      shown.cut();
      if (!signal.aborted) this.fail(/** @type {Error} */ (error));
      else shown.say(turn.background && !turn.ended ? TEXT.leftRunning : TEXT.interrupted);
    }
  }

  /** The connection is lost, and the server is asked again. */
  lose() {
    this.isLost = true;
    this.shown.say(TEXT.askedAgain);
  }

  /** @param {any[]} batch */
  apply(batch) {
    const { chat, turn, shown } = this;
    if (this.isLost) shown.say("");
    this.isLost = false;
    for (const event of batch) {
      shown.apply(event);
      if (event.type === "response.created") {
        turn.response = event.response.id;
        this.save();
      }
    }
    const isKept = turn.response || turn.output;
    if (!shown.ended || (turn.ended && isKept)) return;
    turn.ended = true;
    turn.status = shown.response.status;
    // Chat Completions are not stored on the server.
    if (!turn.response) turn.output = shown.response.output;
    if (shown.response.status === "failed") turn.error = shown.response.error?.message ?? TEXT.failed;
    this.save();
    if (chat === this.view.chat) announce(turn.error ?? (shown.outcome || TEXT.finished));
  }

  /** @param {Error} error */
  fail(error) {
    const { view, turn, shown } = this;
    // A response that the server has can be read again after a reload.
    if (turn.response) return shown.fail(error.message);
    turn.error = error.message;
    if (error instanceof ApiError) {
      const hasOtherModels = error.param === "model" || error.code === "model_not_found";
      if (hasOtherModels) void view.options.readModels();
      turn.gone = isGone(turn.request, error);
      turn.refused = REFUSALS.includes(error.status) && !turn.gone && !hasOtherModels;
    }
    this.save();
    showError(view, turn, shown);
  }

  /**
   * Keep the answer in this browser where the server has not stored it: some servers give ids to responses,
   * and store none.
   */
  async keepUnstored() {
    const { chat, turn, shown } = this;
    if (hasStored || chat.conversation || store.isRemoved(chat.id) || !turn.response) return;
    let isMissing = await this.isMissing();
    if (isMissing && !shown.ended) {
      await new Promise((resolve) => setTimeout(resolve, LATE));
      isMissing = await this.isMissing();
    }
    if (!isMissing) return;
    turn.unstored = turn.response;
    turn.response = null;
    if (!shown.ended && shown.problem) turn.error = shown.problem;
    if (!turn.error) turn.output = shown.output;
    turn.status ??= "cancelled"; // also where the connection was lost
    turn.ended = true;
    this.save();
  }

  /** Whether the server says that it does not have the response. */
  async isMissing() {
    try {
      const signal = AbortSignal.timeout(LONGEST_CHECK);
      await send(`v1/responses/${this.turn.response}`, { signal, ask: false });
      hasStored = true;
      return false;
    } catch (error) {
      return error instanceof ApiError && UNSTORED.includes(error.status);
    }
  }

  /** Store what is known of the answer. */
  save() {
    this.view.save(this.chat, { isMoved: false });
  }

  async stop() {
    const { turn, controller } = this;
    const { signal } = controller;
    if (turn.background && turn.response) {
      // The stream ends with the response, and says so.
      const late = setTimeout(() => controller.abort(), LONGEST_STOP);
      await send(`v1/responses/${turn.response}/cancel`, { method: "POST", signal }).catch(() => controller.abort());
      await this.finished;
      clearTimeout(late);
    } else {
      turn.ended ||= !turn.response; // of what the server has, it says how it ended
      this.save();
      controller.abort();
    }
  }
}

/** How many answers other tabs follow. */
export async function runsElsewhere() {
  try {
    const { held = [] } = await navigator.locks.query();
    return held.filter(({ name = "" }) => name.startsWith(LOCK) && name !== TAB).length;
  } catch {
    // Only pages of https: and of this machine have locks, and only where the browser lets them store something.
    return 0;
  }
}

/**
 * Whether a further answer can be followed. A background answer that is out of view goes on without the
 * page: the oldest one makes room. The caller starts to follow at once: a pause could let another one in.
 * @param {Map<string, Run>} runs @param {number} others how many answers other tabs follow
 */
export function makeRoom(runs, others) {
  const following = [...runs.values()].filter((run) => !run.controller.signal.aborted);
  const free = MOST_RUNS - following.length - others;
  if (free) return free > 0;
  const oldest = following.find(({ turn, shown }) => turn.background && turn.response && !shown.element.isConnected);
  oldest?.controller.abort();
  return Boolean(oldest);
}

/** Say why a turn has no answer, and what it is for later turns. @param {ChatView} view @param {Turn} turn @param {Answer} shown */
export function showError(view, turn, shown) {
  shown.fail(store.isLeftOut(turn) ? `${turn.error} ${TEXT.leftOut}` : (turn.error ?? TEXT.failed));
  if (turn.gone) shown.note.append(" ", button(TEXT.withoutEarlier, () => void view.begin(turn.input, null)));
}
