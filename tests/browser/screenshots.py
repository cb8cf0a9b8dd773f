"""Takes the pictures of the playground for the documentation: `make screenshots`."""

import sys
from pathlib import Path
from threading import Thread

from playwright.sync_api import Page, sync_playwright

from tests.browser.conftest import CHROMIUM, Server, running

SIZE = {"width": 1280, "height": 800}

SLOW = """
async (number) => {
  const input = number % 2 ? "Show me formulas" : "Count slowly";
  for (let count = 0; count <= number % 4; count++) {
    await fetch("v1/responses", {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ input, background: true }),
    });
  }
}
"""


def ask(page: Page, text: str) -> None:
    box = page.get_by_role("textbox", name="Message")
    box.fill(text)
    box.press("Enter")
    page.get_by_role("button", name="Send", exact=True).wait_for()


def slowly(server: Server) -> None:
    """Something to see on the page of the load."""
    for _ in range(3):
        server.post("/v1/responses", {"input": "Count slowly"})


def take(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    options = ("--store", "memory", "--drain-seconds", "0", "--constrain", "always")
    with running(*options) as server, sync_playwright() as run:
        browser = run.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page(viewport=SIZE)  # type: ignore[arg-type]
        page.goto(f"{server.url}/playground")
        page.get_by_label("Log probabilities").select_option("5")
        ask(page, "Show me formulas")
        page.locator(".prose td").first.wait_for()
        page.locator(".scroller").evaluate("element => { element.scrollTop = 0 }")
        page.screenshot(path=folder / "playground-chat.png")
        page.get_by_role("button", name="Inspect").click()
        page.get_by_text("The grammar forced").wait_for(timeout=60_000)
        token = page.locator(".t.final.body", has_text="quadratic").first
        page.get_by_role("heading", name="Entropy").evaluate("element => element.scrollIntoView()")
        token.hover()
        page.screenshot(path=folder / "playground-inspector.png")
        requests = [Thread(target=slowly, args=(server,)) for _ in range(3)]
        for each in requests:
            each.start()
        page.get_by_role("link", name="Load").click()
        page.locator("svg.plot:visible").nth(1).wait_for()
        for number in range(6):
            page.evaluate(SLOW, number)
            page.wait_for_timeout(3000)
        page.screenshot(path=folder / "playground-load.png")
        for each in requests:
            each.join()
        browser.close()


if __name__ == "__main__":
    take(Path(sys.argv[1]))
