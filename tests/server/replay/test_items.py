"""Items of the Responses API as harmony messages."""

from typing import Any

import pytest

from harmony.messages import Author, Channel, DeveloperContent, Message, Role
from server.errors import InvalidRequest, NotFound
from server.replay import items, unsupported_items
from server.schemas.limits import MAX_ITEMS, MAX_LABEL
from server.store.items import StoredItem

LONG = "x" * (MAX_LABEL + 1)
USER = {"role": "user", "content": "hi"}
CALL = {"type": "function_call", "call_id": "call_1", "name": "f", "arguments": '{"a": 1}'}
RESULT = {"type": "function_call_output", "call_id": "call_1", "output": "sunny"}


def read(value: Any, **known: StoredItem) -> list[Message]:
    return items.messages((), items.resolve(items.normalise(value), known))


def text(message: Message) -> str:
    content = message.content
    return content.instructions or "" if isinstance(content, DeveloperContent) else str(content)


def assistant(content: str, channel: Channel, **header: Any) -> Message:
    return Message(Author(Role.ASSISTANT), content, channel, **header)


def test_a_string_is_a_user_message() -> None:
    (item,) = items.normalise("hello")
    assert item["type"] == "message"
    assert item["id"].startswith("msg_")
    assert read("hello") == [Message(Author(Role.USER), "hello")]


@pytest.mark.parametrize("nothing", [None, "", []])
def test_empty_input_has_no_items(nothing: Any) -> None:
    assert items.normalise(nothing) == []


def test_an_input_of_another_type_is_named_with_what_it_may_be() -> None:
    with pytest.raises(InvalidRequest, match="expected a string or an array, but got an integer"):
        items.normalise(5)


CUSTOM_CALL = {"type": "custom_tool_call", "call_id": "c", "name": "sql", "input": "select 1"}
WITH_STATUS = [
    *(
        USER,
        CALL,
        RESULT,
        CUSTOM_CALL,
        {"type": "reasoning", "summary": []},
        {"type": "compaction"},
    ),
    {"type": "custom_tool_call_output", "call_id": "c", "output": "1"},
    *({"type": kind} for kind in sorted(unsupported_items.KINDS)),
]


@pytest.mark.parametrize("item", WITH_STATUS, ids=str)
@pytest.mark.parametrize("status", ["AAA", "", "queued", 1, [], {"a": "completed"}, False])
def test_an_unknown_status_is_refused(item: dict[str, Any], status: object) -> None:
    with pytest.raises(InvalidRequest) as raised:
        items.normalise([USER, item | {"status": status}])
    assert raised.value.param == "input.1.status"


@pytest.mark.parametrize("item", WITH_STATUS, ids=str)
@pytest.mark.parametrize("status", items.STATUSES)
def test_a_known_status_is_unchanged(item: dict[str, Any], status: str) -> None:
    (normal,) = items.normalise([item | {"status": status}])
    assert normal["status"] == status


@pytest.mark.parametrize("item", WITH_STATUS, ids=str)
def test_a_null_status_is_removed(item: dict[str, Any]) -> None:
    (normal,) = items.normalise([item | {"status": None}])
    assert "status" not in normal


def test_only_items_of_hosted_tools_may_have_failed() -> None:
    failed = {"type": "web_search_call", "status": "failed"}
    assert items.normalise([failed])[0]["status"] == "failed"
    with pytest.raises(InvalidRequest):
        items.normalise([CALL | {"status": "failed"}])


@pytest.mark.parametrize("role", ["system", "developer"])
def test_system_and_developer_messages_are_harmonys_developer(role: str) -> None:
    (message,) = read([{"role": role, "content": [{"type": "input_text", "text": "Be kind."}]}])
    assert message == Message(Author(Role.DEVELOPER), DeveloperContent("Be kind."))


@pytest.mark.parametrize(
    ("phase", "channel"),
    [("commentary", Channel.COMMENTARY), ("final_answer", Channel.FINAL)],
)
def test_a_phase_decides_the_channel(phase: str, channel: Channel) -> None:
    parts = [{"type": "output_text", "text": "a"}, {"type": "output_text", "text": "b"}]
    assert read([{"role": "assistant", "content": parts, "phase": phase}]) == [
        assistant("ab", channel)
    ]


