"""Answers that go on: in chats that are not in view, after a lost connection, and in other tabs."""

import json
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Server, until
from tests.browser.test_chat import ask, served, stream
from tests.browser.test_chats import STORED, answered, manage, open_conversation

FAILURE = json.dumps({"error": {"message": "It broke."}})


def posted(page: Page) -> list[Any]:
    """The bodies of the requests for answers, from now on."""
    bodies: list[Any] = []

    def note(request: Any) -> None:
        if request.method == "POST" and request.url.endswith("/v1/responses"):
            bodies.append(request.post_data_json)

    page.on("request", note)
    return bodies


def texts(body: Any) -> list[str]:
    return [item["content"] for item in body["input"]]


def choose(page: Page, title: str) -> None:
    page.get_by_role("button", name=title, exact=True).click()


@pytest.mark.parametrize("reloads", [False, True])
def test_a_message_that_the_server_did_not_get_goes_with_the_next(
    open_page: Any, reloads: bool
) -> None:
    page = open_page(expected="503")
    page.route("**/v1/responses", lambda route: route.fulfill(status=503, body=FAILURE))
    ask(page, "My name is Bob")
    expect(page.get_by_role("alert")).to_have_text("It broke.")
    page.unroute("**/v1/responses")
    if reloads:
        page.reload()
    bodies = posted(page)
    answered(page, "What is my name?")
    assert texts(bodies[-1]) == ["My name is Bob", "What is my name?"]
    answered(page, "And again?", 2)
    assert texts(bodies[-1]) == ["And again?"]
    page.reload()
    page.get_by_role("button", name="View code").nth(1).click()
    expect(page.get_by_role("dialog")).to_contain_text("My name is Bob")


def test_a_message_that_was_stopped_before_it_arrived_goes_with_the_next(open_page: Any) -> None:
    page = open_page()
    page.route("**/v1/responses", lambda _: None)
    ask(page, "My name is Bob")
    page.get_by_role("button", name="Stop").click()
    expect(page.get_by_text("Stopped.")).to_be_visible()
    page.unroute("**/v1/responses")
    bodies = posted(page)
    answered(page, "What is my name?")
    assert texts(bodies[-1]) == ["My name is Bob", "What is my name?"]


def test_a_message_that_the_server_refuses_is_left_out_and_says_so(open_page: Any) -> None:
    page = open_page(expected="400")
    page.route("**/v1/responses", lambda route: route.fulfill(status=400, body=FAILURE))
    ask(page, "Too long")
    expect(page.get_by_role("alert")).to_have_text("It broke. The model does not get this message.")
    page.unroute("**/v1/responses")
    bodies = posted(page)
    answered(page, "Hi")
    assert texts(bodies[-1]) == ["Hi"]
    page.reload()
    expect(page.get_by_text("The model does not get this message.")).to_be_visible()


def failed(page: Page) -> list[Any]:
    """Let each answer fail after its response was created. Returns the requests."""
    response = {"id": "resp_1", "status": "in_progress", "output": []}
    end = {**response, "status": "failed", "error": {"message": "It broke."}}
    events = [
        {"type": "response.created", "response": response},
        {"type": "response.failed", "response": end},
    ]
    return served(page, "".join(f"data: {json.dumps(each)}\n\n" for each in events))


def test_an_answer_that_failed_is_continued_with_its_message(open_page: Any) -> None:
    page = open_page()
    bodies = failed(page)
    ask(page, "My name is Bob")
    expect(page.get_by_role("alert")).to_have_text("It broke.")
    with page.expect_request("**/v1/responses"):
        ask(page, "What is my name?")
    expect(page.get_by_role("alert")).to_have_count(2)
    assert bodies[1]["previous_response_id"] == "resp_1"
    assert texts(bodies[1]) == ["What is my name?"]


def test_a_completion_has_a_message_that_failed_once(open_page: Any) -> None:
    page = open_page(expected="status of 40")
    not_found = json.dumps({"error": {"message": "Not Found"}})
    page.route("**/v1/responses", lambda route: route.fulfill(status=404, body=not_found))
    page.route("**/v1/chat/completions", lambda route: route.fulfill(status=409, body=FAILURE))
    ask(page, "My name is Bob")
    expect(page.get_by_role("alert")).to_have_text("It broke.")
    page.unroute("**/v1/chat/completions")
    with page.expect_request("**/v1/chat/completions") as sent:
        answered(page, "What is my name?")
    messages = sent.value.post_data_json["messages"]
    assert [message["content"] for message in messages] == ["My name is Bob", "What is my name?"]


