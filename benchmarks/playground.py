"""What the playground costs: `python -m benchmarks.playground`.

Prints the weight and the requests of the page and its time to be usable; the processor time of the
API process for each token with a page open and with a plain client; frames and long tasks while
20,000 tokens stream; how long the inspector takes to show 20,000 and 100,000 tokens; and what 50
open pages cost. It needs Chromium and the extra `test-browser`.
"""

import json
import statistics
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, CDPSession, Page, expect, sync_playwright

from benchmarks.library.processes import memory, process_seconds
from tests.browser.conftest import CHROMIUM, Server, running

PARAGRAPH = "The tide follows the moon, and the sea follows the tide **again**.\n\n"
TOKENS = 20_000
FRAMES = """
() => {
  window.frames_ = []; window.tasks_ = [];
  const step = (time) => { window.frames_.push(time); requestAnimationFrame(step); };
  requestAnimationFrame(step);
  new PerformanceObserver((list) => {
    for (const entry of list.getEntries()) window.tasks_.push(entry.duration);
  }).observe({ type: "longtask" });
}
"""
OPEN = """
async (count) => {
  const base = document.querySelector("script").src;
  const load = (name) => import(base.replace("main.js", name));
  const names = ["api.js", "panes.js", "tip.js"];
  const [{ json }, { HarmonyPanes }, { Tip }] = await Promise.all(names.map(load));
  const body = Array.from({ length: count - 4 }, (_, index) => 1000 + (index % 5000));
  const tokens = [200006, 1428, 200008, ...body, 200007];
  const view = document.getElementById("view");
  const began = performance.now();
  const parsed = await json("playground/parse", { body: { tokens, sampled: [] } });
  const read = performance.now();
  const panes = new HarmonyPanes(new Tip(), { onerror: () => {} });
  panes.show(parsed);
  view.append(panes.element);
  await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
  const shown = performance.now();
  panes.element.remove();
  return [read - began, shown - read];
}
"""


def first_view(page: Page, url: str) -> None:
    times = []
    for _ in range(5):
        page.goto("about:blank")
        page.goto(f"{url}/playground")
        page.get_by_role("textbox", name="Message", exact=True).wait_for()
        entries = "performance.getEntriesByType('resource')"
        times.append(page.evaluate(f"Math.max(...{entries}.map((each) => each.responseEnd))"))
    everything = f"[performance.getEntriesByType('navigation')[0], ...{entries}]"
    sizes = page.evaluate(f"{everything}.map((each) => each.decodedBodySize)")
    print(f"first view: {len(sizes)} requests, {sum(sizes) / 1000:.0f} kB")
    print(f"all loaded after {statistics.median(times):.0f} ms (median of 5)")


def plain_client(server: Server) -> float:
    """Microseconds of the process for each token, with a client that reads a stream."""
    body = json.dumps({"input": "long", "stream": True, "include": ["gpt_oss:record"]}).encode()
    headers = {"content-type": "application/json"}
    began = process_seconds(server.process.pid)
    request = urllib.request.Request(f"{server.url}/v1/responses", body, headers)
    with urllib.request.urlopen(request) as answer:
        while answer.read(65_536):
            pass
    return (process_seconds(server.process.pid) - began) / TOKENS * 1e6


def busy(session: CDPSession) -> float:
    """The processor time of the page's main thread, in seconds."""
    metrics = session.send("Performance.getMetrics")["metrics"]
    return float(next(each["value"] for each in metrics if each["name"] == "TaskDuration"))


def streamed(page: Page, server: Server) -> float:
    """As `plain_client`, with a page. Prints the frames."""
    page.evaluate(FRAMES)
    session = page.context.new_cdp_session(page)
    # The time of the processor, which other processes do not change.
    session.send("Performance.enable", {"timeDomain": "threadTicks"})
    worked = busy(session)
    began = process_seconds(server.process.pid)
    box: Any = page.get_by_role("textbox", name="Message", exact=True)
    box.fill("long")
    box.press("Enter")
    page.get_by_text("tokens in").wait_for(timeout=600_000)
    expect(page.locator(".prose .plain")).to_have_count(0, timeout=60_000)
    took = process_seconds(server.process.pid) - began
    times, tasks = page.evaluate("[window.frames_, window.tasks_]")
    rate = 1000 * (len(times) - 1) / (times[-1] - times[0])
    share = (busy(session) - worked) / (times[-1] - times[0]) * 1e5
    print(f"frames: {rate:.1f} a second; longest task {max(tasks, default=0):.0f} ms;")
    print(f"the page's main thread works {share:.0f} % of the time")
    return took / TOKENS * 1e6


def many_pages(browser: Browser, script: Path, count: int = 50) -> None:
    """Print the memory that `count` open pages cost, which ask for the load every two seconds, and
    how long the server takes to end with them and without."""
    for pages in (0, count):
        with running("--script", str(script), "--store", "memory") as server:
            before = memory(server.process.pid)
            opened = [browser.new_page() for _ in range(pages)]
            for page in opened:
                page.goto(f"{server.url}/playground#load")
                page.locator("svg").first.wait_for()
            more = (memory(server.process.pid) - before) / 1e6
            print(f"{pages} open pages: {more:.0f} MB of the API process")
            began = time.monotonic()
            server.stop()
            print(f"Ctrl-C with {pages} open pages: {time.monotonic() - began:.2f} s")
            for page in opened:
                page.close()


def main() -> None:
    """Run all measurements against a scripted server that sends 5 tokens every 10 ms."""
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        script = Path(folder) / "script.jsonl"
        text = PARAGRAPH * (TOKENS // 16)
        line = {
            "completion": f"<|channel|>final<|message|>{text}<|return|>",
            "tokens_per_chunk": 5,
            "delay_ms": 10,
        }
        script.write_text(json.dumps(line))
        with running("--script", str(script), "--store", "memory") as server:
            browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
            page = browser.new_page()
            first_view(page, server.url)
            for count in (TOKENS, 5 * TOKENS):
                read, shown = page.evaluate(OPEN, count)
                print(f"inspector: {count} tokens read in {read:.0f} ms, shown in {shown:.0f} ms")
            alone = plain_client(server)
            with_page = streamed(page, server)
            print(f"API process: {alone:.0f} us a token alone, {with_page:.0f} with a page")
            page.close()
            many_pages(browser, script)
            browser.close()


if __name__ == "__main__":
    main()
