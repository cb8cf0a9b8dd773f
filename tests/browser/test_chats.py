"""The list of chats, and what is kept of each."""

import json
from typing import Any

from playwright.sync_api import Page, expect

from tests.browser.conftest import Server
from tests.browser.test_chat import WEATHER, ask
from tests.browser.test_scrolling import until

STORED = "JSON.parse(localStorage['gpt-oss-chats'] ?? '[]')"
LIMIT = "The answer reached its token limit."
NOT_FOUND = json.dumps({"error": {"message": "Not Found"}})


def answered(page: Page, text: str, count: int = 1) -> None:
    ask(page, text)
    expect(page.get_by_text("tokens in")).to_have_count(count)


def open_conversation(page: Page, server: Server, question: str) -> str:
    """Open a conversation that another client has begun with a question. Returns its id."""
    items = [{"role": "user", "content": question}, {"role": "assistant", "content": "Yes."}]
    conversation: str = server.post("/v1/conversations", {"items": items})["id"]
    page.get_by_text("On the server").click()
    page.get_by_role("button", name=question, exact=True).click()
    expect(page.locator(".typed")).to_have_text(question)
    return conversation


def test_the_current_chat_can_be_chosen_and_keeps_its_last_answer(open_page: Any) -> None:
    page = open_page()
    answered(page, "Hi")
    answered(page, "Hello again", 2)
    page.get_by_role("button", name="Hi", exact=True).click()
    expect(page.locator(".answer strong")).to_have_count(2)
    sent: list[Any] = []
    page.on("request", lambda request: sent.append(request))
    answered(page, "Once more", 3)
    (body,) = [each.post_data_json for each in sent if each.url.endswith("/v1/responses")]
    stored = page.evaluate(f"{STORED}[0].turns.map((turn) => turn.response)")
    assert None not in stored
    assert body["previous_response_id"] == stored[1]


def test_an_answer_goes_on_when_its_chat_is_chosen(open_page: Any) -> None:
    page = open_page()
    ask(page, "Count slowly")
    expect(page.get_by_text("One two")).to_be_visible()
    page.get_by_role("button", name="Count slowly", exact=True).click()
    expect(page.get_by_text("done.")).to_be_visible()


def test_all_answers_of_a_chat_are_deleted_with_it(open_page: Any, server: Server) -> None:
    page = open_page(expected="404")
    answered(page, "Hi")
    answered(page, "Hello again", 2)
    made = page.evaluate(f"{STORED}[0].turns.map((turn) => turn.response)")
    page.on("dialog", lambda dialog: dialog.accept())
    page.get_by_role("button", name="Delete this chat: Hi").click()
    expect(page.locator(".welcome")).to_be_visible()
    for response in made:
        until(page, f"fetch('v1/responses/{response}').then((answer) => answer.status === 404)")


def test_answers_that_the_server_does_not_delete_are_counted(open_page: Any) -> None:
    page = open_page(expected="status of")
    for count, text in enumerate(("Hi", "Hello again", "Once more"), 1):
        answered(page, text, count)
    first = page.evaluate(f"{STORED}[0].turns[0].response")
    statuses = {first: 404}

    def answer(route: Any) -> None:
        status = statuses.get(route.request.url.rpartition("/")[2], 503)
        route.fulfill(status=status, body=NOT_FOUND)

    page.route("**/v1/responses/resp_*", answer)
    page.on("dialog", lambda dialog: dialog.accept())
    page.get_by_role("button", name="Delete this chat: Hi").click()
    expect(page.locator(".options .error")).to_contain_text("still has 2 of its answers")
    assert page.evaluate(STORED) == []


def test_a_chat_that_is_deleted_while_it_is_answered_does_not_come_back(open_page: Any) -> None:
    page = over_completions(open_page)
    page.on("dialog", lambda dialog: dialog.accept())
    ask(page, "Count slowly")
    expect(page.get_by_text("One two")).to_be_visible()
    page.get_by_role("button", name="Delete this chat: Count slowly").click()
    expect(page.locator(".welcome")).to_be_visible()
    answered(page, "Hi")
    assert page.evaluate(f"{STORED}.map((chat) => chat.title)") == ["Hi"]