def test_a_chat_whose_answers_are_gone_goes_on_without_them(open_page: Any, server: Server) -> None:
    page = open_page(expected="status of 40")
    answered(page, "Hi")
    response = page.evaluate(f"{STORED}[0].turns[0].response")
    page.evaluate("(path) => fetch(path, {method: 'DELETE'})", f"v1/responses/{response}")
    ask(page, "Hello again")
    expect(page.get_by_role("alert")).to_contain_text(response)
    page.reload()
    bodies = posted(page)
    page.get_by_role("button", name="Send without the earlier turns").click()
    expect(page.get_by_text("tokens in")).to_have_count(1)
    expect(page.locator(".typed")).to_have_text("Hello again")
    assert "previous_response_id" not in bodies[0]


def test_an_answer_goes_on_while_another_chat_is_open(open_page: Any) -> None:
    page = open_page()
    ask(page, "Count slowly")
    expect(page.get_by_text("One two")).to_be_visible()
    page.get_by_role("button", name="New chat").click()
    expect(page.get_by_role("img", name="An answer is coming")).to_have_count(1)
    answered(page, "Hi")
    read: list[str] = []
    page.on("request", lambda request: read.append(request.url))
    choose(page, "Count slowly")
    expect(page.get_by_role("button", name="Stop")).to_be_visible()
    expect(page.get_by_text("done.")).to_be_visible()
    expect(page.get_by_role("img", name="An answer is coming")).to_have_count(0)
    assert not any("/v1/responses" in url for url in read)


def test_an_answer_goes_on_while_another_version_is_in_view(open_page: Any) -> None:
    page = open_page()
    answered(page, "Count slowly")
    page.get_by_role("button", name="Try again").click()
    expect(page.get_by_text("One two")).to_be_visible()
    page.get_by_role("button", name="Previous version").click()
    expect(page.get_by_role("button", name="Send", exact=True)).to_be_visible()
    page.get_by_role("button", name="Next version").click()
    expect(page.get_by_role("button", name="Stop")).to_be_visible()
    expect(page.get_by_text("done.")).to_be_visible()


def test_another_try_stops_the_answer_in_view(open_page: Any) -> None:
    page = open_page()
    ask(page, "Count slowly")
    expect(page.get_by_text("One two")).to_be_visible()
    page.get_by_role("button", name="Try again").click()
    expect(page.get_by_text("2 / 2")).to_be_visible()
    page.get_by_role("button", name="Previous version").click()
    expect(page.get_by_text("Stopped.")).to_be_visible()


def test_a_few_answers_may_come_at_once(open_page: Any) -> None:
    page = open_page()
    page.route("**/v1/responses", lambda _: None)
    for number in range(4):
        ask(page, f"Number {number}")
        expect(page.locator(".typed")).to_have_text(f"Number {number}")
        page.get_by_role("button", name="New chat").click()
    ask(page, "One more")
    expect(page.locator(".options .error")).to_contain_text("4 answers are still coming.")
    expect(page.get_by_role("textbox", name="Message")).to_have_value("One more")


def test_the_answers_of_all_tabs_are_counted(open_page: Any) -> None:
    """Six connections are what a browser has to a server, not what a tab has."""
    first, second = open_page(), open_page()
    for page in (first, second):
        page.route("**/v1/responses", lambda _: None)
        for number in range(2):
            ask(page, f"Number {number}")
            expect(page.locator(".typed")).to_have_text(f"Number {number}")
            page.get_by_role("button", name="New chat").click()
    ask(second, "One more")
    expect(second.locator(".options .error")).to_contain_text("4 answers are still coming.")
    first.close()
    second.wait_for_function("navigator.locks.query().then(({ held }) => held.length === 2)")
    ask(second, "One more")
    expect(second.locator(".typed")).to_have_text("One more")


