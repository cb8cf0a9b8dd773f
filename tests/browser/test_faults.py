"""What goes wrong is said in words, and nothing that was typed is lost."""

import json
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Server, Site, running
from tests.browser.test_chat import WEATHER, ask, served, stream

PLAIN = ("--store", "memory", "--hosted-tools", "")
FILL = """() => {
  for (let size = 1 << 20, count = 0; size; count += 1) {
    try {
      localStorage.setItem(`other-${count}`, "x".repeat(size));
    } catch {
      size >>= 1;
    }
  }
}"""
"""Other pages of the same origin, or long chats, fill the storage."""


def test_a_server_that_is_killed_in_an_answer(open_page: Any, tmp_path: Path) -> None:
    with running("--store", f"sqlite:///{tmp_path}/s.db", "--hosted-tools", "") as server:
        page = open_page(server.url, expected="ERR_")
        ask(page, "Count slowly")
        expect(page.get_by_text("One two")).to_be_visible()
        server.process.kill()
        server.process.communicate()
        expect(page.get_by_role("alert")).to_contain_text("“Try again” asks for another one.")
        expect(page.locator(".typed")).to_have_text("Count slowly")
        server.start()
        page.get_by_role("button", name="Try again").click()
        expect(page.get_by_text("done.")).to_be_visible()


def test_an_engine_that_dies_in_an_answer(open_page: Any) -> None:
    page = open_page()
    response = {"id": "resp_1", "status": "in_progress", "output": []}
    message = "The engine has died."
    failed = {**response, "status": "failed", "error": {"code": "server_error", "message": message}}
    events = [
        {"type": "response.created", "response": response},
        {"type": "error", "code": "server_error", "message": message},
        {"type": "response.failed", "response": failed},
    ]
    served(page, "".join(f"data: {json.dumps(each)}\n\n" for each in events))
    ask(page, "Are you well?")
    expect(page.get_by_role("alert")).to_have_text(message)
    expect(page.locator(".typed")).to_have_text("Are you well?")
    expect(page.get_by_role("button", name="Send", exact=True)).to_be_visible()


def test_what_an_answer_had_before_it_failed_is_there_after_a_reload(
    open_page: Any, tmp_path: Path
) -> None:
    options = ("--store", f"sqlite:///{tmp_path}/s.db", "--hosted-tools", "")
    with running(*options, "--drain-seconds", "0") as server:
        page = open_page(server.url, expected="ERR_")
        page.get_by_label("Answers go on without this page").check()
        ask(page, "Count slowly")
        expect(page.get_by_text("One two")).to_be_visible()
        server.stop()
        expect(page.get_by_role("alert")).to_contain_text("stopped before it was finished")
        server.start()
        page.reload()
        expect(page.get_by_text("One two")).to_be_visible()
        expect(page.get_by_role("alert")).to_contain_text("stopped before it was finished")


def test_scripts_that_cannot_be_loaded_lose_nothing(open_page: Any) -> None:
    """The server may be restarting, or have other scripts, when the first message is sent."""
    page = open_page(expected="ERR_")
    page.route("**/turn.js", lambda route: route.abort())
    ask(page, "Hi")
    expect(page.locator(".options .error")).to_contain_text("does not send the rest of this page")
    expect(page.get_by_role("textbox", name="Message")).to_have_value("Hi")
    page.unroute("**/turn.js")
    page.get_by_role("textbox", name="Message").press("Enter")
    expect(page.locator(".answer strong")).to_have_text("How")


@pytest.mark.parametrize(
    ("script", "button"),
    [
        ("code", "View as code"),
        ("code", "View code"),
        ("tools", "Tools in a form"),
        ("manage", "Rename or export: Hi"),
    ],
)
def test_a_button_whose_scripts_cannot_be_loaded_says_so(
    open_page: Any, script: str, button: str
) -> None:
    page = open_page(expected="ERR_")
    ask(page, "Hi")
    expect(page.get_by_text("tokens in")).to_be_visible()
    page.route(f"**/{script}.js", lambda route: route.abort())
    page.get_by_role("button", name=button).click()
    expect(page.locator(".options .error")).to_contain_text("does not send the rest of this page")
    page.unroute(f"**/{script}.js")
    page.get_by_role("button", name=button).click()
    expect(page.get_by_role("dialog")).to_be_visible()