def test_without_a_phase_a_message_before_a_call_is_commentary() -> None:
    message = {"role": "assistant", "content": "…"}
    read_items = read(
        [message, USER, message, {"type": "reasoning", "summary": []}, CALL, RESULT, message]
    )
    assert [m.channel for m in read_items if m.author.role is Role.ASSISTANT] == [
        Channel.FINAL,
        Channel.COMMENTARY,
        Channel.COMMENTARY,
        Channel.FINAL,
    ]


def test_without_a_phase_a_message_between_a_call_and_its_result_is_commentary() -> None:
    """Some clients send a turn's calls before its text."""
    _, message, _ = read([CALL, {"role": "assistant", "content": "Let me see."}, RESULT])
    assert message == assistant("Let me see.", Channel.COMMENTARY)


def test_a_call_and_its_result() -> None:
    assert read([CALL, RESULT]) == [
        assistant('{"a": 1}', Channel.COMMENTARY, recipient="functions.f", content_type="json"),
        Message(Author(Role.TOOL, "functions.f"), "sunny", Channel.COMMENTARY, "assistant"),
    ]


@pytest.mark.parametrize("call", [CALL, CUSTOM_CALL | {"call_id": "call_1"}])
def test_a_call_that_was_cut_off_is_left_out_without_a_result(call: dict[str, Any]) -> None:
    cut = call | {"status": "incomplete"}
    assert read([cut, USER]) == read([USER])
    assert read([cut, RESULT]) == read([call, RESULT])
    assert read([call, USER])[0].recipient is not None


def test_a_message_before_a_call_that_was_cut_off_is_an_answer() -> None:
    said = {"role": "assistant", "content": "I will look."}
    assert read([said, CALL | {"status": "incomplete"}, USER]) == read([said, USER])


def test_results_belong_to_their_own_calls() -> None:
    other = CALL | {"call_id": "call_2", "name": "g"}
    read_items = read([CALL, other, RESULT | {"call_id": "call_2"}, RESULT])
    assert [m.author.name for m in read_items[2:]] == ["functions.g", "functions.f"]


def test_a_namespaced_call_has_its_namespace_in_the_recipient() -> None:
    (message,) = read([CALL | {"namespace": "mail"}])
    assert message.recipient == "functions.mail__f"


def test_a_custom_call_is_free_text() -> None:
    call = {"type": "custom_tool_call", "call_id": "c", "name": "sql", "input": "select 1"}
    result = {
        "type": "custom_tool_call_output",
        "call_id": "c",
        "output": [{"type": "input_text", "text": "1"}],
    }
    assert read([call, result]) == [
        assistant("select 1", Channel.COMMENTARY, recipient="functions.sql"),
        Message(Author(Role.TOOL, "functions.sql"), "1", Channel.COMMENTARY, "assistant"),
    ]


def test_raw_reasoning_is_analysis() -> None:
    content = [{"type": "reasoning_text", "text": "Hm."}]
    assert read([{"type": "reasoning", "summary": [], "content": content}]) == [
        assistant("Hm.", Channel.ANALYSIS)
    ]


def test_where_reasoning_is_hidden_a_text_is_not_used_as_reasoning() -> None:
    """Neither in a request nor among the items of a conversation."""
    content = [{"type": "reasoning_text", "text": "Hm."}]
    guess = StoredItem({"type": "reasoning", "id": "a", "summary": [], "content": content})
    sampled = Message(Author(Role.ASSISTANT), "Plan.", Channel.ANALYSIS, tokens=(1,))
    known = StoredItem({"type": "reasoning", "id": "b", "summary": []}, sampled)
    history = [guess, known]
    assert items.messages(history, history, reasoning_is_secret=True) == [sampled, sampled]


@pytest.mark.parametrize("content", [{}, {"content": None}, {"content": []}])
def test_reasoning_without_text_is_ignored(content: Any) -> None:
    summary = [{"type": "summary_text", "text": "It thought."}]
    item = {"type": "reasoning", "summary": summary, "encrypted_content": None, **content}
    assert read([item]) == []


def test_a_summary_in_the_content_is_not_read() -> None:
    summary = {"type": "summary_text", "text": "It thought."}
    raw = {"type": "reasoning_text", "text": "Think."}
    for content, texts in (([summary], []), ([summary, raw], ["Think."])):
        messages = read([{"type": "reasoning", "summary": [], "content": content}])
        assert [message.content for message in messages] == texts


