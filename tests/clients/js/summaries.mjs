// The summaries of reasoning that Vercel's AI SDK shows: `node summaries.mjs PROVIDER BASE_URL MODEL`.
import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { createOpenRouter } from "@openrouter/ai-sdk-provider";
import { generateText, streamText } from "ai";

const [, , provider, baseURL, name] = process.argv;
globalThis.AI_SDK_LOG_WARNINGS = false;
const model = {
  responses: () => createOpenAI({ baseURL, apiKey: "any" }).responses(name),
  compatible: () => createOpenAICompatible({ name: "here", baseURL })(name),
  openrouter: () =>
    createOpenRouter({ baseURL, apiKey: "any" }).chat(name, { reasoning: { enabled: true } }),
}[provider]();
const prompt = "Say hello";
const providerOptions = { openai: { reasoningSummary: "auto", forceReasoning: true } };

const whole = await generateText({ model, prompt, providerOptions });
const streamed = streamText({ model, prompt, providerOptions });
const began = {};
let order = "";
for await (const part of streamed.fullStream) {
  began[part.type] = (began[part.type] ?? 0) + 1;
  if (part.type === "reasoning-delta") order += "r";
  if (part.type === "text-delta") order += "t";
}
const history = (await streamed.response).messages;
const next = await generateText({
  model,
  messages: [{ role: "user", content: prompt }, ...history, { role: "user", content: "And now?" }],
  providerOptions,
});
console.log(
  JSON.stringify({
    whole: { text: whole.text, reasoning: whole.reasoningText },
    streamed: { text: await streamed.text, reasoning: await streamed.reasoningText },
    began,
    order,
    next: next.text,
  }),
);