def test_a_deletion_stores_the_input_of_the_other_chats_once(open_page: Any) -> None:
    page = open_page()
    page.on("dialog", lambda dialog: dialog.accept())
    answered(page, "Hi there, my friend")
    page.get_by_role("button", name="New chat").click()
    answered(page, "Hello again")
    page.get_by_role("button", name="Delete this chat: Hello again").click()
    expect(page.locator(".welcome")).to_be_visible()
    assert page.evaluate("localStorage['gpt-oss-chats']").count("Hi there, my friend") == 2


def test_a_question_of_a_conversation_that_failed_is_shown_until_the_next(
    open_page: Any, server: Server
) -> None:
    page = open_page(expected="500")
    open_conversation(page, server, "First?")
    failure = json.dumps({"error": {"message": "It broke."}})
    page.route("**/v1/responses", lambda route: route.fulfill(status=500, body=failure))
    ask(page, "Hi")
    expect(page.get_by_text("It broke.")).to_be_visible()
    page.reload()
    expect(page.locator(".typed")).to_have_text(["First?", "Hi"])
    expect(page.get_by_text("It broke.")).to_be_visible()
    page.unroute("**/v1/responses")
    page.get_by_role("button", name="Try again").last.click()
    expect(page.get_by_text("tokens in")).to_be_visible()
    page.reload()
    expect(page.locator(".typed")).to_have_text(["First?", "Hi"])
    expect(page.locator(".answer strong")).to_have_count(1)


def test_a_question_of_a_conversation_that_was_stopped_is_still_there(
    open_page: Any, server: Server
) -> None:
    page = open_page()
    open_conversation(page, server, "Fourth?")
    ask(page, "Count slowly")
    expect(page.get_by_text("One two")).to_be_visible()
    page.get_by_role("button", name="Stop").click()
    expect(page.locator(".note").last).to_contain_text("Stopped.")
    page.reload()
    expect(page.locator(".typed")).to_have_text(["Fourth?", "Count slowly"])
    expect(page.get_by_text("One two")).to_be_visible()


def test_a_background_answer_of_a_conversation_is_shown_once(
    open_page: Any, server: Server
) -> None:
    page = open_page()
    page.get_by_label("Answers go on without this page").check()
    open_conversation(page, server, "Second?")
    ask(page, "Count slowly")
    expect(page.get_by_text("One two")).to_be_visible()
    page.get_by_role("button", name="New chat").click()
    response = page.evaluate(f"{STORED}.flatMap((chat) => chat.turns).at(-1).response")
    server.get(f"/v1/responses/{response}?stream=true")  # until it ends
    page.get_by_role("button", name="Second?", exact=True).first.click()
    expect(page.get_by_text("done.")).to_be_visible()
    expect(page.locator(".typed")).to_have_text(["Second?", "Count slowly"])


def test_a_conversation_that_cannot_be_read_says_why(open_page: Any, server: Server) -> None:
    page = open_page(expected="404")
    conversation = open_conversation(page, server, "Third?")
    page.evaluate("(path) => fetch(path, {method: 'DELETE'})", f"v1/conversations/{conversation}")
    page.reload()
    expect(page.get_by_role("alert").filter(has_text=conversation)).to_be_visible()
    expect(page.locator(".welcome")).to_have_count(0)


def test_a_chain_with_a_response_without_output_has_each_question(
    open_page: Any, server: Server
) -> None:
    first = server.post("/v1/responses", {"input": "One?"})["id"]
    path = f"/v1/responses/{first}"
    silent = {**json.loads(server.get(path)), "output": []}
    server.post("/v1/responses", {"input": "Two?", "previous_response_id": first})
    page = open_page()
    page.route(f"**{path}", lambda route: route.fulfill(json=silent))
    page.get_by_text("On the server").click()
    page.get_by_role("button", name="Two?", exact=True).click()
    expect(page.locator(".typed").first).to_have_text("One?")


def over_completions(open_page: Any) -> Page:
    page: Page = open_page(expected="404")
    page.route("**/v1/responses", lambda route: route.fulfill(status=404, body=NOT_FOUND))
    return page