def test_a_background_answer_is_followed_again_when_its_connection_is_lost(
    open_page: Any, server: Server
) -> None:
    page = open_page(expected="ERR_")
    page.get_by_label("Answers go on without this page").check()
    body = {"input": "Count slowly", "background": True}
    response = server.post("/v1/responses", body)
    created = {"type": "response.created", "sequence_number": 0, "response": response}
    served(page, f"data: {json.dumps(created)}\n\n")
    is_said = False
    asked: list[str] = []

    def answer(route: Any) -> None:
        asked.append(route.request.url)
        if is_said:
            route.continue_()
        else:
            route.abort()

    page.route("**/v1/responses/resp_*", answer)
    ask(page, "Count slowly")
    expect(page.locator(".note")).to_contain_text("this page asks for the rest")
    is_said = True
    expect(page.get_by_text("done.")).to_be_visible()
    expect(page.get_by_text("tokens in")).to_be_visible()
    assert asked[0].endswith("?stream=true&starting_after=0")


def approval(number: int) -> dict[str, Any]:
    return {
        "id": f"mcpr_{number}",
        "type": "mcp_approval_request",
        "server_label": "files",
        "name": f"remove_{number}",
        "arguments": "{}",
    }


def test_approvals_of_one_answer_are_sent_together(open_page: Any) -> None:
    page = open_page()
    bodies = served(page, stream([approval(1), approval(2)]))
    ask(page, "Remove both")
    cards = page.get_by_label("Approval needed")
    cards.first.get_by_role("button", name="Approve").click()
    expect(cards.first.locator(".state")).to_have_text("Approved")
    expect(cards.last.get_by_role("button", name="Deny")).to_be_visible()
    with page.expect_request("**/v1/responses"):
        cards.last.get_by_role("button", name="Deny").click()
    expect(page.locator(".turn")).to_have_count(2)
    sent = [(item["approval_request_id"], item["approve"]) for item in bodies[1]["input"]]
    assert sent == [("mcpr_1", True), ("mcpr_2", False)]


def test_a_chat_that_another_tab_continues_is_drawn_again(open_page: Any) -> None:
    first = open_page()
    answered(first, "Question")
    second = open_page()
    choose(second, "Question")
    answered(first, "Of the first tab", 2)
    expect(second.locator(".typed")).to_have_text(["Question", "Of the first tab"])
    expect(second.get_by_text("tokens in")).to_have_count(2)
    answered(second, "Of the second tab", 3)
    expect(first.locator(".typed")).to_have_text(
        ["Question", "Of the first tab", "Of the second tab"]
    )


def test_a_chat_that_another_tab_begins_is_listed(open_page: Any) -> None:
    first, second = open_page(), open_page()
    answered(first, "Question")
    expect(second.get_by_role("button", name="Question", exact=True)).to_be_visible()


def test_a_chat_that_another_tab_deletes_is_not_written_back(open_page: Any) -> None:
    first, second = open_page(expected="404"), open_page(expected="404")
    ask(first, "Count slowly")
    expect(first.get_by_text("One two")).to_be_visible()
    second.on("dialog", lambda dialog: dialog.accept())
    second.get_by_role("button", name="Delete this chat: Count slowly").click()
    expect(first.locator(".welcome")).to_be_visible()
    answered(first, "Hi")
    assert first.evaluate(f"{STORED}.map((chat) => chat.title)") == ["Hi"]


def finish(page: Page) -> None:
    """Wait until no answer is coming."""
    expect(page.get_by_role("img", name="An answer is coming")).to_have_count(0)


def test_an_answer_that_ends_out_of_view_moves_no_other_tab(open_page: Any) -> None:
    first = open_page()
    ask(first, "Count slowly")
    expect(first.get_by_text("One two")).to_be_visible()
    first.get_by_role("button", name="New chat").click()
    second = open_page()
    choose(second, "Count slowly")
    second.get_by_role("button", name="Edit").click()
    second.get_by_role("textbox", name="Edit").fill("Hi")
    second.get_by_role("button", name="Send as a new branch").click()
    expect(second.get_by_text("tokens in")).to_be_visible()
    finish(first)
    expect(second.locator(".typed")).to_have_text("Hi")
    second.reload()
    expect(second.get_by_text("2 / 2")).to_be_visible()


