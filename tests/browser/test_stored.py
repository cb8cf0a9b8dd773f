"""What the server has stored: listed, opened, and continued."""

import base64
import json
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Server, running
from tests.browser.test_chat import ask


@pytest.fixture
def fresh() -> Iterator[Server]:
    with running("--store", "memory", "--hosted-tools", "") as server:
        yield server


def open_list(page: Page) -> None:
    page.get_by_text("On the server").click()


def test_a_conversation_of_another_client_is_continued(open_page: Any, fresh: Server) -> None:
    items = [
        {"role": "user", "content": "Is this stored?"},
        {"role": "assistant", "content": "It **is**."},
    ]
    conversation = fresh.post("/v1/conversations", {"items": items})["id"]
    page = open_page(fresh.url)
    open_list(page)
    page.get_by_role("button", name="Is this stored?", exact=True).click()
    expect(page.locator(".typed")).to_have_text("Is this stored?")
    expect(page.locator(".answer strong")).to_have_text("is")
    expect(page.get_by_role("button", name="Edit", exact=True)).to_have_count(0)
    ask(page, "Then go on")
    expect(page.get_by_text("tokens in")).to_be_visible()
    stored = json.loads(fresh.get(f"/v1/conversations/{conversation}/items?order=asc"))["data"]
    assert [item["type"] for item in stored] == ["message"] * 3 + ["reasoning", "message"]
    page.reload()
    expect(page.locator(".typed")).to_have_text(["Is this stored?", "Then go on"])
    expect(page.locator(".answer strong")).to_have_text(["is", "How"])


def test_a_chain_of_responses_is_opened_continued_and_branched(
    open_page: Any, fresh: Server
) -> None:
    first = fresh.post("/v1/responses", {"input": "The first"})["id"]
    body = {"input": "The second", "previous_response_id": first}
    second = fresh.post("/v1/responses", body)["id"]
    page = open_page(fresh.url)
    open_list(page)
    page.get_by_role("button", name="The second", exact=True).click()
    expect(page.locator(".typed")).to_have_text(["The first", "The second"])
    expect(page.locator(".answer strong")).to_have_count(2)
    sent: list[Any] = []
    page.on("request", lambda request: sent.append((request.url, request.post_data)))
    ask(page, "The third")
    expect(page.locator(".answer strong")).to_have_count(3)
    posted = [json.loads(data) for url, data in sent if url.endswith("/v1/responses")]
    assert [each["previous_response_id"] for each in posted] == [second]
    # The first question is changed: a branch without anything before it.
    page.get_by_role("button", name="Edit", exact=True).first.click()
    page.locator("textarea[aria-label=Edit]").fill("Another first")
    page.get_by_role("button", name="Send as a new branch").click()
    expect(page.locator(".typed")).to_have_text(["Another first"])
    page.get_by_role("button", name="Previous version").click()
    expect(page.locator(".typed")).to_have_text(["The first", "The second", "The third"])


def test_a_chain_that_is_opened_again_keeps_what_followed(open_page: Any, fresh: Server) -> None:
    fresh.post("/v1/responses", {"input": "The first"})
    page = open_page(fresh.url)
    open_list(page)
    entry = page.locator(".on-server").get_by_role("button", name="The first", exact=True)
    entry.click()
    expect(page.locator(".typed")).to_have_text("The first")
    ask(page, "The second")
    expect(page.get_by_text("tokens in")).to_have_count(2)
    entry.click()
    expect(page.locator(".typed")).to_have_text(["The first", "The second"])


def test_what_is_sent_meanwhile_is_not_left_for_a_chat_that_opens_late(
    open_page: Any, fresh: Server
) -> None:
    fresh.post("/v1/responses", {"input": "The first"})
    page = open_page(fresh.url)
    open_list(page)
    held: list[Any] = []
    page.route("**/v1/responses/resp_*", lambda route: held.append(route))
    page.get_by_role("button", name="The first", exact=True).click()
    while not held:
        page.wait_for_timeout(20)
    ask(page, "Count slowly")
    expect(page.get_by_text("One two")).to_be_visible()
    with page.expect_response("**/input_items?*"):
        held[0].continue_()
    expect(page.get_by_text("done.")).to_be_visible()
    expect(page.locator(".typed")).to_have_text("Count slowly")


