"""Items of hosted tools in a history."""

from dataclasses import replace
from typing import Any

import pytest

from harmony.messages import Author, Channel, Conversation, Message, Role
from harmony.render import render
from harmony.tokenizer import decode
from server.errors import InvalidRequest
from server.replay import items
from server.replay.hosted_items import refusal, same_call
from server.store.items import StoredItem

ANALYSIS, COMMENTARY, FINAL = Channel
WITH_CODE = {"code_interpreter_call": "python"}
WITH_MCP = {"mcp_call": ""}
CODE = {
    "type": "code_interpreter_call",
    "id": "ci_1",
    "status": "completed",
    "code": "1 + 1",
    "container_id": "cntr_1",
    "outputs": None,
}
SEARCH = {
    "type": "web_search_call",
    "id": "ws_1",
    "status": "completed",
    "action": {"type": "search", "query": "tides", "queries": ["tides"]},
}
MCP = {
    "type": "mcp_call",
    "id": "mcp_1",
    "server_label": "dmcp",
    "name": "search",
    "arguments": '{"query":"tides"}',
    "output": "none",
}
REQUEST = {
    "type": "mcp_approval_request",
    "id": "mcpr_1",
    "server_label": "dmcp",
    "name": "search",
    "arguments": '{"query":"tides"}',
}
RESPONSE = {
    "type": "mcp_approval_response",
    "id": "r_1",
    "approval_request_id": "mcpr_1",
    "approve": True,
}
LISTING = {"type": "mcp_list_tools", "id": "mcpl_1", "server_label": "dmcp", "tools": []}
USER = {"role": "user", "content": "hi"}


def call(recipient: str, content: str, channel: Channel, *tokens: int) -> Message:
    kind = "json" if recipient.startswith("functions.") else "code"
    return Message(Author(Role.ASSISTANT), content, channel, recipient, kind, tokens or None)


def result(recipient: str, content: str, channel: Channel) -> Message:
    return Message(Author(Role.TOOL, recipient), content, channel, "assistant")


CALLED = call("python", "1 + 1", ANALYSIS, 1, 2)
PRINTED = result("python", "2", ANALYSIS)
SEARCHED = call("browser.search", '{"query":"tides"}', ANALYSIS, 3, 4)
FOUND = result("browser.search", "[0] tides", ANALYSIS)
ASKED = call("functions.dmcp__search", '{"query":"tides"}', COMMENTARY, 5, 6)
ANSWERED = result("functions.dmcp__search", "none", COMMENTARY)
KNOWN = {
    "ci_1": StoredItem(CODE, CALLED, PRINTED),
    "ws_1": StoredItem(SEARCH, SEARCHED, FOUND),
    "mcp_1": StoredItem(MCP, ASKED, ANSWERED),
}


def read(value: list[Any], enabled: Any = WITH_CODE, **known: StoredItem) -> list[Message]:
    resolved = items.resolve(items.normalise(value), known)
    return items.messages((), resolved, enabled=enabled)


def note(kind: str) -> Message:
    text = f"[{kind} left out: this model cannot be shown it]"
    return Message(Author(Role.DEVELOPER), text)


@pytest.mark.parametrize("stored", KNOWN.values(), ids=KNOWN)
@pytest.mark.parametrize("enabled", [{}, WITH_CODE])
def test_a_call_of_this_server_is_replayed_with_its_result(
    stored: StoredItem, enabled: Any
) -> None:
    assert items.messages([stored], [], enabled=enabled) == [stored.message, stored.result]


@pytest.mark.parametrize("stored", KNOWN.values(), ids=KNOWN)
def test_a_call_that_comes_back_unchanged_is_replayed(stored: StoredItem) -> None:
    assert read([stored.item], **KNOWN) == [stored.message, stored.result]
    nulls = dict.fromkeys(("outputs", "error", "output"))
    assert read([stored.item | nulls], **KNOWN) == [stored.message, stored.result]
    reference = {"type": "item_reference", "id": stored.item["id"]}
    assert read([reference], **KNOWN) == [stored.message, stored.result]


