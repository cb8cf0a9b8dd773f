// @ts-check
/** Shows a request as a command of curl and as a program of the Python SDK. */

import { address, key } from "./api.js";
import { copyButton } from "./copying.js";
import { dialog, h } from "./dom.js";
import { TEXT } from "./text.js";

/** @param {any} request */
export function showCode(request) {
  if (!request) return;
  dialog(TEXT.code, TEXT.close, part("curl", curl(request)), part("Python", python(request)));
}

/** @param {string} title @param {string} text */
function part(title, text) {
  const shown = h("code", {}, text);
  const head = h("div", { class: "card-head" }, h("h3", {}, title), copyButton(() => text, shown));
  return h("section", { class: "code-part" }, head, h("pre", { tabindex: 0 }, shown));
}

/** @param {any} request */
export function curl(request) {
  const lines = [`curl ${quoted(address("v1/responses"))}`, "  -H 'content-type: application/json'"];
  if (key()) lines.push('  -H "authorization: Bearer $OPENAI_API_KEY"');
  lines.push(`  -d ${quoted(JSON.stringify(request))}`);
  return lines.join(" \\\n");
}

/** A text for a shell. @param {string} text */
const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;

/** @param {any} request */
export function python({ seed, stream, ...own }) {
  const lines = Object.entries(own).map(([name, value]) => `    ${name}=${literal(value)},`);
  // The SDK has no such argument.
  if (seed !== undefined) lines.push(`    extra_body=${literal({ seed })},`);
  const secret = key() ? 'os.environ["OPENAI_API_KEY"]' : '"none"';
  return [
    ...(key() ? ["import os", ""] : []),
    "from openai import OpenAI",
    "",
    `client = OpenAI(base_url=${JSON.stringify(address("v1"))}, api_key=${secret})`,
    "stream = client.responses.create(",
    ...lines,
    "    stream=True,",
    ")",
    "for event in stream:",
    '    if event.type == "response.output_text.delta":',
    '        print(event.delta, end="", flush=True)',
  ].join("\n");
}

/** A value as Python writes it. @param {any} value @returns {string} */
function literal(value) {
  if (value === null) return "None";
  if (value === true) return "True";
  if (value === false) return "False";
  if (Array.isArray(value)) return `[${value.map(literal).join(", ")}]`;
  if (typeof value === "object") {
    return `{${Object.entries(value).map(([k, v]) => `${JSON.stringify(k)}: ${literal(v)}`).join(", ")}}`;
  }
  return JSON.stringify(value);
}
