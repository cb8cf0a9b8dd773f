"""What the page costs: requests and bytes, and a server that ends with pages open."""

from typing import Any

from playwright.sync_api import expect

from tests.browser.conftest import running
from tests.browser.test_chat import ask

MOST_REQUESTS = 14
MOST_BYTES = 200_000
SIZES = """
[performance.getEntriesByType("navigation")[0], ...performance.getEntriesByType("resource")]
  .map(({ decodedBodySize }) => decodedBodySize)
"""


def test_the_first_view_is_small(open_page: Any) -> None:
    page = open_page()
    expect(page.locator("#model")).to_have_text("scripted")
    sizes = page.evaluate(SIZES)
    assert len(sizes) <= MOST_REQUESTS
    assert sum(sizes) <= MOST_BYTES


def test_a_long_answer_is_rendered_in_few_requests(open_page: Any) -> None:
    """Blocks that wait share a request: it costs the server more than their tokens do."""
    page = open_page()
    ask(page, "Show me formulas")
    expect(page.get_by_text("tokens in")).to_be_visible()
    expect(page.locator(".prose .plain")).to_have_count(0)
    blocks = page.locator(".prose .block").count()
    names = 'performance.getEntriesByType("resource").map(({ name }) => name)'
    rendered = [name for name in page.evaluate(names) if name.endswith("playground/render")]
    assert blocks > len(rendered) > 0


def test_a_server_ends_with_pages_open(open_page: Any) -> None:
    """Pages have no connection that the end waits for, unless an answer streams."""
    with running("--store", "memory", "--hosted-tools", "") as server:
        pages = [open_page(server.url, view=view, expected="ERR_") for view in ("chat", "load")]
        expect(pages[0].locator("#model")).to_have_text("scripted")
        ask(pages[0], "Hi")
        expect(pages[0].get_by_text("tokens in")).to_be_visible()
        # Without an answer in progress there is nothing to wait for, whatever the drain's time.
        assert server.stop() == 0


def test_the_views_share_one_file_of_styles(open_page: Any) -> None:
    page = open_page(view="load")
    expect(page.locator(".tile").first).to_be_visible()
    page.get_by_role("link", name="Inspector").click()
    expect(page.get_by_role("button", name="Parse")).to_be_visible()
    assert page.locator("link[href$='inspector.css']").count() == 1