def test_fields_that_the_client_asked_for_change_nothing() -> None:
    action = SEARCH["action"] | {"sources": [{"type": "url", "url": "x"}], "url": None}  # type: ignore[operator]
    assert read([SEARCH | {"action": action}], **KNOWN) == [SEARCHED, FOUND]
    formatted = MCP | {"arguments": '{"query": "tides"}'}
    assert read([formatted], **KNOWN) == [ASKED, ANSWERED]


@pytest.mark.parametrize(
    ("item", "change"),
    [
        (CODE, {"code": "2 + 2"}),
        (CODE, {"container_id": "cntr_2"}),
        (SEARCH, {"action": {"type": "open_page", "url": "x"}}),
        (SEARCH, {"action": "x"}),
        (MCP, {"name": "create"}),
        (MCP, {"arguments": "{}"}),
        (MCP, {"arguments": 1}),
        (MCP, {"output": "some"}),
    ],
)
def test_a_changed_call_is_not_the_servers(item: Any, change: Any) -> None:
    assert same_call(item, item)
    assert not same_call(item | change, item)
    assert items.resolve([item | change], KNOWN) == (StoredItem(item | change),)


def test_a_call_that_was_cut_off_is_left_out() -> None:
    cut = StoredItem(CODE | {"status": "incomplete"}, CALLED)
    assert items.messages([cut], [StoredItem({"type": "message", **USER})]) == [
        Message(Author(Role.USER), "hi")
    ]


def test_code_from_elsewhere_is_shown_as_the_model_was_trained() -> None:
    outputs = [{"type": "logs", "logs": "2"}, {"type": "image", "url": "x"}]
    messages = read([USER, CODE | {"outputs": outputs}])
    prompt = decode(render(Conversation(tuple(messages))))
    assert prompt == (
        "<|start|>user<|message|>hi<|end|>"
        "<|start|>assistant to=python<|channel|>analysis code<|message|>1 + 1<|call|>"
        "<|start|>python to=assistant<|channel|>analysis<|message|>2\n[image]<|end|>"
        "<|start|>assistant"
    )


@pytest.mark.parametrize(("outputs", "text"), [(None, "[output left out]"), ([], "")])
def test_code_from_elsewhere_may_lack_its_output(outputs: Any, text: str) -> None:
    assert read([CODE | {"outputs": outputs}]) == [
        replace(CALLED, tokens=None),
        result("python", text, ANALYSIS),
    ]


def test_code_from_elsewhere_is_a_note_without_the_tool() -> None:
    assert read([CODE], enabled={}) == [note("code_interpreter_call")]


def test_a_search_from_elsewhere_is_a_note() -> None:
    assert read([SEARCH], enabled={"web_search_call": ""}) == [note("web_search_call")]


def test_a_call_of_a_server_from_elsewhere_is_a_call_of_its_function() -> None:
    for enabled in ({}, WITH_MCP):
        assert read([MCP], enabled=enabled) == [replace(ASKED, tokens=None), ANSWERED]