def test_a_list_whose_scripts_cannot_be_loaded_says_so(open_page: Any) -> None:
    page = open_page(expected="ERR_")
    page.route("**/stored.js", lambda route: route.abort())
    page.get_by_text("On the server").click()
    expect(page.locator(".on-server")).to_contain_text("does not send the rest of this page")


def test_a_chat_whose_scripts_cannot_be_loaded_says_so_and_is_opened_again(open_page: Any) -> None:
    page = open_page(expected="ERR_")
    ask(page, "Hi")
    expect(page.get_by_text("tokens in")).to_be_visible()
    page.route("**/turn.js", lambda route: route.abort())
    page.reload()
    expect(page.locator(".options .error")).to_contain_text("does not send the rest of this page")
    page.unroute("**/turn.js")
    page.get_by_role("button", name="Hi", exact=True).click()
    expect(page.locator(".answer strong")).to_have_text("How")


def test_a_page_that_is_loaded_while_the_server_is_away_recovers(open_page: Any) -> None:
    page = open_page(expected="ERR_")
    ask(page, "Hi")
    expect(page.get_by_text("tokens in")).to_be_visible()
    page.route("**/v1/**", lambda route: route.abort())
    page.reload()
    expect(page.get_by_role("alert")).to_contain_text("The server cannot be reached.")
    expect(page.locator("#model")).to_contain_text("The server cannot be reached.")
    page.unroute("**/v1/**")
    expect(page.locator(".answer strong")).to_have_text("How")
    expect(page.locator("#model")).to_have_text("scripted")
    expect(page.get_by_role("alert")).to_have_count(0)


def test_a_server_with_another_model_is_used_with_that(open_page: Any) -> None:
    page = open_page(expected="404")
    models = {"data": [{"id": "earlier"}]}
    page.route("**/v1/models", lambda route: route.fulfill(json=models))
    page.reload()
    expect(page.locator("#model")).to_have_text("earlier")
    page.unroute("**/v1/models")
    ask(page, "My name is Bob")
    expect(page.get_by_role("alert")).to_contain_text("earlier")
    expect(page.get_by_role("alert")).not_to_contain_text("does not get this message")
    expect(page.locator("#model")).to_have_text("scripted")
    with page.expect_request("**/v1/responses") as sent:
        ask(page, "What is my name?")
    body = sent.value.post_data_json
    assert body["model"] == "scripted"
    assert [item["content"] for item in body["input"]] == ["My name is Bob", "What is my name?"]
    expect(page.get_by_text("tokens in")).to_be_visible()


def test_a_view_whose_scripts_cannot_be_loaded_says_so_and_is_tried_again(open_page: Any) -> None:
    page = open_page(expected="ERR_")
    page.route("**/inspector.js", lambda route: route.abort())
    page.get_by_role("link", name="Inspector").click()
    expect(page.get_by_role("alert")).to_contain_text("does not send the rest of this page")
    page.unroute("**/inspector.js")
    page.get_by_role("link", name="Chat", exact=True).click()
    page.get_by_role("link", name="Inspector").click()
    expect(page.get_by_role("button", name="Show the prompt")).to_be_visible()


def test_a_view_that_loads_late_takes_the_place_of_no_other(open_page: Any) -> None:
    page = open_page()
    held: list[Any] = []
    page.route("**/inspector.js", lambda route: held.append(route))
    page.get_by_role("link", name="Inspector").click()
    page.get_by_role("link", name="Chat", exact=True).click()
    while not held:
        page.wait_for_timeout(20)
    with page.expect_response("**/inspector.css"):  # the view asks for it when it is made
        held[0].continue_()
    expect(page.get_by_role("textbox", name="Message", exact=True)).to_be_visible()
    page.get_by_role("link", name="Inspector").click()
    expect(page.get_by_role("button", name="Show the prompt")).to_be_visible()