def test_a_completion_that_was_stopped_keeps_its_text(open_page: Any) -> None:
    page = over_completions(open_page)
    ask(page, "Count slowly")
    expect(page.get_by_text("One two")).to_be_visible()
    page.get_by_role("button", name="Stop").click()
    expect(page.locator(".note")).to_contain_text("Stopped.")
    page.reload()
    expect(page.get_by_text("One two")).to_be_visible()
    expect(page.locator(".note")).to_contain_text("Stopped.")


def test_a_call_that_was_cut_off_is_not_sent_again(open_page: Any) -> None:
    page = over_completions(open_page)
    page.get_by_label("Tools (JSON)").fill(WEATHER)
    page.get_by_label("Most tokens").fill("41")
    ask(page, "How is the weather?")
    expect(page.locator(".note")).to_contain_text(LIMIT)
    expect(page.locator(".card-name")).to_have_text("get_weather")
    sent: list[Any] = []
    page.on("request", lambda request: sent.append(request))
    page.get_by_label("Most tokens").fill("")
    ask(page, "Hi")
    expect(page.get_by_text("tokens in")).to_have_count(2)
    (body,) = [each.post_data_json for each in sent if each.url.endswith("/chat/completions")]
    assert not any("tool_calls" in message for message in body["messages"])


def test_a_completion_that_reached_its_limit_says_so(open_page: Any) -> None:
    page = over_completions(open_page)
    page.get_by_label("Most tokens").fill("3")
    ask(page, "Count slowly")
    expect(page.locator(".note")).to_contain_text(LIMIT)
    expect(page.locator("#status")).to_have_text(LIMIT)
    page.reload()
    expect(page.locator(".note")).to_contain_text(LIMIT)


def test_the_secrets_of_an_mcp_server_are_not_kept_with_the_chat(open_page: Any) -> None:
    page = open_page(expected="400")
    server = {
        "type": "mcp",
        "server_label": "x",
        "server_url": "https://127.0.0.1:1/",
        "authorization": "hunter2",
    }
    page.get_by_label("Tools (JSON)").fill(json.dumps([server]))
    ask(page, "Hi")
    expect(page.locator(".note.error, .answer strong").first).to_be_visible()
    stored = page.evaluate("localStorage['gpt-oss-chats']")
    assert "server_label" in stored
    assert "hunter2" not in stored


def test_the_input_of_a_turn_is_stored_once(open_page: Any) -> None:
    page = open_page()
    answered(page, "Hi there, my friend")
    stored = page.evaluate("localStorage['gpt-oss-chats']")
    assert stored.count("Hi there, my friend") == 2  # the title, and the message
    page.reload()
    page.get_by_role("button", name="View code").click()
    expect(page.get_by_role("dialog")).to_contain_text("Hi there, my friend")


def test_a_key_that_was_not_refused_is_not_called_wrong(open_page: Any) -> None:
    page = open_page()
    page.evaluate("sessionStorage['gpt-oss-key'] = 'any'")
    page.get_by_role("button", name="API key").click()
    expect(page.get_by_label("Key", exact=True)).to_be_visible()
    expect(page.get_by_text("The server does not accept this key.")).to_be_hidden()


def test_an_arrow_keeps_the_focus_and_is_in_view(open_page: Any) -> None:
    page = open_page()
    answered(page, "Hi")
    page.get_by_role("button", name="Try again").click()
    expect(page.get_by_text("2 / 2")).to_be_visible()
    expect(page.get_by_text("tokens in")).to_be_visible()
    page.get_by_role("button", name="Previous version").click()
    expect(page.get_by_text("1 / 2")).to_be_visible()
    expect(page.get_by_role("button", name="Next version")).to_be_focused()
    expect(page.get_by_role("button", name="Next version")).to_be_in_viewport()


def test_calls_of_a_stored_completion_wait_for_results_only_if_it_is_whole(open_page: Any) -> None:
    page = over_completions(open_page)
    page.get_by_label("Tools (JSON)").fill(WEATHER)
    page.get_by_label("Most tokens").fill("4")
    ask(page, "How is the weather?")
    expect(page.locator(".note")).to_contain_text(LIMIT)
    expect(page.get_by_label("Result: get_weather")).to_have_count(0)


