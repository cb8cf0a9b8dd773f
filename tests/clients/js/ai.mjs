// What Vercel's AI SDK reads from the server: `node ai.mjs PROVIDER BASE_URL MODEL`, JSON out.
import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { createOpenRouter } from "@openrouter/ai-sdk-provider";
import { generateText, Output, stepCountIs, streamText, tool } from "ai";
import { z } from "zod";

const [, , provider, baseURL, name] = process.argv;
const model = {
  compatible: () =>
    createOpenAICompatible({
      name: "here",
      baseURL,
      includeUsage: true,
      supportsStructuredOutputs: true,
    })(name),
  openrouter: () => createOpenRouter({ baseURL, apiKey: "any" }).chat(name, { usage: { include: true } }),
  stateless: () =>
    createOpenRouter({ baseURL, apiKey: "any", extraBody: { store: false } }).chat(name, {
      usage: { include: true },
      reasoning: { enabled: true },
    }),
  responses: () => createOpenAI({ baseURL, apiKey: "any" }).responses(name),
}[provider]();

const asked = [];
const weather = tool({
  description: "The weather in a city.",
  inputSchema: z.object({ city: z.string() }),
  execute: async ({ city }) => {
    asked.push(city);
    return "22 degrees";
  },
});

async function whole() {
  const { text, reasoningText, usage } = await generateText({ model, prompt: "Say hello" });
  return { text, reasoning: reasoningText, usage };
}

async function streamed() {
  const parts = {};
  const result = streamText({ model, prompt: "Say hello" });
  for await (const part of result.fullStream) parts[part.type] = (parts[part.type] ?? 0) + 1;
  return {
    text: await result.text,
    reasoning: await result.reasoningText,
    usage: await result.usage,
    parts,
  };
}

async function roundTrip(call) {
  const { text, steps } = await call({
    model,
    prompt: "What is the weather in Paris?",
    tools: { weather },
    stopWhen: stepCountIs(3),
  });
  const done = await steps;
  return { text: await text, steps: done.length, preamble: done[0].text };
}

async function structured() {
  const schema = z.object({ name: z.string(), day: z.number().int() });
  const { output } = await generateText({
    model,
    prompt: "as an event",
    output: Output.object({ schema }),
  });
  return output;
}

console.log(
  JSON.stringify({
    whole: await whole(),
    streamed: await streamed(),
    tools: await roundTrip(generateText),
    streamedTools: await roundTrip(async (options) => {
      const result = streamText(options);
      await result.consumeStream();
      return result;
    }),
    asked,
    structured: await structured(),
  }),
);
