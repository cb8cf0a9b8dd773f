// What Vercel's AI SDK reads of MCP calls that the server runs: `node mcp.mjs BASE_URL MODEL MCP_URL`.
import { createOpenAI } from "@ai-sdk/openai";
import { generateText, streamText } from "ai";

const [, , baseURL, name, serverUrl] = process.argv;
const openai = createOpenAI({ baseURL, apiKey: "any" });

async function whole(request) {
  const { text, content, response } = await generateText(request);
  return { text, content, messages: response.messages };
}

async function streamed(request) {
  const result = streamText(request);
  await result.consumeStream();
  const { messages } = await result.response;
  return { text: await result.text, content: await result.content, messages };
}

async function run(answer, requireApproval) {
  const mcp = openai.tools.mcp({ serverLabel: "tools", serverUrl, requireApproval });
  const request = { model: openai.responses(name), tools: { mcp } };
  const messages = [{ role: "user", content: "1 + 2?" }];
  let made = await answer({ ...request, messages });
  const asked = made.content.filter(({ type }) => type === "tool-approval-request");
  if (asked.length) {
    const approve = { type: "tool-approval-response", approved: true, providerExecuted: true };
    const content = asked.map(({ approvalId }) => ({ ...approve, approvalId }));
    const turns = [...messages, ...made.messages, { role: "tool", content }];
    made = await answer({ ...request, messages: turns });
  }
  const results = made.content.filter(({ type }) => type === "tool-result").map(({ output }) => output);
  return { text: made.text, asked: asked.length, results };
}

const results = {};
for (const answer of [whole, streamed]) {
  results[answer.name] = {
    free: await run(answer, "never"),
    approved: await run(answer, "always"),
  };
}
console.log(JSON.stringify(results));