STORE_CHATS = """([count, length]) => {
  const chat = (_, i) => {
    const input = [{ role: "user", content: "x".repeat(length) }];
    const state = { error: null, background: false, ended: true };
    const turn = { id: `t${i}`, parent: null, input, request: {}, response: "resp_x", ...state };
    return { id: `c${i}`, title: `Chat ${i}`, updated: i, leaf: `t${i}`, turns: [turn] };
  };
  localStorage.setItem("gpt-oss-chats", JSON.stringify(Array.from({ length: count }, chat)));
}"""
"""Stores so many chats, each with a question of so many characters."""


def test_a_long_message_drops_no_chat_and_is_stored_in_part(open_page: Any) -> None:
    page = open_page(expected="400")
    page.evaluate(STORE_CHATS, [190, 20_000])
    page.reload()
    failure = json.dumps({"error": {"message": "Too long."}})
    page.route("**/v1/responses", lambda route: route.fulfill(status=400, body=failure))
    ask(page, "y" * 4_000_000)
    expect(page.get_by_role("alert")).to_contain_text("Too long.")
    assert page.evaluate(f"{STORED}.length") == 191
    assert page.evaluate(f"{STORED}[0].turns[0].input[0].content.length") == 100_000
    page.reload()
    expect(page.get_by_text("This is only the beginning")).to_be_visible()
    expect(page.get_by_role("button", name="Try again")).to_have_count(0)


def test_full_storage_drops_the_oldest_chats_in_few_steps_and_says_so(open_page: Any) -> None:
    page = open_page()
    page.evaluate(STORE_CHATS, [199, 25_900])
    page.reload()
    page.evaluate("""() => {
      const { setItem } = Storage.prototype;
      window.written = 0;
      Storage.prototype.setItem = function (name, value) {
        if (name === "gpt-oss-chats") window.written += 1;
        return setItem.call(this, name, value);
      };
    }""")
    with page.expect_request("**/v1/responses"):
        ask(page, "y" * 90_000)
    expect(page.locator(".options .error")).to_contain_text("oldest chats were dropped")
    expect(page.get_by_text("tokens in")).to_be_visible()
    left = page.evaluate(f"{STORED}.length")
    assert 190 <= left < 200
    assert page.evaluate(f"{STORED}.at(-1).id") == f"c{left - 2}"
    assert page.evaluate("window.written") < 3 * 10


def test_each_chat_has_a_draft_of_its_own(open_page: Any) -> None:
    page = open_page()
    answered(page, "Hi")
    box = page.get_by_role("textbox", name="Message")
    box.fill("Of the chat")
    page.get_by_role("button", name="New chat").click()
    expect(box).to_have_value("")
    box.fill("Of the new one")
    page.get_by_role("button", name="Hi", exact=True).click()
    expect(box).to_have_value("Of the chat")
    page.get_by_role("button", name="New chat").click()
    expect(box).to_have_value("Of the new one")
    answered(page, "Sent")
    page.get_by_role("button", name="New chat").click()
    expect(box).to_have_value("")


def manage(page: Page, title: str) -> None:
    page.get_by_role("button", name=f"Rename or export: {title}").click()


def test_a_chat_is_renamed(open_page: Any) -> None:
    page = open_page()
    answered(page, "Hi")
    manage(page, "Hi")
    page.get_by_label("Title").fill("Greetings")
    page.get_by_role("button", name="Rename", exact=True).click()
    expect(page.locator(".chat-link")).to_have_text("Greetings")
    page.reload()
    expect(page.locator(".chat-link")).to_have_text("Greetings")
    answered(page, "Hello again", 2)
    expect(page.locator(".chat-link")).to_have_text("Greetings")


def exported(page: Page, kind: str) -> tuple[str, str]:
    with page.expect_download() as download:
        page.get_by_role("button", name=f"Export as {kind}").click()
    return download.value.suggested_filename, download.value.path().read_text(encoding="utf-8")


def test_a_chat_becomes_a_file(open_page: Any) -> None:
    page = open_page()
    answered(page, "Who's there?")
    manage(page, "Who's there?")
    name, text = exported(page, "Markdown")
    assert name == "Who-s-there.md"
    question = "# Who's there?\n\n## You\n\nWho's there?"
    assert text == f"{question}\n\n## Answer\n\nHello! **How** can I help?\n"
    name, text = exported(page, "JSON")
    assert name == "Who-s-there.json"
    (turn,) = json.loads(text)["turns"]
    assert turn["input"] == [{"role": "user", "content": "Who's there?"}]
    assert [item["type"] for item in turn["output"]] == ["reasoning", "message"]


