// What Vercel's AI SDK reads of web searches: `node search.mjs PROVIDER BASE_URL MODEL`, JSON out.
import { createOpenAI } from "@ai-sdk/openai";
import { createOpenRouter } from "@openrouter/ai-sdk-provider";
import { generateText, streamText } from "ai";

const [, , provider, baseURL, name] = process.argv;
const openai = createOpenAI({ baseURL, apiKey: "any" });
// The provider for Chat has no setting for the field.
const withSearch = (url, init) =>
  fetch(url, { ...init, body: JSON.stringify({ ...JSON.parse(init.body), web_search_options: {} }) });
const request = {
  responses: () => ({
    model: openai.responses(name),
    tools: { web_search: openai.tools.webSearch({}) },
  }),
  chat: () => ({
    model: createOpenAI({ baseURL, apiKey: "any", fetch: withSearch }).chat(name),
  }),
  openrouter: () => ({
    model: createOpenRouter({ baseURL, apiKey: "any" }).chat(name, { plugins: [{ id: "web" }] }),
  }),
}[provider]();
request.prompt = "Where?";

function read({ text, sources, toolResults, steps }) {
  return {
    text,
    steps: steps.length,
    actions: toolResults.map(({ output }) => output.action.type),
    sources: sources.map(({ sourceType, url, title }) => ({ sourceType, url, title })),
  };
}

async function streamed() {
  const result = streamText(request);
  await result.consumeStream();
  const names = ["text", "sources", "toolResults", "steps"];
  const values = await Promise.all(names.map((each) => result[each]));
  return Object.fromEntries(names.map((each, index) => [each, values[index]]));
}

console.log(
  JSON.stringify({ whole: read(await generateText(request)), streamed: read(await streamed()) }),
);
