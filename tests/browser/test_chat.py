import json
import re
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from tests.browser.conftest import Server, running

WEATHER = '[{"type": "function", "name": "get_weather", "parameters": {"type": "object"}}]'


def ask(page: Page, text: str) -> None:
    box = page.get_by_role("textbox", name="Message")
    box.fill(text)
    box.press("Enter")


def test_enter_sends_and_the_answer_streams(open_page: Any) -> None:
    page = open_page()
    ask(page, "Hi")
    answer = page.locator(".answer")
    expect(answer.locator("strong")).to_have_text("How")
    expect(answer.get_by_text("tokens in")).to_be_visible()
    expect(page.get_by_role("textbox", name="Message")).to_have_value("")


def test_reasoning_is_folded(open_page: Any) -> None:
    page = open_page()
    ask(page, "Hi")
    folded = page.get_by_text("A greeting, so I greet back.")
    expect(folded).to_be_hidden()
    page.locator(".reasoning summary").click()
    expect(folded).to_be_visible()


def test_shift_and_enter_add_a_line(open_page: Any) -> None:
    page = open_page()
    box = page.get_by_role("textbox", name="Message")
    box.fill("one")
    box.press("Shift+Enter")
    expect(box).to_have_value("one\n")


def test_formulas_code_and_tables_are_rendered(open_page: Any) -> None:
    page = open_page()
    ask(page, "Show me formulas")
    expect(page.locator(".prose math").first).to_be_visible()
    expect(page.locator(".prose td")).to_have_count(6)
    expect(page.locator(".prose .hl-k").first).to_have_text("def")
    assert page.evaluate("document.querySelector('math').namespaceURI").endswith("MathML")


def test_stop_ends_the_answer(open_page: Any) -> None:
    page = open_page()
    ask(page, "Count slowly")
    expect(page.get_by_text("One two")).to_be_visible()
    page.get_by_role("button", name="Stop").click()
    expect(page.get_by_text("Stopped.")).to_be_visible()
    expect(page.get_by_role("button", name="Send", exact=True)).to_be_visible()
    expect(page.get_by_text("done.")).to_have_count(0)


def test_nothing_goes_on_in_an_answer_that_was_stopped(open_page: Any) -> None:
    page = open_page()
    ask(page, "Ponder this")
    page.get_by_text("Thinking…").click()
    expect(page.get_by_text("I think")).to_be_visible()
    page.get_by_role("button", name="Stop").click()
    expect(page.get_by_text("Stopped.")).to_be_visible()
    expect(page.get_by_text("Thinking…")).to_have_count(0)
    expect(page.get_by_role("button", name="Send", exact=True)).to_be_visible()
    call = {"id": "ci_1", "type": "code_interpreter_call"}
    item = {"type": "response.output_item.added", "output_index": 0, "item": call}
    failed = {"type": "error", "message": "The engine has died."}
    served(page, "".join(f"data: {json.dumps(each)}\n\n" for each in (item, failed)))
    ask(page, "Compute")
    expect(page.get_by_role("alert")).to_have_text("The engine has died.")
    expect(page.locator(".card .state")).to_have_text("incomplete")


@pytest.mark.parametrize("background", [False, True])
def test_an_answer_that_was_stopped_before_it_began_is_not_lost(
    open_page: Any, background: bool
) -> None:
    page = open_page()
    page.get_by_label("Answers go on without this page").set_checked(background)
    page.route("**/v1/responses", lambda _: None)
    ask(page, "Hi")
    page.get_by_role("button", name="Stop").click()
    expect(page.get_by_text("Stopped.")).to_be_visible()
    page.reload()
    expect(page.get_by_text("Stopped.")).to_be_visible()
    expect(page.get_by_role("alert")).to_have_count(0)


def test_a_double_click_sends_and_does_not_stop(open_page: Any) -> None:
    page = open_page()
    page.get_by_role("textbox", name="Message").fill("Count slowly")
    page.get_by_role("button", name="Send", exact=True).click()
    expect(page.get_by_role("button", name="Stop")).to_be_visible()
    page.mouse.down(click_count=2)
    page.mouse.up(click_count=2)
    expect(page.get_by_text("One two three")).to_be_visible()
    page.get_by_role("button", name="Stop").click()
    expect(page.get_by_text("Stopped.")).to_be_visible()