@pytest.mark.parametrize("view", ["toString", "__proto__", "nothing"])
def test_an_address_that_names_no_view_shows_the_chat(open_page: Any, view: str) -> None:
    page = open_page(view=view)
    expect(page.get_by_role("textbox", name="Message")).to_be_visible()


def test_an_edit_that_cannot_be_sent_stays(open_page: Any) -> None:
    page = open_page()
    ask(page, "Hi")
    expect(page.get_by_text("tokens in")).to_be_visible()
    page.get_by_label("Tools (JSON)").fill("{nonsense")
    page.get_by_role("button", name="Edit", exact=True).click()
    page.locator("textarea[aria-label=Edit]").fill("Changed")
    page.get_by_role("button", name="Send as a new branch").click()
    expect(page.locator(".options .error")).to_be_visible()
    expect(page.locator("textarea[aria-label=Edit]")).to_have_value("Changed")


def test_what_is_typed_is_there_after_a_reload(open_page: Any) -> None:
    page = open_page()
    page.get_by_role("textbox", name="Message").fill("Half a thou")
    page.reload()
    expect(page.get_by_role("textbox", name="Message")).to_have_value("Half a thou")


def test_full_storage_keeps_nobody_from_sending(open_page: Any) -> None:
    page = open_page()
    page.evaluate(FILL)
    page.get_by_label("Instructions").fill("Be brief. " * 20)
    ask(page, "Hi")
    expect(page.locator(".answer strong")).to_have_text("How")


def test_full_storage_shows_the_page_to_a_first_visitor(
    open_page: Any, context: Any, server: Server
) -> None:
    other = context.new_page()
    other.goto(f"{server.url}/health")
    other.evaluate(FILL)
    page = open_page()
    page.get_by_role("button", name="Theme: auto").click()
    expect(page.get_by_role("button", name="Theme: light")).to_be_visible()


def test_storage_that_is_forbidden_keeps_nobody_from_a_chat(open_page: Any, context: Any) -> None:
    """As browsers forbid it to sites whose cookies they block."""
    for name in ("localStorage", "sessionStorage"):
        refused = "get() { throw new DOMException('Denied', 'SecurityError'); }"
        context.add_init_script(f"Object.defineProperty(window, '{name}', {{ {refused} }})")
    rejected = "() => Promise.reject(new DOMException('Denied', 'SecurityError'))"
    context.add_init_script(
        f"LockManager.prototype.query = LockManager.prototype.request = {rejected}"
    )
    page = open_page()
    ask(page, "Hi")
    expect(page.get_by_text("tokens in")).to_be_visible()
    page.get_by_role("button", name="New chat").click()
    page.get_by_role("button", name="Hi", exact=True).click()
    expect(page.locator(".answer strong")).to_have_text("How")


def test_a_draft_that_does_not_fit_the_storage_is_sent(open_page: Any) -> None:
    page = open_page()
    page.evaluate(FILL.replace("localStorage", "sessionStorage"))
    page.get_by_role("button", name="What is 12 times 7?").click()
    expect(page.locator(".answer strong")).to_have_text("How")


@pytest.mark.parametrize("site", [False, True], ids=["server", "site"])
def test_a_key_may_have_any_characters(open_page: Any, site: bool) -> None:
    key = "schlüssel-ключ"
    with ExitStack() as opened:
        server = opened.enter_context(running(*PLAIN, "--api-key", key))
        if site:
            server = opened.enter_context(running("--base-url", f"{server.url}/v1", kind=Site))
        page = open_page(server.url, expected="401")
        page.get_by_label("Key", exact=True).fill(key)
        page.get_by_role("button", name="Use this key").click()
        expect(page.locator("#model")).to_have_text("scripted")


