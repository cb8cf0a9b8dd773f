"""How what arrives can be read: in its own words, its own direction, and the nearest first."""

import json
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.conftest import Server
from tests.browser.test_access import NARROW
from tests.browser.test_chat import ask, served, stream


def message(text: str) -> dict[str, Any]:
    part = {"type": "output_text", "text": text, "annotations": []}
    return {"id": "msg_1", "type": "message", "content": [part]}


@pytest.mark.parametrize(
    "arguments", ['{"to": 12345678901234567890}', '{"to": 1.0}', '{"to": "a", "to": "b"}']
)
def test_arguments_are_shown_as_they_are_sent(open_page: Any, arguments: str) -> None:
    page = open_page()
    call = {"type": "mcp_approval_request", "id": "mcpr_1", "server_label": "bank", "name": "pay"}
    served(page, stream([{**call, "arguments": arguments}]))
    ask(page, "Pay")
    expect(page.locator(".card code")).to_have_text(arguments)


def test_arguments_are_indented(open_page: Any) -> None:
    page = open_page()
    call = {"type": "function_call", "id": "fc_1", "call_id": "c", "name": "pay"}
    served(page, stream([{**call, "arguments": '{"to": "a \\" b",  "sum": 1}'}]))
    ask(page, "Pay")
    expect(page.locator(".card code")).to_have_text('{\n  "to": "a \\" b",\n  "sum": 1\n}')


def directions(page: Page, selector: str) -> Any:
    script = "(all) => all.map((each) => getComputedStyle(each).direction)"
    return page.locator(selector).evaluate_all(script)


def test_text_is_written_in_the_direction_of_its_script(open_page: Any) -> None:
    page = open_page()
    served(page, stream([message("שלום, עולם!\n\n- אחד\n- שתיים?\n\nHello!")]))
    ask(page, "שלום!")
    expect(page.locator(".block p")).to_have_text(["שלום, עולם!", "Hello!"])
    assert directions(page, ".block") == ["rtl", "ltr"]
    assert directions(page, ".typed") == ["rtl"]
    box = page.get_by_role("textbox", name="Message")
    box.fill("שלום!")
    assert directions(page, ".composer textarea") == ["rtl"]


def test_a_summary_is_not_mixed_with_the_text_that_it_summarises(open_page: Any) -> None:
    page = open_page()
    reasoning = {"id": "rs_1", "type": "reasoning", "summary": [], "content": []}
    kinds = ["text", "summary_text"] * 2
    deltas = [
        {"type": f"response.reasoning_{kind}.delta", "item_id": "rs_1", "delta": f"{index} "}
        for index, kind in enumerate(kinds)
    ]
    added = {"type": "response.output_item.added", "item": reasoning}
    lost = {"type": "error", "message": "The engine has died."}
    served(page, "".join(f"data: {json.dumps(each)}\n\n" for each in [added, *deltas, lost]))
    ask(page, "Think")
    expect(page.locator(".reasoning-text > div")).to_have_text(["1 3", "0 2"])
    page.unroute("**/v1/responses")
    ended = {
        "summary": [{"type": "summary_text", "text": "In short"}],
        "content": [{"type": "reasoning_text", "text": "At length"}],
    }
    served(page, stream([{**reasoning, **ended}]))
    ask(page, "Think again")
    expect(page.locator(".reasoning-text").last.locator("div")).to_have_text(
        ["In short", "At length"]
    )


def test_the_end_of_a_long_answer_is_rendered_first(open_page: Any) -> None:
    """It is what is in view where a long chat is opened."""
    page = open_page()
    asked: list[list[str]] = []
    page.on(
        "request",
        lambda request: (
            asked.append(request.post_data_json["blocks"])
            if request.url.endswith("/playground/render")
            else None
        ),
    )
    served(page, stream([message("\n\n".join(f"Paragraph *{n}*" for n in range(150)))]))
    ask(page, "At length")
    expect(page.locator(".block em")).to_have_count(150)
    # The first request has the one block that was there.
    assert asked[1][0].strip() == "Paragraph *149*"


