// What Vercel's AI SDK reads of a code interpreter that the server runs: `node code.mjs BASE_URL MODEL`.
import { createOpenAI } from "@ai-sdk/openai";
import { generateText, streamText } from "ai";

const [, , baseURL, name] = process.argv;
const openai = createOpenAI({ baseURL, apiKey: "any" });
const request = {
  model: openai.responses(name),
  prompt: "Count.",
  tools: { code_interpreter: openai.tools.codeInterpreter({}) },
};

function read({ text, toolCalls, toolResults, steps }) {
  return {
    text,
    steps: steps.length,
    codes: toolCalls.map(({ input }) => input.code),
    containers: new Set(toolCalls.map(({ input }) => input.containerId)).size,
    logs: toolResults.map(({ output }) => output.outputs.map(({ logs }) => logs).join("")),
  };
}

async function streamed() {
  const result = streamText(request);
  await result.consumeStream();
  const names = ["text", "toolCalls", "toolResults", "steps"];
  const values = await Promise.all(names.map((each) => result[each]));
  return Object.fromEntries(names.map((each, index) => [each, values[index]]));
}

console.log(
  JSON.stringify({ whole: read(await generateText(request)), streamed: read(await streamed()) }),
);
