// @ts-check
/**
 * Chat Completions, for servers without the Responses API: the request, and its stream as events of
 * the Responses API. The answers are not stored on the server, so each request has all messages.
 */

import { events, messageOf, send } from "./api.js";
import { sentOutput, textOf } from "./chats.js";

/** @typedef {import("./chats.js").Turn} Turn */

/** The request. @param {any} request one of the Responses API @param {Turn[]} before the earlier turns */
export function completionRequest(request, before) {
  const { model, instructions, temperature, top_p, seed, reasoning, text, tools, tool_choice } = request;
  const system = instructions ? [{ role: "system", content: instructions }] : [];
  const format = text?.format;
  const { type, ...schema } = format ?? {};
  const functions = (tools ?? []).filter(isFunction);
  return {
    model,
    messages: [...system, ...before.flatMap(messagesOf), ...request.input.flatMap(typedMessages)],
    stream: true,
    stream_options: { include_usage: true },
    temperature,
    top_p,
    seed,
    max_tokens: request.max_output_tokens,
    reasoning_effort: reasoning?.effort,
    response_format: type === "json_schema" ? { type, json_schema: schema } : format,
    ...(functions.length && { tools: functions.map(functionTool), tool_choice }),
  };
}

/** @param {any} tool */
const isFunction = (tool) => tool.type === "function";

/** The kinds of tools that are not sent: servers without the Responses API run none. @param {any} request */
const unserved = ({ tools = [] }) => [
  ...new Set(tools.filter((/** @type {any} */ tool) => !isFunction(tool)).map((/** @type {any} */ tool) => tool.type)),
];

/** @param {any} tool */
const functionTool = ({ type, ...own }) => ({ type, function: own });

/** @param {Turn} turn */
function messagesOf(turn) {
  const output = sentOutput(turn);
  const messages = output.filter((item) => item.type === "message");
  const calls = output.filter((item) => item.type === "function_call");
  const said = {
    role: "assistant",
    content: textOf(messages),
    ...(calls.length && { tool_calls: calls.map(callOf) }),
  };
  return [...turn.input.flatMap(typedMessages), ...(output.length ? [said] : [])];
}

/** @param {any} item */
const callOf = ({ call_id: id, name, arguments: text }) => ({
  id,
  type: "function",
  function: { name, arguments: text },
});

/** @param {any} item */
function typedMessages(item) {
  if (item.type === "function_call_output") return [{ role: "tool", tool_call_id: item.call_id, content: item.output }];
  return item.role ? [{ role: item.role, content: item.content }] : [];
}

/** The items of a streamed completion so far, as events of the Responses API. */
class Items {
  /** @param {string[]} unserved the kinds of tools that were not sent */
  constructor(unserved) {
    this.unserved = unserved;
    /** @type {Map<string, any>} */
    this.items = new Map();
    /** @type {any[]} */
    this.batch = [];
    /** @type {any} */
    this.usage = null;
    /** @type {string | null} why the answer ended */
    this.reason = null;
  }

  /** The item, which begins with its first text. @param {string} id @param {any} begun */
  item(id, begun) {
    let item = this.items.get(id);
    if (!item) {
      item = { id, ...begun };
      this.items.set(id, item);
      this.batch.push({ type: "response.output_item.added", item });
    }
    return item;
  }

  /** @param {any} chunk */
  read(chunk) {
    if (chunk.error) this.batch.push({ type: "error", message: messageOf(chunk.error) });
    if (chunk.usage) this.usage = chunk.usage;
    this.reason = chunk.choices?.[0]?.finish_reason ?? this.reason;
    const delta = chunk.choices?.[0]?.delta ?? {};
    this.text("reasoning", "reasoning_text", delta.reasoning ?? delta.reasoning_content);
    this.text("message", "output_text", delta.content);
    for (const call of delta.tool_calls ?? []) this.call(call);
  }

  /** @param {string} type @param {string} part @param {string | undefined} text */
  text(type, part, text) {
    if (!text) return;
    const item = this.item(type, { type, content: [{ type: part, text: "" }] });
    item.content[0].text += text;
    this.batch.push({ type: `response.${part}.delta`, item_id: type, delta: text });
  }

  /** @param {any} call */
  call({ index = 0, id, function: called }) {
    const name = `call-${index}`;
    const begun = { type: "function_call", call_id: id, name: called?.name, arguments: "" };
    const item = this.item(name, begun);
    const text = called?.arguments ?? "";
    item.arguments += text;
    if (text) this.batch.push({ type: "response.function_call_arguments.delta", item_id: name, delta: text });
  }

  /** The events since the last call. */
  take() {
    const { batch } = this;
    this.batch = [];
    return batch;
  }

  /** The last events. @param {string} status */
  end(status) {
    const output = [...this.items.values()];
    const usage = this.usage && {
      input_tokens: this.usage.prompt_tokens,
      output_tokens: this.usage.completion_tokens,
      input_tokens_details: { cached_tokens: this.usage.prompt_tokens_details?.cached_tokens ?? 0 },
      output_tokens_details: { reasoning_tokens: this.usage.completion_tokens_details?.reasoning_tokens ?? 0 },
    };
    const why = status === "incomplete" ? { reason: "max_output_tokens" } : null;
    const response = { id: null, status, output, usage, incomplete_details: why, "gpt_oss:unserved_tools": this.unserved };
    const done = output.map((item) => ({ type: "response.output_item.done", item }));
    return [...done, { type: `response.${status}`, response }];
  }
}

/**
 * The events of the answer to `request`.
 * @param {any} request @param {Turn[]} before @param {AbortSignal} signal @returns {AsyncGenerator<any[]>}
 */
export async function* completionEvents(request, before, signal) {
  const body = completionRequest(request, before);
  const answer = await send("v1/chat/completions", { body, signal });
  const items = new Items(unserved(request));
  try {
    for await (const chunks of events(answer)) {
      for (const chunk of chunks) items.read(chunk);
      yield items.take();
    }
  } catch (error) {
    if (!signal.aborted) throw error;
    yield items.end("cancelled"); // what came until then stays
    return;
  }
  // Without its last chunk, the answer is not known to be whole.
  if (items.reason) yield items.end(items.reason === "length" ? "incomplete" : "completed");
}
