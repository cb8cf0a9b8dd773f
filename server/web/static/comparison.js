// @ts-check
/** Two prompts side by side, and where they begin to differ. */

import { json } from "./api.js";
import { common, partners } from "./diff.js";
import { h } from "./dom.js";
import { TokenPane } from "./pane.js";
import { section } from "./parts.js";
import { fetchRecord, readJson, rendered } from "./sources.js";
import { INSPECTOR } from "./labels.js";
import { TEXT } from "./text.js";
import { readTokens } from "./tokens.js";

/** @typedef {{tokens: import("./tokens.js").Token[], messages: import("./tokens.js").Message[], ids: number[]}} Prompt */

/**
 * @param {string[]} sources two requests as JSON, or ids of stored responses
 * @param {import("./tip.js").Tip} tip
 * @returns {Promise<Node[]>}
 */
export async function compareSources(sources, tip) {
  const [one, two] = await Promise.all(sources.map(read));
  const pairs = [partners(one.ids, two.ids), partners(two.ids, one.ids)];
  /** @type {TokenPane[]} */
  const panes = [];
  const parts = [one, two].map((prompt, side) => {
    const [same] = common(one.ids, two.ids);
    prompt.tokens.forEach((token, place) => {
      if (place < same) token.marks.add("cached");
      else if (pairs[side][place] < 0) token.marks.add("different");
    });
    const title = INSPECTOR.promptNumber(side + 1, TEXT.tokens(prompt.ids.length));
    const pane = new TokenPane(title, (token) => token.text.replaceAll("\n", "⏎\n"), (place, at) => {
      const partner = pairs[side][place];
      if (partner >= 0) panes[1 - side].mark(partner);
      tip.show(prompt.tokens[place], place, prompt.messages[prompt.tokens[place].message], at);
    }, () => tip.hide());
    pane.show(prompt.tokens, prompt.messages);
    panes.push(pane);
    return section(title, pane.element);
  });
  return [h("p", { class: "notice" }, explain(one, two)), h("div", { class: "pair" }, ...parts)];
}

/** @param {string} source @returns {Promise<Prompt>} */
async function read(source) {
  const isId = /^\s*resp_\S+\s*$/.test(source);
  const ids = isId ? await promptOf(source.trim()) : (await rendered(readJson(source))).token_ids;
  const parsed = await json("playground/parse", { body: { tokens: ids, sampled: [] } });
  const tokens = readTokens(parsed.token_ids, parsed.token_bytes, parsed.messages);
  return { tokens, messages: parsed.messages, ids };
}

/** @param {string} id @returns {Promise<number[]>} */
async function promptOf(id) {
  const record = (await fetchRecord(id))["gpt_oss:record"];
  if (!record) throw new Error(INSPECTOR.notRecorded);
  return record.prompt_token_ids;
}

/** Where a prefix cache ends, and why. @param {Prompt} one @param {Prompt} two */
function explain(one, two) {
  const [same] = common(one.ids, two.ids);
  const longest = Math.max(one.ids.length, two.ids.length);
  if (same === longest) return INSPECTOR.equal;
  const numbers = [one, two].map(({ tokens }) => tokens[same]?.message ?? -1);
  const roles = [one, two].map(({ messages }, side) => messages[numbers[side]]?.role).filter(Boolean);
  const place = roles.length ? INSPECTOR.inMessage([...new Set(roles)], 1 + Math.max(...numbers)) : INSPECTOR.atEnd;
  const quoted = [one, two].map(({ tokens }) => JSON.stringify(tokens[same]?.text ?? INSPECTOR.nothing));
  return INSPECTOR.differ(TEXT.tokens(same), place, quoted[0], quoted[1]);
}