def test_what_is_sent_while_the_scripts_load_goes_to_no_other_chat(open_page: Any) -> None:
    page = open_page()
    ask(page, "Hi")
    expect(page.get_by_text("tokens in")).to_be_visible()
    page.get_by_role("button", name="New chat").click()
    held: list[Any] = []
    page.reload()
    page.get_by_role("button", name="New chat").click()
    page.route("**/turn.js", lambda route: held.append(route))
    ask(page, "Hello again")
    page.get_by_role("button", name="Hi", exact=True).click()
    while not held:
        page.wait_for_timeout(20)
    for route in held:
        route.continue_()
    expect(page.locator(".answer strong")).to_have_text("How")
    expect(page.locator(".typed")).to_have_text(["Hi"])
    page.get_by_role("button", name="New chat").click()
    expect(page.get_by_role("textbox", name="Message", exact=True)).to_have_value("Hello again")


def test_two_tabs_of_a_chat_lose_no_turn(open_page: Any, fresh: Server) -> None:
    first = open_page(fresh.url)
    ask(first, "Question")
    expect(first.get_by_text("tokens in")).to_be_visible()
    second = open_page(fresh.url)
    second.get_by_role("button", name="Question", exact=True).click()
    second.get_by_role("button", name="Edit", exact=True).click()
    second.locator("textarea[aria-label=Edit]").fill("Of the second tab")
    ask(first, "Of the first tab")
    expect(first.get_by_text("tokens in")).to_have_count(2)
    # What is typed there is not lost either.
    second.get_by_role("button", name="Send as a new branch").click()
    expect(second.locator(".typed")).to_have_text(["Of the second tab"])
    expect(second.get_by_text("tokens in")).to_be_visible()
    first.reload()
    expect(first.locator(".typed")).to_have_text(["Of the second tab"])
    first.get_by_role("button", name="Previous version").click()
    expect(first.locator(".typed")).to_have_text(["Question", "Of the first tab"])


def test_what_programs_send_along_is_no_question(open_page: Any, fresh: Server) -> None:
    """Many send all earlier turns with each request."""
    items = [
        {"role": "user", "content": "Old question"},
        {"role": "assistant", "content": "Old answer"},
        {"role": "user", "content": "New question"},
    ]
    fresh.post("/v1/responses", {"input": items})
    page = open_page(fresh.url)
    open_list(page)
    page.locator(".on-server .chat-link").click()
    expect(page.locator(".typed")).to_have_text("New question")
    page.get_by_text("Sent along: 2 earlier items").click()
    expect(page.get_by_text("assistant: Old answer")).to_be_visible()


def test_a_file_that_a_program_sent_has_its_name(open_page: Any, fresh: Server) -> None:
    data = f"data:text/plain;base64,{base64.b64encode(b'Tides rise.').decode()}"
    file = {"type": "input_file", "filename": "tides.txt", "file_data": data}
    parts = [{"type": "input_text", "text": "Summarise this:"}, file]
    fresh.post("/v1/responses", {"input": [{"role": "user", "content": parts}]})
    page = open_page(fresh.url)
    open_list(page)
    page.locator(".on-server .chat-link").click()
    expect(page.locator(".typed")).to_have_text("Summarise this: [tides.txt]")


def items(prefix: str, count: int) -> list[dict[str, str]]:
    """Questions with their answers."""
    roles = ("user", "assistant")
    return [{"role": roles[n % 2], "content": f"{prefix} {n}"} for n in range(count)]


