"""What of a long chat is in view."""

from typing import Any

from playwright.sync_api import Page, expect

from tests.browser.conftest import TIMEOUT_MS
from tests.browser.test_chat import ask

LEFT = """() => {
  const { scrollHeight, scrollTop, clientHeight } = document.querySelector(".scroller");
  return scrollHeight - scrollTop - clientHeight;
}"""
"""How far the end is below the view, in pixels."""
SETTLED = """() => new Promise((done) => {
  const scroller = document.querySelector(".scroller");
  const { scrollHeight } = scroller;
  const compare = () => done(scroller.scrollHeight === scrollHeight);
  requestAnimationFrame(() => requestAnimationFrame(compare));
})"""
"""Whether no part gets another height: parts have their own only once they come into view."""
TOP = "document.querySelector('.scroller').scrollTop"


def until(page: Page, expression: str) -> None:
    """Wait until the expression is true. The policy of the page forbids Playwright's own way."""
    for _ in range(TIMEOUT_MS // 20):
        if page.evaluate(expression):
            return
        page.wait_for_timeout(20)
    raise AssertionError(expression)


def rendered(page: Page) -> None:
    """Wait until all of an answer is shown."""
    expect(page.get_by_text("tokens in")).to_be_visible()
    expect(page.locator(".prose .plain")).to_have_count(0)
    until(page, f"({SETTLED})()")


def test_the_end_stays_in_view_while_tables_grow(open_page: Any) -> None:
    """They are higher than their source, which is shown first."""
    page = open_page()
    ask(page, "Show me tables")
    rendered(page)
    until(page, f"({LEFT})() < 2")
    page.reload()
    rendered(page)
    until(page, f"({LEFT})() < 2")


def test_who_scrolls_up_stays_there(open_page: Any) -> None:
    page = open_page()
    ask(page, "Show me tables")
    until(page, f"{TOP} > 10")
    page.mouse.move(600, 300)
    while page.evaluate(TOP):  # text that arrives at the same time may move it once more
        page.mouse.wheel(0, -5000)
        page.wait_for_timeout(20)
    rendered(page)
    assert page.evaluate(TOP) == 0
    page.mouse.wheel(0, 300)
    until(page, f"{TOP} === 300")
    page.get_by_role("link", name="Load").click()
    page.get_by_role("link", name="Chat", exact=True).click()
    expect(page.get_by_role("textbox", name="Message", exact=True)).to_be_focused()
    assert page.evaluate(TOP) == 300


def test_a_few_pixels_up_are_enough(open_page: Any) -> None:
    page = open_page()
    ask(page, "Show me tables")
    expect(page.locator(".prose td").first).to_be_visible()
    until(page, f"({LEFT})() < 2 && {TOP} > 10")
    page.evaluate("document.querySelector('.scroller').scrollTop -= 10")
    rendered(page)
    # What is in view stays there, while tables above it grow and the text below gets shorter.
    assert page.evaluate(f"({LEFT})()") > 80


def test_an_empty_message_box_leaves_the_end_in_view(open_page: Any) -> None:
    """A box of one line is lower than one of many, and the turns get its height."""
    page = open_page()
    ask(page, "Show me tables")
    expect(page.locator(".prose td").first).to_be_visible()
    box = page.get_by_role("textbox", name="Message", exact=True)
    box.fill("line\n" * 6)
    until(page, f"({LEFT})() < 2")
    box.fill("")
    rendered(page)
    until(page, f"({LEFT})() < 2")


def test_a_short_way_up_is_kept_while_another_view_is_shown(open_page: Any) -> None:
    page = open_page()
    ask(page, "Show me tables")
    rendered(page)
    until(page, f"({LEFT})() < 2 && {TOP} > 10")
    moved = page.evaluate("document.querySelector('.scroller').scrollTop -= 10")
    page.get_by_role("link", name="Load").click()
    page.get_by_role("link", name="Chat", exact=True).click()
    expect(page.get_by_role("textbox", name="Message", exact=True)).to_be_focused()
    page.set_viewport_size({"width": 1000, "height": 700})
    until(page, f"{TOP} <= {moved}")
    assert page.evaluate(f"({LEFT})()") > 2


def test_a_button_leads_back_to_the_end(open_page: Any) -> None:
    page = open_page()
    ask(page, "Show me tables")
    until(page, f"{TOP} > 10")
    to_end = page.get_by_role("button", name="To the end")
    expect(to_end).to_be_hidden()
    page.mouse.move(600, 300)
    page.mouse.wheel(0, -5000)
    to_end.click()
    expect(to_end).to_be_hidden()
    rendered(page)
    until(page, f"({LEFT})() < 2")


def test_what_somebody_opens_stays_in_view(open_page: Any) -> None:
    page = open_page()
    ask(page, "Show me tables")
    rendered(page)
    page.locator(".reasoning summary").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_text("Tables, then.")).to_be_in_viewport()