def test_a_conversation_becomes_a_file_without_being_opened(open_page: Any, server: Server) -> None:
    page = open_page()
    open_conversation(page, server, "Fifth?")
    page.get_by_role("button", name="New chat").click()
    manage(page, "Fifth?")
    assert exported(page, "Markdown")[1].endswith("## You\n\nFifth?\n\n## Answer\n\nYes.\n")


def test_chats_are_searched_by_their_title_and_messages(open_page: Any) -> None:
    page = open_page()
    page.evaluate(STORE_CHATS, [6, 10])
    page.reload()
    ask(page, "Where is OSLO?")
    search = page.get_by_role("searchbox", name="Search chats")
    search.fill("oslo")
    expect(page.locator(".chat-link")).to_have_text(["Where is OSLO?"])
    search.fill("xxxx")
    expect(page.locator(".chat-link")).to_have_count(6)
    search.fill("")
    expect(page.locator(".chat-link")).to_have_count(7)


def test_the_dialog_of_a_chat_gives_the_focus_back(open_page: Any) -> None:
    page = open_page()
    answered(page, "Hi")
    manage(page, "Hi")
    page.get_by_label("Title").fill("Greetings")
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="Rename or export: Greetings")).to_be_focused()
    page.set_viewport_size({"width": 390, "height": 800})
    page.get_by_role("button", name="Chats").click()
    manage(page, "Greetings")
    expect(page.get_by_role("dialog")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("button", name="Rename or export: Greetings")).to_be_focused()


def test_the_list_of_chats_keeps_the_focus(open_page: Any) -> None:
    page = open_page(expected="404")
    answered(page, "Hi")
    page.get_by_role("button", name="New chat").click()
    ask(page, "Count slowly")
    expect(page.get_by_text("One two")).to_be_visible()
    remove = page.get_by_role("button", name="Delete this chat: Hi")
    remove.focus()
    expect(page.get_by_role("img", name="An answer is coming")).to_have_count(0)
    expect(remove).to_be_focused()
    page.on("dialog", lambda dialog: dialog.accept())
    page.keyboard.press("Enter")
    expect(page.get_by_role("textbox", name="Message")).to_be_focused()


def test_a_title_has_the_room_of_the_buttons_that_are_not_shown(open_page: Any) -> None:
    page = open_page()
    answered(page, "Hi")
    page.get_by_role("textbox", name="Message").hover()
    row, title = (page.locator(each).bounding_box() for each in (".chats li", ".chat-link"))
    assert row is not None
    assert title is not None
    assert title["width"] == row["width"]


def test_a_file_says_what_it_lacks(open_page: Any) -> None:
    page = open_page(expected="404")
    answered(page, "Hi")
    response = page.evaluate(f"{STORED}[0].turns[0].response")
    page.evaluate("(path) => fetch(path, {method: 'DELETE'})", f"v1/responses/{response}")
    page.evaluate(f"""() => {{
      const chats = {STORED};
      chats[0].turns[0].shortened = true;
      localStorage['gpt-oss-chats'] = JSON.stringify(chats);
    }}""")
    page.reload()
    manage(page, "Hi")
    text = exported(page, "Markdown")[1]
    assert "Hi\n\n*This is only the beginning" in text
    assert text.endswith("\n\n*The server no longer stores this answer.*\n")
    (turn,) = json.loads(exported(page, "JSON")[1])["turns"]
    assert len(turn["notes"]) == 2


def test_a_file_has_a_refusal(open_page: Any) -> None:
    page = open_page()
    answered(page, "Hi")
    content = [{"type": "refusal", "refusal": "I must not."}]
    refused = {"status": "completed", "output": [{"type": "message", "content": content}]}
    page.route("**/v1/responses/resp_*", lambda route: route.fulfill(json=refused))
    manage(page, "Hi")
    assert exported(page, "Markdown")[1].endswith("## Answer\n\nI must not.\n")
