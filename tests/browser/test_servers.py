"""Other servers: those that store no responses, and those that say errors in other forms."""

import json
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import running, until
from tests.browser.test_chat import WEATHER, ask, served, stream
from tests.browser.test_chats import answered
from tests.browser.test_faults import PLAIN
from tests.browser.test_runs import failed

NOT_FOUND = {"error": {"message": "Not Found"}}
PART = {"type": "output_text", "text": "Hello, Bob.", "annotations": []}
MESSAGE = {"id": "msg_1", "type": "message", "role": "assistant", "content": [PART]}
WITHOUT = "Send without the earlier turns"


def stores_nothing(page: Page) -> None:
    page.route("**/v1/responses/resp_*", lambda route: route.fulfill(status=404, json=NOT_FOUND))


@pytest.mark.parametrize("reloads", [False, True])
def test_answers_that_the_server_does_not_store_are_kept_here_and_sent_again(
    open_page: Any, reloads: bool
) -> None:
    page = open_page(expected="404")
    bodies = served(page, stream([MESSAGE]))
    stores_nothing(page)
    with page.expect_request("**/v1/responses/resp_1"):
        ask(page, "I am Bob")
    expect(page.get_by_text("Hello, Bob.")).to_be_visible()
    if reloads:
        expect(page.locator(".note")).to_have_text("")
        until(page, "localStorage['gpt-oss-chats'].includes('Hello, Bob.')")
        page.reload()
        expect(page.get_by_text("Hello, Bob.")).to_be_visible()
    ask(page, "Who am I?")
    expect(page.get_by_text("Hello, Bob.")).to_have_count(2)
    assert "previous_response_id" not in bodies[1]
    sent = [item["content"] for item in bodies[1]["input"]]
    assert sent == ["I am Bob", [PART], "Who am I?"]


def test_what_came_of_a_stopped_answer_is_kept_where_the_server_does_not_store_it(
    open_page: Any,
) -> None:
    page = open_page(expected="404")
    stores_nothing(page)
    ask(page, "Count slowly")
    expect(page.get_by_text("One two")).to_be_visible()
    page.get_by_role("button", name="Stop").click()
    until(page, "localStorage['gpt-oss-chats'].includes('One two')")
    page.reload()
    expect(page.get_by_text("One two")).to_be_visible()
    expect(page.locator(".note")).to_contain_text("Stopped.")


def test_a_stopped_answer_that_the_server_stores_late_is_not_kept_here(open_page: Any) -> None:
    page = open_page(expected="404")
    answers = iter([lambda route: route.fulfill(status=404, json=NOT_FOUND)])
    page.route(
        "**/v1/responses/resp_*",
        lambda route: next(answers, lambda route: route.continue_())(route),
    )
    ask(page, "Count slowly")
    expect(page.get_by_text("One two")).to_be_visible()
    page.get_by_role("button", name="Stop").click()
    with page.expect_request("**/v1/responses") as sent:
        ask(page, "Hi")
    assert sent.value.post_data_json["previous_response_id"].startswith("resp_")


@pytest.mark.parametrize("status", [200, 404, 405])
def test_what_the_server_did_not_know_is_deleted_all_the_same(open_page: Any, status: int) -> None:
    page = open_page(expected="status of 40")
    served(page, stream([MESSAGE]))
    stores_nothing(page)
    with page.expect_request("**/v1/responses/resp_1"):
        ask(page, "I am Bob")
    until(page, "localStorage['gpt-oss-chats'].includes('Hello, Bob.')")
    page.unroute("**/v1/responses/resp_*")
    page.route("**/v1/responses/resp_*", lambda route: route.fulfill(status=status, json={}))
    page.on("dialog", lambda dialog: dialog.accept())
    with page.expect_response("**/v1/responses/resp_1") as answer:
        page.get_by_role("button", name="Delete this chat: I am Bob").click()
    assert answer.value.request.method == "DELETE"
    expect(page.locator(".options .error")).to_have_text("")


def test_a_completion_has_the_preamble_and_the_answer(open_page: Any) -> None:
    page = open_page(expected="404")
    preamble = {**MESSAGE, "id": "msg_0", "phase": "commentary"}
    preamble["content"] = [{**PART, "text": "I look."}]
    served(page, stream([preamble, MESSAGE]))
    stores_nothing(page)
    with page.expect_request("**/v1/responses/resp_1"):
        ask(page, "I am Bob")
    until(page, "localStorage['gpt-oss-chats'].includes('Hello, Bob.')")
    page.route("**/v1/responses", lambda route: route.fulfill(status=404, json=NOT_FOUND))
    with page.expect_request("**/v1/chat/completions") as sent:
        ask(page, "Who am I?")
    said = {"role": "assistant", "content": "I look.\nHello, Bob."}
    assert sent.value.post_data_json["messages"][1] == said


def test_reasoning_that_was_cut_off_is_not_sent_again(open_page: Any) -> None:
    page = open_page(expected="404")
    stores_nothing(page)
    ask(page, "Ponder this")
    expect(page.locator(".reasoning")).to_be_visible()
    page.get_by_role("button", name="Stop").click()
    expect(page.get_by_text("Stopped.")).to_be_visible()
    with page.expect_request("**/v1/responses") as sent:
        ask(page, "Hi")
    contents = [item["content"] for item in sent.value.post_data_json["input"]]
    assert contents == ["Ponder this", "Hi"]