@pytest.mark.parametrize("composing", [{"isComposing": True}, {"keyCode": 229}])
def test_enter_of_an_input_method_sends_nothing(open_page: Any, composing: Any) -> None:
    """It takes the word that is offered. Safari says so by the code of the key only."""
    page = open_page()
    box = page.get_by_role("textbox", name="Message")
    box.fill("Hi")
    key = {"key": "Enter", "bubbles": True, "cancelable": True}
    prevented = "(box, key) => !box.dispatchEvent(new KeyboardEvent('keydown', key))"
    assert not box.evaluate(prevented, {**key, **composing})
    assert box.evaluate(prevented, key)


def test_a_function_gets_the_result_that_one_types(open_page: Any) -> None:
    page = open_page()
    page.get_by_label("Tools (JSON)").fill(WEATHER)
    ask(page, "How is the weather?")
    expect(page.locator(".preamble")).to_contain_text("I will look up the weather.")
    expect(page.locator(".card-name")).to_have_text("get_weather")
    page.get_by_label("Result: get_weather").fill('{"temperature": 21}')
    page.get_by_role("button", name="Send results").click()
    expect(page.get_by_text("It is 21 degrees in Oslo.")).to_be_visible()


def test_an_edit_makes_a_branch_and_the_old_one_stays(open_page: Any) -> None:
    page = open_page()
    ask(page, "Hi")
    expect(page.get_by_text("tokens in")).to_be_visible()
    page.get_by_role("button", name="Edit").click()
    page.locator("textarea[aria-label=Edit]").fill("Hello again")
    page.get_by_role("button", name="Send as a new branch").click()
    expect(page.locator(".typed")).to_have_text("Hello again")
    expect(page.get_by_text("2 / 2")).to_be_visible()
    expect(page.get_by_text("tokens in")).to_be_visible()
    page.get_by_role("button", name="Previous version").click()
    expect(page.locator(".typed")).to_have_text("Hi")
    expect(page.locator(".answer strong")).to_have_text("How")


def test_a_chat_is_there_after_a_reload_and_goes_on(open_page: Any) -> None:
    page = open_page()
    ask(page, "Hi")
    expect(page.get_by_text("tokens in")).to_be_visible()
    page.reload()
    expect(page.locator(".answer strong")).to_have_text("How")
    ask(page, "And again")
    expect(page.locator(".answer strong")).to_have_count(2)


def test_a_background_answer_is_followed_after_a_reload(open_page: Any) -> None:
    page = open_page()
    page.get_by_label("Answers go on without this page").check()
    ask(page, "Count slowly")
    expect(page.get_by_text("One two")).to_be_visible()
    page.reload()
    expect(page.get_by_role("button", name="Stop")).to_be_visible()
    expect(page.get_by_text("done.")).to_be_visible()
    expect(page.get_by_text("tokens in")).to_be_visible()


def test_a_request_is_shown_as_a_program(open_page: Any) -> None:
    page = open_page()
    ask(page, "It's me")
    page.get_by_role("button", name="View code").click()
    programs = page.locator("dialog pre")
    expect(programs.first).to_contain_text("curl 'http://localhost")
    expect(programs.first).to_contain_text("It'\\''s me")
    expect(programs.last).to_contain_text("client.responses.create(")


def test_the_chosen_model_stays_until_the_server_has_named_its_models(open_page: Any) -> None:
    page = open_page()
    data = [{"id": name} for name in ("alpha", "beta")]
    page.route("**/v1/models", lambda route: route.fulfill(json={"data": data}))
    served(page, stream([]))
    page.reload()
    page.locator("select[name=model]").select_option("beta")
    waiting: list[Any] = []
    page.route("**/v1/models", lambda route: waiting.append(route))
    page.reload()
    page.get_by_label("Answers go on without this page").check()
    with page.expect_request("**/v1/responses") as sent:
        ask(page, "Hi")
    assert sent.value.post_data_json["model"] == "beta"
    waiting[0].fulfill(json={"data": data})
    expect(page.locator("select[name=model]")).to_have_value("beta")


def test_an_option_that_is_no_json_is_named_and_nothing_is_lost(open_page: Any) -> None:
    page = open_page()
    page.get_by_label("Tools (JSON)").fill("{nonsense")
    ask(page, "Hi")
    expect(page.locator(".options .error")).to_contain_text("Tools: This is not JSON")
    expect(page.get_by_role("textbox", name="Message")).to_have_value("Hi")


def test_a_refused_request_is_said_in_words(open_page: Any) -> None:
    page = open_page(expected="400")
    page.get_by_label("Format (JSON schema)").fill('"no schema"')
    ask(page, "Hi")
    expect(page.get_by_role("alert")).to_be_visible()
    expect(page.locator(".typed")).to_have_text("Hi")


