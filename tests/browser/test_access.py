"""The page by keyboard, on a narrow screen, and for screen readers."""

from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.browser.test_chat import WEATHER, ask, served, stream
from tests.node import installed

NARROW: Any = {"width": 360, "height": 700}
CHECK = """
async () => {
  const { violations } = await axe.run(document, {
    runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"],
  });
  return violations
    .filter(({ impact }) => ["serious", "critical"].includes(impact))
    .map(({ id, nodes }) => [id, nodes.map(({ html, any }) => [html, any.map((a) => a.message)])]);
}
"""


@pytest.fixture(scope="module")
def axe() -> str:
    """The source of axe-core. The test is skipped where there is no Node.js, which brings npm."""
    folder = installed(Path(__file__).with_name("js"))
    return (folder / "node_modules/axe-core/axe.min.js").read_text(encoding="utf-8")


def findings(page: Page, axe: str) -> Any:
    """The serious and critical findings, once animations are over."""
    page.emulate_media(reduced_motion="reduce")
    page.evaluate("Promise.all(document.getAnimations().map((each) => each.finished))")
    page.evaluate(axe)
    return page.evaluate(CHECK)


def everything(page: Page) -> None:
    """Show each kind of item."""
    part = {"type": "output_text", "text": "Tides `rise`.", "annotations": []}
    items: list[dict[str, Any]] = [
        {"id": "rs", "type": "reasoning", "content": [{"type": "reasoning_text", "text": "Hm."}]},
        {"id": "pre", "type": "message", "phase": "commentary", "content": [part]},
        {
            "id": "ci",
            "type": "code_interpreter_call",
            "status": "completed",
            "code": "# sum\nprint(6 * 7, 'a', None)",
            "outputs": [{"type": "logs", "logs": "42"}],
        },
        {
            "id": "ws",
            "type": "web_search_call",
            "status": "failed",
            "action": {"type": "open_page", "url": "https://example.test/tides"},
        },
        {
            "id": "mcpr",
            "type": "mcp_approval_request",
            "server_label": "files",
            "name": "remove",
            "arguments": "{}",
        },
        {"id": "fc", "type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
        {"id": "msg", "type": "message", "phase": "final_answer", "content": [part]},
    ]
    served(page, stream(items))
    ask(page, "Everything")
    expect(page.get_by_role("button", name="Send results")).to_be_visible()
    expect(page.locator(".prose .hl-nb")).to_be_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 360])
def test_a_chat_has_no_serious_finding(open_page: Any, axe: str, scheme: Any, width: int) -> None:
    page = open_page()
    page.emulate_media(color_scheme=scheme)
    page.set_viewport_size({"width": width, "height": 800})
    assert findings(page, axe) == []
    everything(page)
    assert findings(page, axe) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_dialogs_have_no_serious_finding(open_page: Any, axe: str, scheme: Any) -> None:
    page = open_page()
    page.emulate_media(color_scheme=scheme)
    page.get_by_role("button", name="Tools in a form").click()
    assert findings(page, axe) == []
    page.keyboard.press("Escape")
    page.get_by_role("button", name="View as code").click()
    assert findings(page, axe) == []
    page.keyboard.press("Escape")
    page.get_by_role("button", name="API key").click()
    assert findings(page, axe) == []


@pytest.mark.parametrize("view", ["inspector", "load"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_other_views_have_no_serious_finding(
    open_page: Any, axe: str, view: str, scheme: Any
) -> None:
    page = open_page(view=view)
    page.emulate_media(color_scheme=scheme)
    if view == "inspector":
        page.get_by_role("button", name="Show the prompt").click()
        page.locator(".t.control").first.wait_for()
    else:
        page.locator("svg").first.wait_for()
    assert findings(page, axe) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 360])
def test_an_inspected_answer_has_no_serious_finding(
    open_page: Any, axe: str, scheme: Any, width: int
) -> None:
    page = open_page()
    page.emulate_media(color_scheme=scheme)
    page.get_by_label("Log probabilities").select_option("5")
    ask(page, "malformed, please")
    expect(page.get_by_text("tokens in")).to_be_visible()
    page.get_by_role("button", name="Inspect").click()
    expect(page.get_by_role("heading", name="Time line")).to_be_visible()
    page.set_viewport_size({"width": width, "height": 800})
    page.locator(".t.repaired").first.hover()
    assert findings(page, axe) == []


