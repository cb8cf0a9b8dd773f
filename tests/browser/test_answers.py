"""Answers on the page: their Markdown while it arrives and afterwards, in copies and on paper."""

import re
from typing import Any

from playwright.sync_api import BrowserContext, Page, expect

from tests.browser.test_access import NARROW
from tests.browser.test_chat import ask, served, stream
from tests.browser.test_reading import message
from tests.browser.test_scrolling import rendered

FORMULAS = "So $x^2$ holds:\n\n\\[\n\\frac{a}{b}\n\\]\n\n- one\n- two\n\n```python\nprint(1)\n```\n"


def shown(page: Page, text: str) -> None:
    """Show an answer with this text, at once."""
    served(page, stream([message(text)]))
    ask(page, "Write")
    expect(page.locator(".prose")).to_be_visible()


def copied(page: Page) -> Any:
    return page.evaluate("navigator.clipboard.readText()")


def test_a_list_of_any_length_is_rendered(open_page: Any) -> None:
    page = open_page()
    shown(page, "".join(f"{n}. the item *{n}* of a list\n\n" for n in range(1, 2500)))
    expect(page.locator(".prose em")).to_have_count(2499)
    expect(page.locator(".prose ol").last).to_have_attribute("start", re.compile(r"\d{4}"))


def test_code_of_any_length_is_shown_as_code(open_page: Any) -> None:
    page = open_page()
    code = "x = 1\n" * 11_000
    shown(page, f"So:\n```python\n{code}```\nDone.")
    expect(page.locator(".prose p")).to_have_text(["So:", "Done."])
    expect(page.locator(".prose .code-head span")).to_have_text("python")
    assert page.locator(".prose pre code").evaluate("code => code.textContent") == code


def test_code_is_code_while_it_arrives(open_page: Any) -> None:
    page = open_page()
    ask(page, "Write code at leisure")
    expect(page.locator(".arriving pre code")).to_contain_text("two = 2")
    expect(page.locator(".arriving .code-head span")).to_have_text("python")
    expect(page.locator(".arriving")).not_to_contain_text("```")
    page.get_by_role("button", name="Stop").click()


def test_a_block_is_rendered_once_the_server_can_be_reached_again(open_page: Any) -> None:
    page = open_page(expected="503")
    failures = iter(range(3))

    def answer(route: Any) -> None:
        if next(failures, None) is None:
            route.fallback()
        else:
            route.fulfill(status=503, json={})

    page.route("**/playground/render", answer)
    shown(page, "It is *so*.")
    expect(page.locator(".prose em")).to_have_text("so")


def test_words_in_a_narrow_table_are_whole(open_page: Any) -> None:
    page = open_page()
    page.set_viewport_size(NARROW)
    words = ["Internationalisation", "Configuration", "Responsibility", "Characteristics"]
    row = f"| {' | '.join(words)} |\n"
    shown(page, f"{row}{'|---' * len(words)}|\n{row}")
    expect(page.locator(".prose td")).to_have_count(len(words))
    heights = page.locator(".prose td").evaluate_all("all => all.map((each) => each.clientHeight)")
    assert max(heights) < 50  # one line
    assert page.locator(".prose table").evaluate("table => table.scrollWidth > table.clientWidth")


def test_the_language_does_not_lie_over_the_code(open_page: Any) -> None:
    page = open_page()
    shown(page, f"```python\n{'x' * 400}\n```\n")
    expect(page.locator(".prose .plain")).to_have_count(0)
    label = page.locator(".code-head span").bounding_box()
    code = page.locator(".prose code").bounding_box()
    assert label["y"] + label["height"] <= code["y"]


def test_an_answer_and_its_code_can_be_copied(open_page: Any, context: BrowserContext) -> None:
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    page = open_page()
    shown(page, FORMULAS)
    expect(page.locator(".prose .plain")).to_have_count(0)
    page.get_by_role("button", name="Copy the answer").click()
    expect(page.get_by_text("Copied").first).to_be_visible()
    assert copied(page) == FORMULAS
    page.get_by_role("button", name="Copy the code").click()
    expect(page.locator(".code-head").get_by_text("Copied")).to_be_visible()
    assert copied(page) == "print(1)\n"


def test_selected_formulas_are_copied_as_tex(open_page: Any, context: BrowserContext) -> None:
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    page = open_page()
    shown(page, FORMULAS)
    expect(page.locator(".prose math")).to_have_count(2)
    expect(page.locator(".prose .plain")).to_have_count(0)
    page.evaluate("getSelection().selectAllChildren(document.querySelector('.message'))")
    page.keyboard.press("Control+c")
    lines = [line for line in copied(page).splitlines() if line.strip()]
    assert lines == ["So $x^2$ holds:", "$$\\frac{a}{b}$$", "one", "two", "print(1)"]
    page.evaluate("getSelection().selectAllChildren(document.querySelector('math mi'))")
    page.keyboard.press("Control+c")
    assert copied(page) == "$x^2$"


def test_all_that_is_selected_is_copied_without_what_the_page_adds(
    open_page: Any, context: BrowserContext
) -> None:
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    page = open_page()
    shown(page, FORMULAS)
    expect(page.locator(".prose math")).to_have_count(2)
    expect(page.locator(".prose .plain")).to_have_count(0)
    page.locator(".turn").click(position={"x": 1, "y": 1})
    page.keyboard.press("Control+a")
    page.keyboard.press("Control+c")
    text = copied(page)
    assert "So $x^2$ holds:" in text
    assert "Try again" not in text
    assert "You: Write" not in text


def test_all_of_a_chat_is_printed(open_page: Any) -> None:
    page = open_page()
    ask(page, "Show me tables")
    rendered(page)
    assert len(re.findall(rb"/Type /Page\b", page.pdf())) > 2
    page.emulate_media(media="print")
    expect(page.get_by_role("textbox", name="Message")).to_be_hidden()
    expect(page.get_by_role("button", name="New chat")).to_be_hidden()


def test_an_answer_goes_on_after_its_token_limit(open_page: Any) -> None:
    page = open_page()
    page.get_by_label("Most tokens").fill("4")
    ask(page, "Hi")
    expect(page.locator(".note")).to_contain_text("The answer reached its token limit.")
    page.get_by_label("Most tokens").fill("")
    page.get_by_role("button", name="Continue").click()
    expect(page.locator(".turn")).to_have_count(2)
    expect(page.locator(".typed").last).to_have_text("Continue exactly where you stopped.")
    expect(page.locator(".answer strong")).to_have_text("How")
    expect(page.get_by_role("button", name="Continue")).to_have_count(0)


def test_long_parts_of_calls_are_folded(open_page: Any) -> None:
    page = open_page()
    names = [{"name": f"tool_{n}"} for n in range(60)]
    listed = {"type": "mcp_list_tools", "id": "m1", "server_label": "s", "tools": names}
    output = "line\n" * 1000
    call = {"type": "mcp_call", "id": "m2", "server_label": "s", "name": "f", "output": output}
    served(page, stream([listed, {**call, "arguments": '{"a": 1}'}]))
    ask(page, "Call")
    expect(page.get_by_text('"a": 1')).to_be_visible()
    expect(page.get_by_text("tool_59")).to_be_hidden()
    page.get_by_text("60 tools").click()
    expect(page.get_by_text("tool_59")).to_be_visible()
    page.get_by_text("Output · 5,000 characters").click()
    expect(page.get_by_text("line\nline").last).to_be_visible()