@pytest.mark.parametrize(
    ("change", "param"),
    [
        ({"code": 1}, "input.0.code"),
        ({"outputs": 1}, "input.0.outputs"),
        ({"outputs": [1]}, "input.0.outputs.0"),
        ({"outputs": [{"type": "logs"}]}, "input.0.outputs.0.logs"),
    ],
)
def test_an_error_names_the_field(change: Any, param: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        read([CODE | change])
    assert caught.value.param == param


def test_a_message_before_a_hosted_call_is_commentary() -> None:
    message = {"role": "assistant", "content": "Let me see."}
    channels = [each.channel for each in read([message, CODE, message])]
    assert channels == [COMMENTARY, ANALYSIS, ANALYSIS, FINAL]


# Servers of the Model Context Protocol


@pytest.mark.parametrize("item", [LISTING, REQUEST, RESPONSE], ids=lambda item: item["type"])
def test_what_is_about_servers_is_a_note_only_where_the_request_has_none(item: Any) -> None:
    assert read([item], enabled={}) == [note(item["type"])]
    assert read([item], enabled=WITH_MCP) == []
    assert items.messages([StoredItem(item)], []) == []


def approved(*later: StoredItem) -> list[StoredItem]:
    return [StoredItem(REQUEST, ASKED), *later]


def test_an_approved_call_waits_for_its_result() -> None:
    history, own = approved(), [StoredItem(RESPONSE)]
    assert items.messages(history, own, enabled=WITH_MCP) == [ASKED]


def test_a_call_without_an_approval_is_left_out() -> None:
    own = [StoredItem({"type": "message", **USER})]
    assert items.messages(approved(), own, enabled=WITH_MCP) == [Message(Author(Role.USER), "hi")]


@pytest.mark.parametrize("message", [None, ASKED])
def test_an_approved_call_that_ran_has_its_result(message: Message | None) -> None:
    ran = StoredItem(MCP | {"approval_request_id": "mcpr_1"}, message, ANSWERED)
    history = approved(StoredItem(RESPONSE), ran)
    assert items.messages(history, [], enabled=WITH_MCP) == [ASKED, ANSWERED]


def test_an_approved_call_that_comes_back_is_replayed_with_what_the_model_read() -> None:
    ran = MCP | {"approval_request_id": "mcpr_1", "output": None, "error": {"type": "x"}}
    failed = replace(ANSWERED, content="The call took too long.")
    known = {"mcpr_1": StoredItem(REQUEST, ASKED), "mcp_1": StoredItem(ran, None, failed)}
    assert read([REQUEST, RESPONSE, ran], WITH_MCP, **known) == [ASKED, failed]
    changed = read([REQUEST, RESPONSE, ran | {"output": "none"}], WITH_MCP, **known)
    assert changed == [replace(ASKED, tokens=None), ANSWERED]


def test_a_refused_call_has_the_reason_as_its_result() -> None:
    refused = StoredItem(RESPONSE | {"approve": False, "reason": " too dear "})
    text = "The user refused this tool call. Do not repeat it unchanged. Reason: too dear"
    expected = [ASKED, replace(ANSWERED, content=text)]
    assert items.messages(approved(), [refused], enabled=WITH_MCP) == expected
    assert items.messages(approved(refused), [], enabled=WITH_MCP) == expected


@pytest.mark.parametrize("reason", [None, 1, "x" * 10_000])
def test_a_reason_is_short_text(reason: Any) -> None:
    assert len(refusal(reason)) < 5000
    assert ("Reason" in refusal(reason)) == isinstance(reason, str)


def test_a_request_that_was_not_stored_is_read_from_its_item() -> None:
    sent = [StoredItem(REQUEST), StoredItem(RESPONSE)]
    asked = replace(ASKED, tokens=None)
    assert items.messages([], sent, enabled=WITH_MCP) == [asked]
    ran = StoredItem(MCP | {"approval_request_id": "mcpr_1"})
    assert items.messages([], [*sent, ran], enabled=WITH_MCP) == [asked, ANSWERED]


def test_an_approved_call_whose_request_is_missing_is_read_from_its_item() -> None:
    ran = StoredItem(MCP | {"approval_request_id": "mcpr_1"}, None, ANSWERED)
    assert items.messages([], [ran]) == [replace(ASKED, tokens=None), ANSWERED]


# Input that is refused


@pytest.mark.parametrize("item", [LISTING, REQUEST, RESPONSE], ids=lambda item: item["type"])
def test_what_is_about_servers_is_never_refused(item: Any) -> None:
    assert items.resolve(items.normalise([item]), {}, unsupported="error")[0].item == item


def test_calls_of_this_server_are_never_refused() -> None:
    own = items.normalise([CODE, LISTING])
    known = KNOWN | {"mcpl_1": StoredItem(LISTING)}
    assert items.resolve(own, known, unsupported="error")[0].result == PRINTED


@pytest.mark.parametrize(("change", "known"), [({}, {}), ({"code": "x"}, KNOWN)])
def test_calls_from_elsewhere_may_be_refused(change: Any, known: Any) -> None:
    with pytest.raises(InvalidRequest) as caught:
        items.resolve(items.normalise([USER, CODE | change]), known, unsupported="error")
    assert (caught.value.param, caught.value.code) == ("input.1", "unsupported_input")