def test_a_chat_that_is_renamed_keeps_what_another_tab_has_added(open_page: Any) -> None:
    first = open_page()
    answered(first, "Hi")
    manage(first, "Hi")
    first.get_by_label("Title").fill("Greetings")
    second = open_page()
    choose(second, "Hi")
    answered(second, "Hello again", 2)
    first.get_by_role("button", name="Rename", exact=True).click()
    expect(second.get_by_role("button", name="Greetings", exact=True)).to_be_visible()
    first.reload()
    expect(first.locator(".typed")).to_have_text(["Hi", "Hello again"])


def test_a_name_that_another_tab_gives_outlives_the_end_of_an_answer(open_page: Any) -> None:
    first, second = open_page(), open_page()
    ask(first, "Count slowly")
    expect(first.get_by_text("One two")).to_be_visible()
    first.get_by_role("button", name="New chat").click()
    manage(second, "Count slowly")
    second.get_by_label("Title").fill("Numbers")
    second.get_by_role("button", name="Rename", exact=True).click()
    choose(first, "Numbers")
    expect(first).to_have_title("Numbers · gpt-oss playground")
    expect(first.get_by_text("done.")).to_be_visible()
    finish(first)
    assert first.evaluate(f"{STORED}[0].title") == "Numbers"


def test_a_chat_that_is_being_read_shows_no_turns_of_another(
    open_page: Any, server: Server
) -> None:
    page = open_page()
    open_conversation(page, server, "Seventh?")
    page.get_by_role("button", name="New chat").click()
    answered(page, "Hi")
    page.route("**/v1/conversations/**", lambda _: None)
    page.get_by_role("button", name="Seventh?", exact=True).first.click()
    expect(page.get_by_text("Loading…")).to_be_visible()
    expect(page.locator(".turn")).to_have_count(0)


def test_the_answer_of_another_tab_cannot_be_stopped_and_is_shown_at_its_end(
    open_page: Any,
) -> None:
    first, second = open_page(), open_page()
    ask(first, "Count slowly")
    expect(first.get_by_text("One two")).to_be_visible()
    choose(second, "Count slowly")
    expect(second.get_by_text("The answer is coming in another tab.")).to_be_visible()
    expect(second.get_by_role("button", name="Stop")).to_have_count(0)
    expect(second.get_by_text("done.")).to_be_visible()


def test_the_oldest_background_answer_is_left_where_a_connection_is_needed(open_page: Any) -> None:
    page = open_page()
    page.get_by_label("Answers go on without this page").check()
    for number in range(4):
        ask(page, f"Ponder {number}")
        expect(page.locator(".reasoning")).to_be_visible()
        page.get_by_role("button", name="New chat").click()
    with page.expect_event("requestfailed") as failed:
        ask(page, "Hi")
    assert failed.value.post_data_json["input"][0]["content"] == "Ponder 0"
    expect(page.get_by_text("tokens in")).to_be_visible()


def test_an_answer_is_left_for_no_other_where_other_tabs_have_all_connections(
    open_page: Any,
) -> None:
    page = open_page()
    page.get_by_label("Answers go on without this page").check()
    ask(page, "Ponder this")
    expect(page.locator(".reasoning")).to_be_visible()
    page.get_by_role("button", name="New chat").click()
    for number in range(4):
        name = f"gpt-oss-answer of tab {number}"
        page.evaluate(
            "(name) => void navigator.locks.request(name, () => new Promise(() => {}))", name
        )
    until(page, "(await navigator.locks.query()).held.length === 5")
    ask(page, "Hi")
    expect(page.locator(".options .error")).to_contain_text("4 answers are still coming.")
    expect(page.get_by_role("img", name="An answer is coming")).to_have_count(1)


WAITING = """
  const { query } = LockManager.prototype;
  window.waiting = [];
  LockManager.prototype.query = async function () {
    if (sessionStorage.waits) await new Promise((resolve) => window.waiting.push(resolve));
    return query.call(this);
  };
"""
"""The count of the answers of other tabs comes when `waiting` is resolved."""