def test_a_server_that_restarts_loses_nothing(open_page: Any, tmp_path: Path) -> None:
    with running("--store", f"sqlite:///{tmp_path}/s.db", "--drain-seconds", "0") as server:
        page = open_page(server.url, expected="ERR_")
        ask(page, "Hi")
        expect(page.get_by_text("tokens in")).to_be_visible()
        assert server.stop() == 0
        ask(page, "Are you there?")
        expect(page.get_by_role("alert")).to_contain_text("The server cannot be reached.")
        server.start()
        page.get_by_role("button", name="Try again").last.click()
        expect(page.locator(".answer strong")).to_have_count(2)


@pytest.fixture(scope="module")
def locked() -> Any:
    with running("--store", "memory", "--api-key", "secret") as server:
        yield server


def test_a_key_is_asked_for_and_kept_in_the_tab(open_page: Any, locked: Server) -> None:
    page = open_page(locked.url, expected="401")
    field = page.get_by_label("Key", exact=True)
    field.fill("wrong")
    page.get_by_role("button", name="Use this key").click()
    expect(page.get_by_text("The server does not accept this key.")).to_be_visible()
    field.fill("secret")
    page.get_by_role("button", name="Use this key").click()
    expect(page.locator("#model")).to_have_text("scripted")
    ask(page, "Hi")
    expect(page.locator(".answer strong")).to_have_text("How")
    assert page.evaluate("Object.values(sessionStorage).includes('secret')")
    assert "secret" not in page.evaluate("JSON.stringify(localStorage)")


def test_two_visitors_have_chats_of_their_own(open_page: Any, browser: Any, server: Server) -> None:
    first = open_page()
    ask(first, "Hi")
    expect(first.get_by_text("tokens in")).to_be_visible()
    other: BrowserContext = browser.new_context()
    second = other.new_page()
    second.goto(f"{server.url}/playground")
    expect(second.get_by_text("Chat with the model")).to_be_visible()
    expect(second.locator(".chat-link")).to_have_count(0)
    other.close()


def stream(items: list[dict[str, Any]], *between: dict[str, Any]) -> str:
    """A response with `items`, as the API streams it."""
    response = {"id": "resp_1", "status": "in_progress", "output": []}
    ended = {**response, "status": "completed", "output": items}
    events: list[dict[str, Any]] = [{"type": "response.created", "response": response}]
    for index, item in enumerate(items):
        begun = {**item, "status": "in_progress"}
        events.append({"type": "response.output_item.added", "output_index": index, "item": begun})
        events += [each for each in between if each["item_id"] == item["id"]]
        events.append({"type": "response.output_item.done", "output_index": index, "item": item})
    events.append({"type": "response.completed", "response": ended})
    return "".join(f"event: {each['type']}\ndata: {json.dumps(each)}\n\n" for each in events)


def served(page: Page, body: str) -> list[Any]:
    """Answer with `body`, as a server with hosted tools would. Returns the requests."""
    requests: list[Any] = []

    def answer(route: Any) -> None:
        requests.append(route.request.post_data_json)
        route.fulfill(body=body, headers={"content-type": "text/event-stream"})

    page.route("**/v1/responses", answer)
    page.route("**/v1/responses/resp_1", lambda route: route.fulfill(json={}))  # it is stored
    return requests


def test_calls_of_hosted_tools_are_cards(open_page: Any) -> None:
    page = open_page()
    code = {
        "id": "ci_1",
        "type": "code_interpreter_call",
        "status": "completed",
        "code": "print(6 * 7)",
        "outputs": [{"type": "logs", "logs": "42\n"}],
    }
    search = {
        "id": "ws_1",
        "type": "web_search_call",
        "status": "completed",
        "action": {
            "type": "search",
            "query": "tides",
            "sources": [{"type": "url", "url": "https://example.test/tides"}],
        },
    }
    typing = {
        "type": "response.code_interpreter_call_code.delta",
        "item_id": "ci_1",
        "delta": "print",
    }
    served(page, stream([code, search], typing))
    ask(page, "Compute")
    expect(page.locator(".card").first).to_contain_text("42")
    expect(page.locator(".card .hl-nb").first).to_have_text("print")
    expect(page.locator(".card").last).to_contain_text("tides")
    expect(page.locator(".card a")).to_have_attribute("href", "https://example.test/tides")


