// What @openai/agents makes of the server: `node agents.mjs BASE_URL MODEL`, JSON out.
import { Agent, OpenAIProvider, Runner, tool } from "@openai/agents";
import { z } from "zod";

const [, , baseURL, model] = process.argv;
const modelProvider = new OpenAIProvider({ apiKey: "any", baseURL, useResponses: true });
const runner = new Runner({ modelProvider, tracingDisabled: true });

const asked = [];
const weather = tool({
  name: "weather",
  description: "The weather in a city.",
  parameters: z.object({ city: z.string() }),
  execute: async ({ city }) => {
    asked.push(city);
    return "22 degrees";
  },
});
const agent = new Agent({ name: "Guide", model, tools: [weather] });
const french = new Agent({ name: "french", model, instructions: "Speak French." });
const triage = new Agent({ name: "Triage", model, handoffs: [french] });
const clerk = new Agent({
  name: "Clerk",
  model,
  outputType: z.object({ name: z.string(), day: z.number().int() }),
});

async function streamed() {
  const result = await runner.run(agent, "What is the weather in Paris?", { stream: true });
  let text = "";
  for await (const piece of result.toTextStream()) text += piece;
  await result.completed;
  return text;
}

const handed = await runner.run(triage, "Greet me in French");
console.log(
  JSON.stringify({
    hello: (await runner.run(agent, "Say hello")).finalOutput,
    tools: (await runner.run(agent, "What is the weather in Paris?")).finalOutput,
    streamed: await streamed(),
    asked,
    handoff: { text: handed.finalOutput, by: handed.lastAgent.name },
    structured: (await runner.run(clerk, "as an event")).finalOutput,
  }),
);