def test_an_answer_whose_chat_is_drawn_twice_is_followed_once(open_page: Any, context: Any) -> None:
    context.add_init_script(WAITING)
    page = open_page()
    page.get_by_label("Answers go on without this page").check()
    ask(page, "Ponder this")
    expect(page.locator(".reasoning")).to_be_visible()
    page.evaluate("sessionStorage.waits = 'yes'")
    followed: list[str] = []
    page.on("request", lambda request: followed.append(request.url))
    page.reload()
    until(page, "waiting.length === 1")
    page.get_by_role("button", name="New chat").click()
    choose(page, "Ponder this")
    until(page, "waiting.length === 2")
    page.evaluate("for (const resolve of waiting) resolve()")
    expect(page.locator(".reasoning")).to_be_visible()
    page.get_by_role("button", name="Stop").click()
    expect(page.locator(".note")).to_contain_text("Stopped.")
    assert len([url for url in followed if url.endswith("?stream=true")]) == 1


def test_a_chat_that_waits_for_its_answer_to_stop_blocks_no_other(open_page: Any) -> None:
    page = open_page(expected="ERR_")
    page.get_by_label("Answers go on without this page").check()
    page.route("**/cancel", lambda _: None)
    ask(page, "Count slowly")
    expect(page.get_by_text("One two")).to_be_visible()
    page.get_by_role("button", name="Try again").click()
    page.get_by_role("button", name="New chat").click()
    answered(page, "Hi")


def test_an_answer_whose_end_does_not_come_is_left_after_a_stop(open_page: Any) -> None:
    page = open_page(expected="ERR_")
    page.get_by_label("Answers go on without this page").check()
    page.route("**/cancel", lambda _: None)
    page.clock.install()
    ask(page, "Count slowly")
    expect(page.get_by_text("One two")).to_be_visible()
    with page.expect_request("**/cancel"):
        page.get_by_role("button", name="Stop").click()
    page.clock.fast_forward(6000)
    expect(page.locator(".note")).to_contain_text("It may go on on the server.")


def test_a_reader_stays_where_another_tab_adds_a_turn(open_page: Any) -> None:
    first = open_page()
    answered(first, "Show me formulas")
    second = open_page()
    choose(second, "Show me formulas")
    expect(second.get_by_text("tokens in")).to_be_visible()
    second.locator(".reasoning summary").click()
    second.get_by_role("button", name="Inspect").focus()
    second.locator(".scroller").evaluate("(scroller) => (scroller.scrollTop = 0)")
    answered(first, "Hi", 2)
    expect(second.locator(".turn")).to_have_count(2)
    expect(second.get_by_text("tokens in")).to_have_count(2)
    expect(second.locator(".reasoning").first).to_have_attribute("open", "")
    expect(second.get_by_role("button", name="Inspect").first).to_be_focused()
    assert second.locator(".scroller").evaluate("(scroller) => scroller.scrollTop") == 0


def test_what_is_typed_in_a_chat_that_another_tab_deletes_is_kept(open_page: Any) -> None:
    first = open_page()
    answered(first, "Hi")
    second = open_page()
    choose(second, "Hi")
    box = second.get_by_role("textbox", name="Message")
    box.fill("Not sent")
    first.on("dialog", lambda dialog: dialog.accept())
    first.get_by_role("button", name="Delete this chat: Hi").click()
    expect(second.locator(".welcome")).to_be_visible()
    expect(box).to_have_value("Not sent")


def test_a_suggestion_leaves_what_is_typed(open_page: Any) -> None:
    page = open_page()
    page.get_by_role("textbox", name="Message").fill("Not sent")
    page.locator(".suggestion").first.click()
    expect(page.get_by_text("tokens in")).to_be_visible()
    expect(page.get_by_role("textbox", name="Message")).to_have_value("Not sent")


def test_an_answer_that_is_followed_after_a_reload_has_no_speed(open_page: Any) -> None:
    page = open_page()
    page.get_by_label("Answers go on without this page").check()
    ask(page, "Count slowly")
    expect(page.get_by_text("One two")).to_be_visible()
    page.reload()
    expect(page.locator(".usage")).to_contain_text("tokens in")
    expect(page.locator(".usage")).not_to_contain_text("tokens/s")