def test_an_approval_is_answered_with_a_button(open_page: Any) -> None:
    page = open_page()
    item = {
        "id": "mcpr_1",
        "type": "mcp_approval_request",
        "server_label": "files",
        "name": "remove",
        "arguments": '{"path": "a"}',
    }
    requests = served(page, stream([item]))
    ask(page, "Remove it")
    expect(page.locator(".card")).to_contain_text("files · remove")
    with page.expect_response("**/v1/responses"):
        page.get_by_role("button", name="Approve").click()
    expect(page.locator(".turn")).to_have_count(2)
    assert requests[1]["previous_response_id"] == "resp_1"
    assert requests[1]["input"] == [
        {"type": "mcp_approval_response", "approval_request_id": "mcpr_1", "approve": True}
    ]


def test_citations_are_links(open_page: Any) -> None:
    page = open_page()
    # The indices count characters; the first one has two UTF-16 units.
    text = "🌊 Tides【1†L3】 rise."
    note = {
        "type": "url_citation",
        "start_index": 7,
        "end_index": 13,
        "url": "https://example.test/a",
        "title": "Tides",
    }
    part = {"type": "output_text", "text": text, "annotations": [note]}
    item = {"id": "msg_1", "type": "message", "phase": "final_answer", "content": [part]}
    served(page, stream([item]))
    ask(page, "Tides?")
    expect(page.locator(".prose a")).to_have_attribute("href", "https://example.test/a")
    expect(page.locator(".prose p")).to_have_text(re.compile("^🌊 Tides Tides rise\\.$"))
    expect(page.locator(".sources a")).to_have_text("Tides")


def test_a_cited_file_that_no_browser_can_open_is_named_by_its_title(open_page: Any) -> None:
    page = open_page()
    link = "([docs](file-search://docs/tides.md))"
    note = {
        "type": "url_citation",
        "start_index": 11,
        "end_index": 11 + len(link),
        "url": "file-search://docs/tides.md",
        "title": "Tide *tables*",
    }
    part = {"type": "output_text", "text": f"Tides rise {link}.", "annotations": [note]}
    served(page, stream([{"id": "msg_1", "type": "message", "content": [part]}]))
    ask(page, "Tides?")
    expect(page.locator(".prose p")).to_have_text("Tides rise (Tide *tables*).")
    expect(page.locator(".sources li")).to_have_text("Tide *tables*")
    expect(page.locator(".answer a")).to_have_count(0)


def test_code_of_a_hosted_tool_is_shown_as_it_ran(open_page: Any) -> None:
    page = open_page()
    code = 'print("""\n```\n````\n""")'
    item = {"id": "ci_1", "type": "code_interpreter_call", "status": "completed", "code": code}
    served(page, stream([item]))
    ask(page, "Run it")
    shown = page.locator(".card .prose pre")
    expect(shown).to_have_count(1)
    assert shown.locator("code").text_content() == f"{code}\n"


def test_a_citation_keeps_its_address_and_its_title(open_page: Any) -> None:
    page = open_page()
    url = "https://example.test/r?to=https%3A%2F%2Fother.test%2Fa%26b&copy;=<1>"
    title = "[PDF] `Tides` cost $5$ *or* <b>"
    note = {"type": "url_citation", "start_index": 11, "end_index": 15, "url": url, "title": title}
    part = {"type": "output_text", "text": "Tides rise here.", "annotations": [note]}
    served(page, stream([{"id": "msg_1", "type": "message", "content": [part]}]))
    ask(page, "Tides?")
    link = page.locator(".prose a")
    expect(link).to_have_attribute("href", url.replace("<1>", "%3C1%3E"))
    expect(link).to_have_text(title)


def test_an_answer_of_another_chat_is_not_followed(open_page: Any) -> None:
    """Its state may come after another chat was opened."""
    page = open_page()
    page.get_by_label("Answers go on without this page").check()
    ask(page, "Count slowly")
    expect(page.get_by_text("One two")).to_be_visible()
    held: list[Any] = []
    page.route("**/v1/responses/resp_*", lambda route: held.append(route))
    page.reload()
    while not held:
        page.wait_for_timeout(20)
    page.get_by_role("button", name="New chat").click()
    expect(page.locator(".welcome")).to_be_visible()
    with page.expect_response("**/v1/responses/resp_*") as state:
        held[0].continue_()
    state.value.finished()
    # What the page fetches after it is read after it.
    page.evaluate("fetch('health').then((answer) => answer.text())")
    expect(page.get_by_role("button", name="Send", exact=True)).to_be_visible()
    assert len(held) == 1
