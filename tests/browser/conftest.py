"""A server with the scripted backend, and pages of a real Chromium that show its playground.

`make test-browser` runs these tests, in a process of their own: Playwright's event loop runs in the
main thread for as long as its browser does, and tests of asyncio need theirs there. Nothing is
collected without the variable TEST_BROWSER, or without playwright (the extra `test-browser`).
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.ports import free_port

CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
try:
    from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright
except ImportError:
    CHROMIUM = None

if CHROMIUM is None or not os.environ.get("TEST_BROWSER"):
    collect_ignore_glob = ["test_*.py"]

SCRIPT = Path(__file__).with_name("script.jsonl")
TIMEOUT_MS = int(os.environ.get("TEST_BROWSER_TIMEOUT", "60000"))
ROOT = Path(__file__).parents[2]


class Server:
    """A server process. `restart` ends it, and starts it on the same port."""

    def __init__(self, *options: str) -> None:
        self.port = free_port()
        self._options = options
        self.url = f"http://localhost:{self.port}"
        self.start()

    def start(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "server", *self.command()],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        ready = self.process.stdout.readline()
        if not ready.startswith(("Serving", "Playground")):
            self._kill()
            raise AssertionError(f"the server printed {ready!r}")

    def command(self) -> tuple[str, ...]:
        """The words after the name of the program."""
        script = ("--backend", "scripted", "--script", str(SCRIPT))
        return ("serve", *script, "--port", str(self.port), *self._options)

    def stop(self) -> int:
        self.process.send_signal(signal.SIGINT)
        try:
            self.process.communicate(timeout=30)
        finally:
            self._kill()
        return self.process.returncode

    def _kill(self) -> None:
        """End it at once, unless it has ended."""
        self.process.kill()
        self.process.communicate()

    def get(self, path: str) -> bytes:
        with urllib.request.urlopen(f"{self.url}{path}") as answer:
            return bytes(answer.read())

    def post(self, path: str, body: Any, key: str = "none") -> Any:
        """The answer to another client of the API."""
        headers = {"content-type": "application/json", "authorization": f"Bearer {key}"}
        data = json.dumps(body).encode()
        request = urllib.request.Request(f"{self.url}{path}", data, headers)
        with urllib.request.urlopen(request) as answer:
            return json.loads(answer.read())


class Site(Server):
    """A process of the command `playground`."""

    def command(self) -> tuple[str, ...]:
        """The words after the name of the program."""
        return ("playground", "--port", str(self.port), *self._options)


@contextmanager
def running(*options: str, kind: type[Server] = Server) -> Iterator[Server]:
    server = kind(*options)
    try:
        yield server
    finally:
        if server.process.poll() is None:
            server.stop()


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    store = tmp_path_factory.mktemp("store") / "store.db"
    with running("--store", f"sqlite:///{store}", "--drain-seconds", "0") as server:
        yield server


@pytest.fixture(scope="session")
def browser() -> Iterator["Browser"]:
    with sync_playwright() as playwright:
        # Chromium's sandbox needs user namespaces, which containers and root may not have.
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def context(browser: "Browser") -> Iterator["BrowserContext"]:
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    context.set_default_timeout(TIMEOUT_MS)
    expect.set_options(timeout=TIMEOUT_MS)
    yield context
    context.close()


def until(page: "Page", condition: str) -> None:
    """Wait for a condition of JavaScript. Playwright's own way breaks the page's policy."""
    wait = "await new Promise(requestAnimationFrame)"
    page.evaluate(
        f"""async () => {{
            const over = AbortSignal.timeout({TIMEOUT_MS});
            while (!({condition})) {{ over.throwIfAborted(); {wait}; }}
        }}"""
    )


Open = Callable[..., "Page"]


@pytest.fixture
def open_page(context: "BrowserContext", server: Server) -> Iterator[Open]:
    """Opens the playground. At the end, no page may have had an error or a breach of its policy."""
    found: list[str] = []

    def opened(url: str = server.url, *, expected: str = "", view: str = "chat") -> Any:
        page = context.new_page()
        page.on("pageerror", lambda error: found.append(str(error)))

        def console(message: Any) -> None:
            if message.type == "error" and not (expected and expected in message.text):
                found.append(message.text)

        page.on("console", console)
        page.goto(f"{url}/playground#{view}")
        return page

    yield opened
    assert found == []