def test_a_reference_stands_for_the_stored_item() -> None:
    sampled = assistant("Hello.", Channel.FINAL, tokens=(1, 2))
    stored = StoredItem({"type": "message", "id": "msg_1", "role": "assistant"}, sampled)
    assert read([{"type": "item_reference", "id": "msg_1"}], msg_1=stored) == [sampled]
    assert read([{"id": "msg_1"}], msg_1=stored) == [sampled]


def test_a_reference_to_an_unknown_item_is_not_found() -> None:
    with pytest.raises(NotFound) as caught:
        read([USER, {"type": "item_reference", "id": "msg_9"}])
    assert caught.value.param == "input.1.id"


@pytest.mark.parametrize(
    ("item", "param"),
    [
        ({"role": "user", "content": [{"type": "input_image"}]}, "input.0.content.0"),
        ({"type": "web_search_call", "id": "ws_1"}, "input.0"),
    ],
)
@pytest.mark.parametrize("referred", [False, True])
def test_unreadable_input_is_refused_if_so_configured(
    item: Any, param: str, referred: bool
) -> None:
    (whole,) = items.normalise([item])
    request_items = (
        items.normalise([{"type": "item_reference", "id": "x"}]) if referred else [whole]
    )
    with pytest.raises(InvalidRequest) as caught:
        items.resolve(request_items, {"x": StoredItem(whole)}, unsupported="error")
    assert (caught.value.param, caught.value.code) == (param, "unsupported_input")


SAMPLED: dict[str, tuple[Any, Message]] = {
    "message": (
        {"type": "message", "id": "x", "role": "assistant", "phase": "commentary"}
        | {"content": [{"type": "output_text", "text": "one"}]},
        assistant("one", Channel.COMMENTARY, tokens=(1,)),
    ),
    "reasoning": (
        {"type": "reasoning", "id": "x", "summary": []}
        | {"content": [{"type": "reasoning_text", "text": "one"}]},
        assistant("one", Channel.ANALYSIS, tokens=(2,)),
    ),
    "function_call": (
        CALL | {"id": "x"},
        assistant('{"a": 1}', Channel.ANALYSIS, recipient="functions.f", tokens=(3,)),
    ),
}


@pytest.mark.parametrize("kind", SAMPLED)
def test_an_unchanged_item_is_the_sampled_message(kind: str) -> None:
    item, sampled = SAMPLED[kind]
    assert read([item], x=StoredItem(item, sampled)) == [sampled]


def test_arguments_may_come_back_in_another_format() -> None:
    item, sampled = SAMPLED["function_call"]
    assert read([item | {"arguments": '{"a":1}'}], x=StoredItem(item, sampled)) == [sampled]


def test_a_message_may_come_back_without_its_phase() -> None:
    item, sampled = SAMPLED["message"]
    bare = {key: value for key, value in item.items() if key != "phase"}
    assert read([bare], x=StoredItem(item, sampled)) == [sampled]


def test_a_message_comes_back_with_links_for_its_citation_markers() -> None:
    item, _ = SAMPLED["message"]
    sampled = assistant("one【1†L0】", Channel.COMMENTARY, tokens=(1,))
    linked = item | {"content": "one ([a.example](https://a.example))"}
    assert read([linked], x=StoredItem(linked, sampled)) == [sampled]


def test_reasoning_without_its_text_is_restored() -> None:
    item, sampled = SAMPLED["reasoning"]
    assert read([item | {"content": []}], x=StoredItem(item, sampled)) == [sampled]


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        ("message", {"content": "two"}),
        ("message", {"phase": "final_answer"}),
        ("message", {"role": "user"}),
        ("reasoning", {"content": [{"type": "reasoning_text", "text": "two"}]}),
        ("function_call", {"arguments": '{"a": 1.0}'}),
        ("function_call", {"name": "g"}),
        ("function_call", {"namespace": "n"}),
    ],
)
def test_a_changed_item_is_rendered_without_sampled_tokens(
    kind: str, change: dict[str, Any]
) -> None:
    item, sampled = SAMPLED[kind]
    (message,) = read([item | change], x=StoredItem(item, sampled))
    assert message.tokens is None
    assert message != sampled


def test_an_item_without_a_sampled_message_is_read() -> None:
    item = {"type": "message", "id": "x", **USER}
    assert read([item], x=StoredItem(item)) == [Message(Author(Role.USER), "hi")]