def test_code_is_selected_where_it_cannot_be_copied(open_page: Any, context: Any) -> None:
    """A page that came without HTTPS has no clipboard."""
    context.add_init_script("Object.defineProperty(navigator, 'clipboard', { value: undefined })")
    page = open_page()
    page.get_by_role("button", name="View as code").click()
    page.get_by_role("button", name="Copy").first.click()
    expect(page.get_by_role("button", name="Selected: copy it with the keyboard")).to_be_visible()
    assert page.evaluate("getSelection().toString()").startswith("curl 'http://localhost")


def test_a_chat_can_be_deleted_where_nothing_hovers(browser: Browser, server: Server) -> None:
    context = browser.new_context(has_touch=True, is_mobile=True, viewport=NARROW)
    page = context.new_page()
    page.goto(f"{server.url}/playground")
    ask(page, "Hi")
    page.get_by_role("button", name="Chats").tap()
    remove = page.get_by_role("button", name="Delete this chat: Hi")
    expect(remove).to_have_css("opacity", "1")
    page.on("dialog", lambda dialog: dialog.accept())
    remove.tap()
    expect(remove).to_have_count(0)
    context.close()


def test_formulas_are_aligned_and_boxed(open_page: Any) -> None:
    page = open_page()
    aligned = r"\[\begin{aligned} a &= b \\ c + d + e &= f \end{aligned}\]"
    served(page, stream([message(rf"{aligned} and \(\boxed{{42}}\)")]))
    ask(page, "Compute")
    expect(page.locator("math .box")).to_have_css("border-top-style", "solid")
    lines = page.locator("mtd:first-child > :last-child")
    expect(lines).to_have_count(2)
    ends = lines.evaluate_all("(all) => all.map((each) => each.getBoundingClientRect().right)")
    assert ends[0] == pytest.approx(ends[1], abs=1)


def test_links_find_their_definitions_in_other_paragraphs(open_page: Any) -> None:
    page = open_page()
    text = """See [the *tides*][1] and [Moon].

- and [sun][2]

[1]: https://a.test/x_(y) "Title"
[moon]: https://b.test

[2]: javascript:alert(1)
[^3]: A note of words.
"""
    served(page, stream([message(text)]))
    ask(page, "Tides?")
    links = page.locator(".prose a")
    expect(links).to_have_text(["the tides", "Moon"])
    expect(links.first).to_have_attribute("href", "https://a.test/x_(y)")
    expect(page.get_by_text("A note of words.")).to_have_count(1)
    expect(page.locator(".block.plain")).to_have_count(0)


def test_links_have_their_definitions_when_an_answer_has_streamed(open_page: Any) -> None:
    page = open_page()
    text = "See [one][1].\n\nAnd [two][1].\n\n```md\n[one][1]\n```\n\n[1]: https://a.test\n"
    deltas = [
        {"type": "response.output_text.delta", "item_id": "msg_1", "delta": each}
        for each in text.splitlines(keepends=True)
    ]
    served(page, stream([message(text)], *deltas))
    ask(page, "Tides?")
    expect(page.locator(".prose a")).to_have_text(["one", "two"])
    expect(page.locator(".prose code")).to_have_text("[one][1]\n")


def test_links_have_no_definitions_from_code(open_page: Any) -> None:
    page = open_page()
    text = (
        "See [one][1] and [two][2].\n\n```md\n[1]: https://code.test\n```\n\n[2]: https://a.test\n"
    )
    served(page, stream([message(text)]))
    ask(page, "Tides?")
    expect(page.locator(".prose a")).to_have_text("two")
    expect(page.get_by_text("See [one][1]")).to_be_visible()


def test_a_block_that_definitions_make_too_long_is_rendered_without_them(open_page: Any) -> None:
    page = open_page()
    asked: list[str] = []

    def note(request: Any) -> None:
        if request.url.endswith("/playground/render"):
            asked.extend(request.post_data_json["blocks"])

    page.on("request", note)
    long = "*long* [link][1] " + "word " * 11_990
    definition = f"[1]: https://a.test/{'x' * 100}"
    served(page, stream([message(f"{long}\n\nshort [link][1]\n\n{definition}")]))
    ask(page, "At length")
    expect(page.locator(".prose a")).to_have_count(1)
    expect(page.locator(".prose em")).to_have_text("long")
    assert max(map(len, asked)) <= 60_000
    assert [each.strip() for each in asked].count(definition) == 1