def test_the_newest_items_of_a_long_conversation_are_shown(open_page: Any, fresh: Server) -> None:
    conversation = fresh.post("/v1/conversations", {"items": items("Item", 20)})["id"]
    for part in range(50):
        body = {"items": items(f"Part {part} item", 20)}
        fresh.post(f"/v1/conversations/{conversation}/items", body)
    page = open_page(fresh.url)
    open_list(page)
    page.locator(".on-server .chat-link").click()
    expect(page.locator(".typed")).to_have_count(500)
    expect(page.locator(".typed").first).to_have_text("Part 0 item 0")
    hint = page.get_by_text("Earlier items are not shown")
    expect(hint).to_have_count(1)
    ask(page, "The newest")
    expect(page.get_by_text("tokens in")).to_be_visible()
    page.reload()
    expect(page.locator(".typed").last).to_have_text("The newest")
    expect(page.locator(".answer strong")).to_have_text("How")


def test_the_newest_turns_of_a_chain_have_their_questions(open_page: Any, fresh: Server) -> None:
    first = fresh.post("/v1/responses", {"input": items("Item", 1101)})["id"]
    body = {"input": "The second", "previous_response_id": first}
    second = fresh.post("/v1/responses", body)["id"]
    fresh.post("/v1/responses", {"input": "The third", "previous_response_id": second})
    page = open_page(fresh.url)
    open_list(page)
    page.get_by_role("button", name="The third", exact=True).click()
    expect(page.locator(".typed")).to_have_text(["Item 1100", "The second", "The third"])
    expect(page.locator(".answer strong")).to_have_count(3)
    turns = page.locator(".turn")
    expect(turns.first).to_contain_text("Earlier items are not shown")
    # Sent again, it would lack what is not shown.
    expect(turns.first.get_by_role("button", name="Try again")).to_have_count(0)
    expect(turns.last.get_by_role("button", name="Try again")).to_have_count(1)


def test_a_chain_shows_answers_whose_questions_are_too_far_back(
    open_page: Any, fresh: Server
) -> None:
    first = fresh.post("/v1/responses", {"input": "The first"})["id"]
    body = {"input": items("Item", 1101), "previous_response_id": first}
    fresh.post("/v1/responses", body)
    page = open_page(fresh.url)
    open_list(page)
    page.locator(".on-server .chat-link").click()
    expect(page.locator(".answer strong")).to_have_count(2)
    expect(page.locator(".typed:visible")).to_have_text(["Item 1100"])
    expect(page.get_by_text("Earlier items are not shown")).to_have_count(2)


def test_a_response_without_output_has_its_own_question(open_page: Any, fresh: Server) -> None:
    first = fresh.post("/v1/responses", {"input": "The first"})["id"]
    page = open_page(fresh.url)
    empty = {**json.loads(fresh.get(f"/v1/responses/{first}")), "status": "failed", "output": []}
    second = fresh.post("/v1/responses", {"input": "The second", "previous_response_id": first})
    page.route(f"**/v1/responses/{first}", lambda route: route.fulfill(json=empty))
    path = f"**/v1/responses/{second['id']}/input_items?*"

    def without_output(route: Any) -> None:
        answer = route.fetch()
        data = [item for item in answer.json()["data"] if item.get("role") == "user"]
        route.fulfill(json={**answer.json(), "data": data})

    page.route(path, without_output)
    open_list(page)
    page.locator(".on-server .chat-link").first.click()
    expect(page.locator(".typed")).to_have_text(["The first", "The second"])


def test_another_key_does_not_see_the_list_of_the_first(open_page: Any) -> None:
    with running("--store", "memory", "--api-key", "one", "--api-key", "two") as server:
        items = [{"role": "user", "content": "Of one"}]
        server.post("/v1/conversations", {"items": items}, "one")
        page = open_page(server.url, expected="401")
        for key, count in (("one", 1), ("two", 0)):
            if key == "two":
                page.get_by_role("button", name="API key").click()
            page.get_by_label("Key", exact=True).fill(key)
            page.get_by_role("button", name="Use this key").click()
            expect(page.locator(".on-server .chat-link")).to_have_count(0)
            open_list(page)
            expect(page.locator(".on-server .chat-link")).to_have_count(count)