def test_the_page_of_links_has_no_serious_finding(context: Any, server: Any, axe: str) -> None:
    page = context.new_page()
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        page.goto(f"{server.url}/")
        assert findings(page, axe) == []


def test_everything_is_reached_by_keyboard(open_page: Any) -> None:
    page = open_page()
    expect(page.get_by_role("textbox", name="Message")).to_be_focused()
    page.get_by_label("Tools (JSON)").fill(WEATHER)
    page.get_by_role("textbox", name="Message").focus()
    page.keyboard.type("How is the weather?")
    page.keyboard.press("Enter")
    field = page.get_by_label("Result: get_weather")
    expect(field).to_be_visible()
    for _ in range(20):
        page.keyboard.press("Shift+Tab")
        if field.evaluate("element => element === document.activeElement"):
            break
    page.keyboard.type('{"temperature": 21}')
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.get_by_text("It is 21 degrees in Oslo.")).to_be_visible()


def test_escape_stops_an_answer(open_page: Any) -> None:
    page = open_page()
    ask(page, "Count slowly")
    expect(page.get_by_text("One two")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_text("Stopped.")).to_be_visible()


def test_a_link_leads_to_the_content_of_the_view(open_page: Any) -> None:
    page = open_page(view="inspector")
    skip = page.get_by_role("link", name="Skip to the content")
    skip.focus()
    skip.press("Enter")
    expect(page.locator("main")).to_be_focused()
    expect(page.get_by_role("button", name="Show the prompt")).to_be_visible()


def test_the_end_of_an_answer_is_said_to_screen_readers(open_page: Any) -> None:
    page = open_page()
    ask(page, "Hi")
    expect(page.locator("#status")).to_have_text("The answer is complete.")


def test_nothing_is_wider_than_a_narrow_screen(open_page: Any) -> None:
    page = open_page()
    page.set_viewport_size(NARROW)
    everything(page)
    overflow = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    assert page.evaluate(overflow) == 0
    page.get_by_role("button", name="Options").click()
    expect(page.get_by_label("Temperature")).to_be_visible()
    page.get_by_role("button", name="Options").click()
    page.get_by_role("button", name="Chats").click()
    expect(page.get_by_role("button", name="New chat")).to_be_visible()


def test_a_very_narrow_screen_shows_all_of_the_bar(open_page: Any) -> None:
    page = open_page()
    page.set_viewport_size({"width": 320, "height": 640})
    ask(page, "Hi")
    expect(page.get_by_text("tokens in")).to_be_visible()
    overflow = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    assert page.evaluate(overflow) == 0
    box = page.get_by_role("button", name="Theme: auto").bounding_box()
    assert box is not None
    assert box["x"] + box["width"] <= 320


def test_the_name_of_a_call_is_whole_on_a_very_narrow_screen(open_page: Any) -> None:
    page = open_page()
    page.set_viewport_size({"width": 320, "height": 640})
    listed = {"id": "mcpl_1", "type": "mcp_list_tools", "server_label": "documentation"}
    served(page, stream([{**listed, "tools": []}]))
    ask(page, "Hi")
    expect(page.get_by_label("Tools of an MCP server")).to_contain_text("completed")
    name = page.locator(".card-name").bounding_box()
    assert name is not None
    assert name["height"] < 25  # one line


@pytest.mark.parametrize(
    ("name", "inside", "outside"), [("Chats", "New chat", 350), ("Options", "scripted", 10)]
)
def test_a_drawer_takes_the_focus_and_gives_it_back(
    open_page: Any, name: str, inside: str, outside: int
) -> None:
    page = open_page()
    page.set_viewport_size(NARROW)
    opener = page.get_by_role("button", name=name)
    opener.click()
    drawer = page.get_by_role("complementary", name=name)
    expect(drawer.locator(":focus")).to_contain_text(inside)
    page.keyboard.press("Escape")
    expect(drawer).to_be_hidden()
    expect(opener).to_be_focused()
    opener.click()
    expect(drawer).to_be_visible()
    page.mouse.click(outside, 400)
    expect(drawer).to_be_hidden()