def test_the_message_of_an_answer_that_failed_unstored_goes_with_the_next(open_page: Any) -> None:
    page = open_page(expected="404")
    bodies = failed(page)
    stores_nothing(page)
    with page.expect_request("**/v1/responses/resp_1"):
        ask(page, "I am Bob")
    expect(page.get_by_role("alert")).to_have_text("It broke.")
    ask(page, "Who am I?")
    expect(page.get_by_role("alert")).to_have_count(2)
    assert [item["content"] for item in bodies[1]["input"]] == ["I am Bob", "Who am I?"]
    assert "previous_response_id" not in bodies[1]


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (404, {"message": "Response with id 'resp_1' not found."}),
        (404, {"message": "Response with id 'resp_1' not found.", "param": "response_id"}),
        (400, {"message": "This server does not support 'previous_response_id'."}),
    ],
)
def test_a_server_that_has_lost_its_answers_is_asked_without_them(
    open_page: Any, status: int, error: dict[str, Any]
) -> None:
    page = open_page(expected=f"status of {status}")
    answered(page, "Hi")
    refusal = {"error": error}
    page.route("**/v1/responses", lambda route: route.fulfill(status=status, json=refusal))
    ask(page, "And again?")
    expect(page.get_by_role("alert")).to_contain_text(error["message"])
    page.unroute("**/v1/responses")
    with page.expect_request("**/v1/responses") as sent:
        page.get_by_role("button", name=WITHOUT).click()
    assert "previous_response_id" not in sent.value.post_data_json
    expect(page.get_by_text("tokens in")).to_be_visible()


def test_a_refusal_of_a_message_is_none_of_the_answers_before(open_page: Any) -> None:
    page = open_page(expected="400")
    answered(page, "Hi")
    refusal = {"error": {"message": "Too long."}}
    page.route("**/v1/responses", lambda route: route.fulfill(status=400, json=refusal))
    ask(page, "And again?")
    expect(page.get_by_role("alert")).to_have_text("Too long. The model does not get this message.")
    expect(page.get_by_role("button", name=WITHOUT)).to_have_count(0)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"error": "The model is not loaded."}, "The model is not loaded."),
        ({"error": {"message": ""}}, "The server answered with the status 409."),
        ({"detail": "No."}, "The server answered with the status 409."),
    ],
)
def test_an_error_may_be_said_otherwise(open_page: Any, body: Any, said: str) -> None:
    page = open_page(expected="409")
    page.route("**/v1/responses", lambda route: route.fulfill(status=409, json=body))
    ask(page, "Hi")
    expect(page.get_by_role("alert")).to_have_text(said)


@pytest.mark.parametrize("error", [{"message": "The engine died."}, "The engine died."])
@pytest.mark.parametrize("path", ["responses", "chat/completions"])
def test_an_error_in_a_stream_needs_no_type(open_page: Any, error: Any, path: str) -> None:
    page = open_page(expected="404")
    page.route("**/v1/responses", lambda route: route.fulfill(status=404, json=NOT_FOUND))
    body = f"data: {json.dumps({'choices': []})}\n\ndata: {json.dumps({'error': error})}\n\n"
    page.route(f"**/v1/{path}", lambda route: route.fulfill(body=body))
    ask(page, "Hi")
    expect(page.get_by_role("alert")).to_have_text("The engine died.")


def test_tools_that_the_server_does_not_have_are_named(open_page: Any) -> None:
    with running(*PLAIN) as server:
        page = open_page(server.url)
        page.get_by_label("Tools (JSON)").fill('[{"type": "web_search"}]')
        ask(page, "Hi")
        named = "This server does not have a tool that the request named: web_search."
        expect(page.locator(".note")).to_contain_text(named)
        page.reload()
        expect(page.locator(".note")).to_contain_text(named)


@pytest.mark.parametrize("functions", [[], json.loads(WEATHER)])
def test_tools_that_completions_do_not_have_are_named(
    open_page: Any, functions: list[dict[str, Any]]
) -> None:
    page = open_page(expected="404")
    page.route("**/v1/responses", lambda route: route.fulfill(status=404, json=NOT_FOUND))
    tools = [{"type": "web_search"}, {"type": "mcp"}, *functions]
    page.get_by_label("Tools (JSON)").fill(json.dumps(tools))
    page.get_by_label("Tool choice").select_option("required")
    delta = {"delta": {"content": "Hello."}, "finish_reason": "stop"}
    body = f"data: {json.dumps({'choices': [delta]})}\n\n"
    page.route("**/v1/chat/completions", lambda route: route.fulfill(body=body))
    with page.expect_request("**/v1/chat/completions") as sent:
        ask(page, "Hi")
    expect(page.locator(".note")).to_contain_text("tools that the request named: web_search, mcp.")
    body = sent.value.post_data_json
    assert ("tools" in body, "tool_choice" in body) == (bool(functions), bool(functions))