@pytest.mark.parametrize(("old", "new"), [("\n", "\r\n"), ("data: ", "data:")])
def test_a_stream_may_be_written_otherwise(open_page: Any, old: str, new: str) -> None:
    """As the standard of server-sent events permits, and other servers do."""
    page = open_page()
    part = {"type": "output_text", "text": "Tides rise.", "annotations": []}
    item = {"id": "msg_1", "type": "message", "content": [part]}
    served(page, f"{stream([item])}data: [DONE]\n\n".replace(old, new))
    ask(page, "Tides?")
    expect(page.get_by_text("Tides rise.")).to_be_visible()
    expect(page.get_by_role("alert")).to_have_count(0)


def test_a_completion_that_fails_says_why(open_page: Any) -> None:
    page = open_page(expected="404")
    error = {"error": {"message": "Not Found"}}
    page.route("**/v1/responses", lambda route: route.fulfill(status=404, json=error))
    message = "The engine has died."
    chunks = [{"choices": [{"delta": {"content": "Tides"}}]}, {"error": {"message": message}}]
    body = "".join(f"data: {json.dumps(each)}\n\n" for each in chunks)
    page.route("**/v1/chat/completions", lambda route: route.fulfill(body=body))
    ask(page, "Tides?")
    expect(page.get_by_role("alert")).to_have_text(message)


@pytest.fixture(scope="module")
def behind() -> Any:
    """A server with a key, and a playground of its own in front of it."""
    with (
        running("--store", "memory", "--hosted-tools", "", "--api-key", "secret") as server,
        running("--base-url", f"{server.url}/v1", kind=Site) as site,
    ):
        yield server, site


def test_a_playground_of_its_own_asks_for_the_key_of_the_server(
    open_page: Any, behind: Any
) -> None:
    _, site = behind
    page = open_page(site.url, expected="401")
    page.get_by_label("Key", exact=True).fill("secret")
    page.get_by_role("button", name="Use this key").click()
    expect(page.locator("#model")).to_have_text("scripted")
    ask(page, "Show me formulas")
    expect(page.locator(".prose math").first).to_be_visible()
    expect(page.get_by_text("tokens in")).to_be_visible()


def test_a_playground_of_its_own_says_that_the_server_is_away(open_page: Any, behind: Any) -> None:
    server, site = behind
    page = open_page(site.url, expected="Failed to load")
    page.get_by_label("Key", exact=True).fill("secret")
    page.get_by_role("button", name="Use this key").click()
    expect(page.locator("#model")).to_have_text("scripted")
    server.stop()
    ask(page, "Hi")
    expect(page.get_by_role("alert")).to_contain_text(
        f"The server at {server.url} cannot be reached."
    )
    server.start()
    page.get_by_role("button", name="Try again").click()
    expect(page.locator(".answer strong")).to_have_text("How")


def test_a_server_without_responses_is_used_over_chat_completions(open_page: Any) -> None:
    """As many OpenAI-compatible servers are: here, this one without its Responses API."""
    page = open_page(expected="404")
    error = json.dumps({"error": {"message": "Not Found"}})
    page.route("**/v1/responses", lambda route: route.fulfill(status=404, body=error))
    sent: list[Any] = []
    page.on("request", lambda request: sent.append(request))
    page.get_by_label("Tools (JSON)").fill(WEATHER)
    ask(page, "How is the weather?")
    expect(page.locator(".card-name")).to_have_text("get_weather")
    expect(page.locator(".reasoning summary")).to_contain_text("Reasoning")
    page.get_by_label("Result: get_weather").fill('{"temperature": 21}')
    page.get_by_role("button", name="Send results").click()
    expect(page.get_by_text("It is 21 degrees in Oslo.")).to_be_visible()
    expect(page.get_by_text("tokens in")).to_have_count(2)
    bodies = [each.post_data_json for each in sent if each.url.endswith("/chat/completions")]
    assert [message["role"] for message in bodies[1]["messages"]] == ["user", "assistant", "tool"]
    page.reload()
    expect(page.get_by_text("It is 21 degrees in Oslo.")).to_be_visible()