def test_a_result_may_follow_a_call_of_an_earlier_turn() -> None:
    call, sampled = SAMPLED["function_call"]
    received = items.resolve(items.normalise([RESULT]), {})
    read_items = items.messages((StoredItem(call, sampled),), received)
    assert [text(m) for m in read_items] == ['{"a": 1}', "sunny"]
    assert read_items[1].author.name == "functions.f"


def test_an_earlier_result_whose_call_was_deleted_is_skipped() -> None:
    history = items.resolve(items.normalise([USER, RESULT, USER]), {})
    read_items = items.messages(history, ())
    assert [text(m) for m in read_items] == ["hi", "hi"]


@pytest.mark.parametrize(
    ("value", "param"),
    [
        (3, "input"),
        ([3], "input.0"),
        ([{"type": 3}], "input.0.type"),
        ([USER, {"type": "telepathy_call", "id": "t_1"}], "input.1.type"),
        ([{"type": "item_reference"}], "input.0.id"),
        ([USER | {"id": 3}], "input.0.id"),
        ([{}], "input.0.role"),
        ([{"role": "robot", "content": ""}], "input.0.role"),
        ([{"role": "user"}], "input.0.content"),
        ([USER, {"role": "user", "content": [{"type": "blob"}]}], "input.1.content.0.type"),
        ([{"role": "assistant", "content": "", "phase": "x"}], "input.0.phase"),
        ([{"type": "reasoning", "content": 3}], "input.0.content"),
        ([CALL | {"call_id": None}], "input.0.call_id"),
        ([CALL | {"name": None}], "input.0.name"),
        ([CALL | {"name": "f to=browser.open"}], "input.0.name"),
        ([CALL | {"namespace": "a\n"}], "input.0.namespace"),
        ([CALL | {"arguments": {"a": 1}}], "input.0.arguments"),
        ([RESULT], "input.0.call_id"),
        ([CALL, RESULT | {"output": None}], "input.1.output"),
    ],
)
def test_an_error_names_the_bad_field(value: Any, param: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        read(value)
    assert caught.value.param == param


@pytest.mark.parametrize(
    "name", ["", "\0", "a\u200bb", "a\u2029b", "a b", "\ud800", "a" * 257], ids=ascii
)
@pytest.mark.parametrize("item", [CALL, CUSTOM_CALL], ids=["function", "custom"])
@pytest.mark.parametrize("field", ["name", "namespace"])
def test_a_name_that_a_header_cannot_hold_is_refused(
    item: dict[str, Any], field: str, name: str
) -> None:
    with pytest.raises(InvalidRequest) as raised:
        read([item | {field: name}])
    assert raised.value.param == f"input.0.{field}"


@pytest.mark.parametrize(
    "item",
    [
        USER | {"id": "a"},
        {"type": "reasoning", "id": "a", "encrypted_content": "x"},
        {"type": "item_reference", "id": "a"},
    ],
    ids=["message", "reasoning", "reference"],
)
def test_two_items_with_the_same_id_are_refused(item: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest) as raised:
        items.normalise([item, USER, item])
    assert (raised.value.param, raised.value.code) == ("input.2.id", "duplicate_item")


def test_an_item_with_the_id_of_an_earlier_one_is_refused() -> None:
    with pytest.raises(InvalidRequest) as raised:
        items.refuse_equal_ids([USER | {"id": "b"}, USER | {"id": "a"}], [StoredItem({"id": "a"})])
    assert (raised.value.param, raised.value.code) == ("input.1.id", "duplicate_item")


def test_a_long_id_is_not_repeated_in_the_error() -> None:
    with pytest.raises(InvalidRequest) as raised:
        items.normalise([USER | {"id": "a" * 10_000}] * 2)
    assert len(raised.value.message) < 200


def test_each_item_without_an_id_gets_one() -> None:
    first, second, third = items.normalise([USER, USER | {"id": None}, USER | {"id": ""}])
    assert len({first["id"], second["id"], third["id"]}) == 3


@pytest.mark.parametrize(
    ("value", "param"),
    [
        ([USER] * (MAX_ITEMS + 1), "input"),
        ([{**USER, "id": LONG}], "input.0.id"),
        ([{**CALL, "call_id": LONG}], "input.0.call_id"),
        ([{**CALL, "name": LONG}], "input.0.name"),
        ([CALL, {**RESULT, "call_id": LONG}], "input.1.call_id"),
    ],
)
def test_the_number_of_items_and_their_ids_are_limited(value: Any, param: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        read(value)
    assert refused.value.param == param
