import json
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import BrowserContext

HOSTILE: list[str] = json.loads(
    (Path(__file__).parents[1] / "data/hostile.json").read_text(encoding="utf-8")
)
# What would run, load or lead elsewhere, in any element of `host`.
INSPECT = """
async ([sources, rendered]) => {
  const base = document.querySelector("script").src;
  const { setSafeHTML } = await import(base.replace("main.js", "dom.js"));
  let html = sources;
  if (rendered) {
    const answer = await fetch("playground/render", {
      method: "POST", headers: { "content-type": "application/json" },
      body: JSON.stringify({ blocks: sources }),
    });
    html = (await answer.json()).html;
  }
  const bad = [];
  for (const [index, each] of html.entries()) {
    const host = document.createElement("div");
    document.body.append(host);
    setSafeHTML(host, each);
    for (const element of host.querySelectorAll("*")) {
      const names = element.getAttributeNames();
      const href = element.getAttribute("href") ?? "https://";
      if (names.some((name) => /^on|^style$|^id$|^src|xlink/.test(name))
          || !/^(https?:|mailto:|#)/.test(href)
          || /^(script|img|svg|iframe|object|embed|style|link|meta|base|form|input|template|video)$/
            .test(element.localName)) bad.push([index, element.outerHTML]);
      element.dispatchEvent(new Event("error"));
      if (!/^(https?:|mailto:|#)/.test(element.getAttribute("href") ?? "")) element.click?.();
    }
  }
  await new Promise((resolve) => setTimeout(resolve, 50));
  return [bad, window.hit ?? null, "setHTML" in Element.prototype];
}
"""


@pytest.mark.parametrize("native", [True, False], ids=["setHTML", "fallback"])
@pytest.mark.parametrize("rendered", [True, False], ids=["rendered", "raw"])
def test_hostile_text_does_nothing(
    open_page: Any, context: BrowserContext, native: bool, rendered: bool
) -> None:
    assert len(HOSTILE) >= 40
    if not native:
        context.add_init_script("delete Element.prototype.setHTML")
    context.route("https://example.test/**", lambda route: route.abort())
    # Handlers are parsed before they are removed, and the policy refuses to compile them.
    page = open_page(expected="" if native and rendered else "Content Security Policy")
    bad, hit, has = page.evaluate(INSPECT, [HOSTILE, rendered])
    assert (bad, hit, has) == ([], None, native)


def test_a_string_is_no_script(open_page: Any) -> None:
    """Trusted types refuse every sink that text could become a program in."""
    page = open_page(expected="Trusted")
    refused = page.evaluate(
        """() => {
          try {
            document.body.innerHTML = "<p>a</p>";
            return "";
          } catch (error) {
            return error.name;
          }
        }"""
    )
    assert refused == "TypeError"
