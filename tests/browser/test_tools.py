"""Tools: the form that declares them, and cards of calls that the server really makes."""

import json
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Server, running
from tests.browser.test_chat import ask
from tests.ports import free_port
from tests.sampled import browse, call, final
from tests.server.tools.mcp.conftest import SERVERS, Processes, processes

__all__ = ["processes"]  # a fixture

START = "<|start|>assistant"
FIGURE = """
import matplotlib.pyplot as plt
print(6 * 7)
plt.plot([1, 4, 9])
plt.show()
"""
ADD = '<|channel|>commentary to=functions.tools__add <|constrain|>json<|message|>{"a":1,"b":2}'


LINES = [
    {"prompt_contains": "refused this tool call", "completion": final("Then not.")},
    {"prompt_contains": "functions.tools__add to=assistant", "completion": final("It is 3.")},
    {"prompt_contains": "Add", "completion": f"{ADD}<|call|>"},
    {"prompt_contains": "[1] ", "completion": final("It searches a folder【1†L0-L2】.")},
    {"prompt_contains": "[0] ", "completion": browse("open", id=0)},
    {"prompt_contains": "Where?", "completion": browse("search", query="web search")},
    {"prompt_contains": "python to=assistant", "completion": final("That is the figure.")},
    {
        "prompt_contains": "Draw",
        "completion": call(FIGURE),
    },
]


@pytest.fixture(scope="module")
def equipped(tmp_path_factory: pytest.TempPathFactory, processes: Processes) -> Iterator[Server]:
    """A server with all of its tools, and with an MCP server of its operator."""
    folder = tmp_path_factory.mktemp("tools")
    script, mcp = folder / "script.jsonl", folder / "mcp.toml"
    script.write_text("".join(f"{json.dumps(line)}\n" for line in LINES), encoding="utf-8")
    port = free_port()
    processes.start([sys.executable, str(SERVERS / "tools.py"), "http", str(port)], port)
    mcp.write_text(f'[servers.tools]\nurl = "http://127.0.0.1:{port}/mcp"\nallow_private = true\n')
    options = ("--script", str(script), "--mcp", str(mcp), "--drain-seconds", "0")
    with running("--store", "memory", *options) as server:
        yield server


def add_tool(page: Page, kind: str, **fields: str) -> None:
    page.get_by_role("button", name="Tools in a form").click()
    page.get_by_label("Kind").select_option(kind)
    for label, value in fields.items():
        page.get_by_label(label.capitalize(), exact=True).fill(value)
    page.get_by_role("button", name="Add", exact=True).click()
    page.get_by_role("button", name="Close").click()


def declared(page: Page) -> Any:
    return json.loads(page.get_by_label("Tools (JSON)").input_value() or "[]")


def test_tools_are_added_and_removed_in_a_form(open_page: Any) -> None:
    page = open_page()
    add_tool(page, "function", name="get_weather", description="Looks it up.")
    add_tool(page, "mcp", label="files")
    weather = {"type": "function", "name": "get_weather", "description": "Looks it up."}
    parameters = {"type": "object", "properties": {}}
    files = {"type": "mcp", "server_label": "files", "require_approval": "always"}
    assert declared(page) == [{**weather, "parameters": parameters}, files]
    page.get_by_role("button", name="Tools in a form").click()
    page.get_by_role("button", name="Remove: get_weather").click()
    assert declared(page) == [files]
    page.get_by_role("button", name="Remove: files").click()
    expect(page.get_by_text("The model has no tools yet.")).to_be_visible()
    assert declared(page) == []


def test_parameters_that_are_no_json_are_named_and_stay(open_page: Any) -> None:
    page = open_page()
    page.get_by_role("button", name="Tools in a form").click()
    page.get_by_label("Name", exact=True).fill("f")
    page.get_by_label("Parameters (JSON schema)").fill("{nonsense")
    page.get_by_role("button", name="Add", exact=True).click()
    expect(page.locator("dialog [role=alert]")).to_contain_text("This is not JSON")
    expect(page.get_by_label("Name", exact=True)).to_have_value("f")


def test_a_form_cannot_read_what_is_no_list(open_page: Any) -> None:
    page = open_page()
    page.get_by_label("Tools (JSON)").fill("{nonsense")
    page.get_by_role("button", name="Tools in a form").click()
    expect(page.get_by_text("The tools are not a JSON list.")).to_be_visible()
    page.get_by_label("Name", exact=True).fill("f")
    page.get_by_role("button", name="Add", exact=True).click()
    expect(page.get_by_label("Tools (JSON)")).to_have_value("{nonsense")


def test_code_runs_and_shows_its_output_and_its_figure(open_page: Any, equipped: Server) -> None:
    state = json.loads(equipped.get("/ready"))["tools"]["python"]
    if state != "on":
        pytest.skip(f"python is {state}")
    page = open_page(equipped.url)
    add_tool(page, "code_interpreter")
    ask(page, "Draw")
    card = page.locator(".card")
    expect(card.locator("img")).to_be_visible(timeout=60_000)
    expect(card.locator(".hl-nb")).to_have_text("print")
    expect(card).to_contain_text("42")
    expect(card.locator(".state")).to_have_text("completed")
    expect(card.locator("img")).not_to_have_js_property("naturalWidth", 0)
    expect(page.get_by_text("That is the figure.")).to_be_visible()


def test_a_search_shows_its_results_and_the_page_that_was_opened(
    open_page: Any, equipped: Server
) -> None:
    page = open_page(equipped.url)
    add_tool(page, "web_search")
    ask(page, "Where?")
    search, opened = page.locator(".card").first, page.locator(".card").last
    expect(opened).to_contain_text("Page opened")
    expect(search).to_contain_text("web search")
    expect(search.locator("li").first).to_contain_text(".md")
    expect(opened.locator("li")).to_contain_text(".md")
    expect(page.get_by_text("It searches a folder")).to_be_visible()


@pytest.mark.parametrize(
    ("button", "state", "answer"),
    [("Approve", "Approved", "It is 3."), ("Deny", "Denied", "Then not.")],
)
def test_a_call_of_an_mcp_server_waits_for_a_button(
    open_page: Any, equipped: Server, button: str, state: str, answer: str
) -> None:
    page = open_page(equipped.url)
    add_tool(page, "mcp", label="tools")
    ask(page, "Add")
    card = page.get_by_label("Approval needed")
    expect(card).to_contain_text("tools · add")
    page.get_by_role("button", name=button).click()
    expect(card.locator(".state")).to_have_text(state)
    expect(page.get_by_text(answer)).to_be_visible()
    expect(page.locator(".typed").last).to_have_text(state)
    expect(page.get_by_role("button", name=button)).to_have_count(0)