def test_chats_of_this_browser_are_not_listed_twice(open_page: Any, fresh: Server) -> None:
    page = open_page(fresh.url)
    ask(page, "Mine")
    expect(page.get_by_text("tokens in")).to_be_visible()
    open_list(page)
    expect(page.get_by_text("Nothing else is stored.")).to_be_visible()
    expect(page.locator(".chat-link")).to_have_text(["Mine"])


def test_more_of_the_list_is_shown(open_page: Any, fresh: Server) -> None:
    for number in range(23):
        items = [{"role": "user", "content": f"Number {number}"}]
        fresh.post("/v1/conversations", {"items": items, "metadata": {"title": f"T{number}"}})
    page = open_page(fresh.url)
    open_list(page)
    expect(page.locator(".on-server .chat-link")).to_have_count(20)
    page.get_by_role("button", name="Show more").click()
    expect(page.locator(".on-server .chat-link")).to_have_count(23)
    expect(page.get_by_role("button", name="Show more")).to_be_hidden()


def test_a_server_without_lists_is_said_in_words(open_page: Any, fresh: Server) -> None:
    page = open_page(fresh.url, expected="404")
    error = json.dumps({"error": {"message": "Not found."}})
    page.route("**/v1/conversations?*", lambda route: route.fulfill(status=404, body=error))
    open_list(page)
    expect(page.get_by_text("This server cannot list what it has stored.")).to_be_visible()


def test_two_visitors_with_keys_of_their_own_see_their_own(
    open_page: Any, browser: Any, context: Any
) -> None:
    with running("--store", "memory", "--api-key", "one", "--api-key", "two") as server:
        for key in ("one", "two"):
            items = [{"role": "user", "content": f"Of {key}"}]
            server.post("/v1/conversations", {"items": items}, key)
        other = browser.new_context()
        pages = {"one": open_page(server.url, expected="401"), "two": other.new_page()}
        pages["two"].goto(f"{server.url}/playground")
        for key, page in pages.items():
            page.get_by_label("Key", exact=True).fill(key)
            page.get_by_role("button", name="Use this key").click()
            open_list(page)
            expect(page.locator(".on-server .chat-link")).to_have_text([f"Of {key}"])
        other.close()


def test_what_is_stored_is_deleted_without_being_opened(open_page: Any, fresh: Server) -> None:
    first = fresh.post("/v1/responses", {"input": "The first"})["id"]
    fresh.post("/v1/responses", {"input": "The second", "previous_response_id": first})
    items = [{"role": "user", "content": "Of a conversation"}]
    fresh.post("/v1/conversations", {"items": items})
    page = open_page(fresh.url)
    page.on("dialog", lambda dialog: dialog.accept())
    open_list(page)
    entries = page.locator(".on-server .chat-link")
    expect(entries).to_have_count(2)
    page.get_by_role("button", name="Delete on the server: The second").click()
    expect(entries).to_have_text(["Of a conversation"])
    page.get_by_role("button", name="Delete on the server: Of a conversation").click()
    expect(entries).to_have_count(0)
    assert json.loads(fresh.get("/v1/responses"))["data"] == []
    assert json.loads(fresh.get("/v1/conversations"))["data"] == []


def test_a_background_answer_of_a_program_is_followed_and_stopped(
    open_page: Any, fresh: Server
) -> None:
    fresh.post("/v1/responses", {"input": "Count slowly", "background": True})
    page = open_page(fresh.url)
    open_list(page)
    page.get_by_role("button", name="Count slowly", exact=True).click()
    expect(page.get_by_text("One two")).to_be_visible()
    page.get_by_role("button", name="Stop").click()
    expect(page.locator(".note")).to_contain_text("Stopped.")