def test_an_option_that_cannot_be_read_is_shown_on_a_narrow_screen(open_page: Any) -> None:
    page = open_page()
    page.set_viewport_size(NARROW)
    page.get_by_role("button", name="Options").click()
    page.get_by_label("Tools (JSON)").fill("nonsense")
    page.keyboard.press("Escape")
    ask(page, "Hi")
    expect(page.locator("#options .notice.error")).to_be_in_viewport()


@pytest.mark.parametrize("name", ["Tools in a form", "View as code"])
@pytest.mark.parametrize("key", ["Escape", "Close"])
def test_a_dialog_leads_back_to_the_drawer_that_has_its_button(
    open_page: Any, name: str, key: str
) -> None:
    page = open_page()
    page.set_viewport_size(NARROW)
    page.get_by_role("button", name="Options").click()
    button = page.get_by_role("button", name=name)
    button.click()
    expect(page.get_by_role("dialog")).to_be_visible()
    if key == "Escape":
        page.keyboard.press("Escape")
    else:
        page.get_by_role("button", name="Close").click()
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(button).to_be_in_viewport()
    expect(button).to_be_focused()
    # The drawer gives the focus to its first field only where nothing in it has it.
    page.evaluate("new Promise((resolve) => setTimeout(resolve))")
    expect(button).to_be_focused()


def test_the_focus_is_in_the_message_box_after_another_try(open_page: Any) -> None:
    page = open_page()
    ask(page, "Hi")
    expect(page.get_by_text("tokens in")).to_be_visible()
    page.get_by_role("button", name="Try again").press("Enter")
    expect(page.get_by_text("2 / 2")).to_be_visible()
    expect(page.get_by_role("textbox", name="Message")).to_be_focused()


@pytest.mark.parametrize("key", ["Escape", "Cancel"])
def test_the_focus_is_on_edit_after_the_form_has_closed(open_page: Any, key: str) -> None:
    page = open_page()
    ask(page, "Hi")
    expect(page.get_by_text("tokens in")).to_be_visible()
    page.get_by_role("button", name="Edit").press("Enter")
    field = page.get_by_role("textbox", name="Edit")
    expect(field).to_be_focused()
    if key == "Escape":
        field.press(key)
    else:
        page.get_by_role("button", name=key).press("Enter")
    expect(field).to_have_count(0)
    expect(page.get_by_role("button", name="Edit")).to_be_focused()


def test_the_page_is_named_after_what_it_shows(open_page: Any) -> None:
    page = open_page()
    expect(page).to_have_title("New chat · gpt-oss playground")
    ask(page, "Are you well?")
    expect(page).to_have_title("Are you well? · gpt-oss playground")
    expect(page.get_by_role("heading", level=1)).to_have_text("Are you well?")
    page.get_by_role("link", name="Load").click()
    expect(page).to_have_title("Load · gpt-oss playground")
    expect(page.get_by_role("heading", level=1)).to_have_text("Load")
    page.get_by_role("link", name="Inspector").click()
    expect(page).to_have_title("Inspector · gpt-oss playground")


def test_the_theme_is_chosen_and_remembered(open_page: Any) -> None:
    page = open_page()
    page.emulate_media(color_scheme="light")
    ground = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(ground)
    page.get_by_role("button", name="Theme: auto").click()
    page.get_by_role("button", name="Theme: light").click()
    dark = page.evaluate(ground)
    assert light != dark
    page.reload()
    assert page.evaluate(ground) == dark


def test_a_drawer_closes_where_the_page_has_room_for_its_panel(open_page: Any) -> None:
    page = open_page()
    page.set_viewport_size({"width": 1000, "height": 800})
    page.get_by_role("button", name="Chats").click()
    expect(page.locator("#chats:popover-open")).to_be_visible()
    page.set_viewport_size({"width": 1280, "height": 800})
    expect(page.locator("#chats:popover-open")).to_have_count(0)
    chats, turns = (page.locator(each).bounding_box() for each in ("#chats", ".scroller"))
    assert chats is not None
    assert turns is not None
    assert chats["x"] + chats["width"] <= turns["x"]


def test_a_dialog_is_not_printed(open_page: Any) -> None:
    page = open_page()
    page.get_by_role("button", name="View as code").click()
    page.emulate_media(media="print")
    expect(page.locator("dialog")).to_be_hidden()
