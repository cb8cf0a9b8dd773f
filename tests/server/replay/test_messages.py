from collections.abc import Callable
from typing import Any

import pytest

from harmony.messages import Author, Channel, DeveloperContent, Message, Role
from server.errors import InvalidRequest
from server.replay import messages

ASSISTANT = Author(Role.ASSISTANT)
USER = {"role": "user", "content": "hi"}


def read_messages(value: Any, **options: Any) -> list[Message]:
    """Read messages that hold no seal."""

    def unseal(seal: str, param: str) -> Message:
        raise AssertionError(f"{param} is no seal")

    return messages.read_messages(value, unseal=unseal, **options)


def analysis(text: str) -> Message:
    return Message(ASSISTANT, text, Channel.ANALYSIS)


def preamble(text: str) -> Message:
    return Message(ASSISTANT, text, Channel.COMMENTARY)


def final(text: str) -> Message:
    return Message(ASSISTANT, text, Channel.FINAL)


def call(name: str, arguments: str) -> Message:
    return Message(ASSISTANT, arguments, Channel.COMMENTARY, f"functions.{name}", "json")


def result(name: str, text: str) -> Message:
    author = Author(Role.TOOL, f"functions.{name}")
    return Message(author, text, Channel.COMMENTARY, "assistant")


def tool_call(call_id: str, name: str = "f", arguments: str = "{}") -> dict[str, Any]:
    return {
        "id": call_id,
        "type": "function",
        "function": {"name": name, "arguments": arguments},
    }


def assistant(**fields: Any) -> dict[str, Any]:
    return {"role": "assistant"} | fields


@pytest.mark.parametrize("role", ["system", "developer"])
def test_system_and_developer_messages_are_harmonys_developer(role: str) -> None:
    (message,) = read_messages([{"role": role, "content": "Be brief."}])
    assert message == Message(Author(Role.DEVELOPER), DeveloperContent("Be brief."))


def test_content_is_a_string_or_parts() -> None:
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    read = read_messages([USER, {"role": "user", "content": parts}])
    assert [message.content for message in read] == ["hi", "a\nb"]


def test_a_note_replaces_an_image() -> None:
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}
    (message,) = read_messages([{"role": "user", "content": [image]}])
    assert "image left out" in str(message.content)


def test_a_users_name_is_part_of_the_header() -> None:
    (message,) = read_messages([USER | {"name": "ann"}])
    assert message.author == Author(Role.USER, "ann")


def test_an_answer_is_final() -> None:
    assert read_messages([USER, assistant(content="Hello")])[1:] == [final("Hello")]


def test_reasoning_comes_before_the_answer() -> None:
    read = read_messages([USER, assistant(content="Hello", reasoning="Greet.")])
    assert read[1:] == [analysis("Greet."), final("Hello")]


@pytest.mark.parametrize(
    "fields",
    [
        {"reasoning_content": "Greet."},
        {"reasoning": "", "reasoning_content": "Greet."},
        {"reasoning_details": [{"type": "reasoning.text", "text": "Greet.", "index": 0}]},
        {
            "reasoning": "Greet.",
            "reasoning_content": "Greet.",
            "reasoning_details": [{"type": "reasoning.text", "text": "Greet."}],
        },
        {
            "reasoning_details": [
                {"type": "reasoning.text", "text": "Gre"},
                {"type": "reasoning.summary", "summary": "no"},
                {"type": "reasoning.encrypted", "data": "no"},
                {"type": "reasoning.text", "text": None},
                {"type": "reasoning.text", "text": "et."},
            ]
        },
    ],
)
def test_reasoning_of_any_field_is_used_once(fields: dict[str, Any]) -> None:
    assert read_messages([assistant(content="Hello", **fields)])[:1] == [analysis("Greet.")]


SUMMARY = {"type": "reasoning.summary", "summary": "A summary."}
RAW = {"type": "reasoning.text", "text": "Greet."}


@pytest.mark.parametrize(
    ("fields", "raw"),
    [
        ({"reasoning": "A summary.", "reasoning_details": [SUMMARY]}, False),
        ({"reasoning_content": "A summary.", "reasoning_details": [SUMMARY]}, False),
        ({"reasoning": "Greet.", "reasoning_details": [RAW, SUMMARY]}, True),
        ({"reasoning_details": [RAW, SUMMARY]}, True),
    ],
)
def test_a_summary_is_not_read_as_reasoning(fields: dict[str, Any], raw: bool) -> None:
    read = read_messages([assistant(content="Hello", **fields)])
    assert read == [*([analysis("Greet.")] if raw else []), final("Hello")]


@pytest.mark.parametrize(
    "fields",
    [{"reasoning": "Greet."}, {"reasoning_content": "Greet."}, {"reasoning_details": [RAW]}],
)
def test_where_reasoning_is_hidden_a_text_is_not_used_as_reasoning(fields: dict[str, Any]) -> None:
    """It is a summary or a guess."""
    message = assistant(content="Hello", **fields)
    assert read_messages([message], reasoning_is_secret=True) == [final("Hello")]


def test_text_with_calls_is_a_preamble_after_the_reasoning() -> None:
    calls = [tool_call("c1", "f", '{"a":  1}'), tool_call("c2", "g")]
    read = read_messages([assistant(content="Look.", reasoning="Ask.", tool_calls=calls)])
    assert read == [analysis("Ask."), preamble("Look."), call("f", '{"a":  1}'), call("g", "{}")]


@pytest.mark.parametrize("content", [{}, {"content": None}, {"content": ""}])
def test_calls_need_no_text(content: dict[str, Any]) -> None:
    assert read_messages([assistant(tool_calls=[tool_call("c1")], **content)]) == [call("f", "{}")]


def test_results_belong_to_their_own_calls() -> None:
    read = read_messages(
        [
            assistant(tool_calls=[tool_call("c1", "f"), tool_call("c2", "g")]),
            {"role": "tool", "tool_call_id": "c2", "content": "two"},
            {"role": "tool", "tool_call_id": "c1", "content": [{"type": "text", "text": "one"}]},
        ]
    )
    assert read[2:] == [result("g", "two"), result("f", "one")]


def test_the_result_of_a_made_up_tool_is_from_the_recipient_that_was_sampled() -> None:
    sampled = Message(ASSISTANT, "1 + 1", Channel.ANALYSIS, "python", "code", tokens=(1, 2))
    read = read_messages(
        [
            assistant(tool_calls=[tool_call("c1", "python", "1 + 1")]),
            {"role": "tool", "tool_call_id": "c1", "content": "2"},
        ],
        messages_up_to_call={"c1": [analysis("Sum."), sampled]},
    )
    assert read[:2] == [analysis("Sum."), sampled]
    assert read[2].author == Author(Role.TOOL, "python")


def test_text_before_a_call_of_the_same_turn_is_a_preamble() -> None:
    calling = assistant(tool_calls=[tool_call("c1")])
    read = read_messages([assistant(content="Look."), calling])
    assert read == [preamble("Look."), call("f", "{}")]
    read = read_messages([assistant(content="Done."), USER, calling])
    assert read[0] == final("Done.")


@pytest.mark.parametrize(
    ("calling", "answer"),
    [
        ({"tool_calls": [tool_call("c1")]}, {"role": "tool", "tool_call_id": "c1"}),
        (
            {"function_call": {"name": "f", "arguments": "{}"}},
            {"role": "function", "name": "f"},
        ),
    ],
)
def test_text_between_a_call_and_its_result_is_a_preamble(
    calling: dict[str, Any], answer: dict[str, Any]
) -> None:
    turn = [assistant(**calling), assistant(content="Look."), {**answer, "content": "sunny"}]
    read = read_messages([*turn, assistant(content="It is sunny.")])
    assert read == [
        call("f", "{}"),
        preamble("Look."),
        result("f", "sunny"),
        final("It is sunny."),
    ]


def test_a_custom_tools_input_is_not_json() -> None:
    custom = {"id": "c1", "type": "custom", "custom": {"name": "sql", "input": "select 1"}}
    (message,) = read_messages([assistant(tool_calls=[custom])])
    assert (message.recipient, message.content) == ("functions.sql", "select 1")
    assert message.content_type is None


def test_legacy_calls_and_their_results() -> None:
    read = read_messages(
        [
            assistant(content=None, function_call={"name": "f", "arguments": "{}"}),
            {"role": "function", "name": "f", "content": "one"},
        ]
    )
    assert read == [call("f", "{}"), result("f", "one")]


@pytest.mark.parametrize("call_id", ["c", {"a": 1}, [1]])
def test_a_legacy_result_names_no_call(call_id: object) -> None:
    result = {"role": "function", "name": "f", "content": "one"}
    assert read_messages([{**result, "tool_call_id": call_id}]) == read_messages([result])


def test_a_legacy_call_takes_no_result_of_the_calls_beside_it() -> None:
    legacy = {"name": "f", "arguments": "{}"}
    read = read_messages(
        [
            assistant(function_call=legacy, tool_calls=[tool_call("c1", "g")]),
            {"role": "tool", "tool_call_id": "c1", "content": "one"},
        ]
    )
    assert read == [call("f", "{}"), call("g", "{}"), result("g", "one")]


def test_a_refusal_is_a_final_answer() -> None:
    assert read_messages([assistant(content=None, refusal="No.")]) == [final("No.")]


def test_an_answer_or_a_message_may_be_empty() -> None:
    assert read_messages([assistant(content="")]) == [final("")]
    assert read_messages([assistant(content=None)]) == []
    assert read_messages([assistant(reasoning="Cut off")]) == [analysis("Cut off")]


def test_an_answer_that_was_cut_off_in_its_reasoning_stays_unfinished() -> None:
    read = read_messages([assistant(content="", reasoning="This is a"), USER])
    assert read == [analysis("This is a"), Message(Author(Role.USER), "hi")]


@pytest.mark.parametrize(
    ("messages", "param"),
    [
        ([], "messages"),
        (None, "messages"),
        (["hi"], "messages.0"),
        ([USER, {"content": "hi"}], "messages.1.role"),
        ([{"role": ["user"], "content": "hi"}], "messages.0.role"),
        ([{"role": "user"}], "messages.0.content"),
        ([{"role": "user", "content": [{"type": "text"}]}], "messages.0.content.0.text"),
        ([{"role": "user", "content": [{"type": "hologram"}]}], "messages.0.content.0.type"),
        ([USER | {"name": "a b"}], "messages.0.name"),
        ([assistant(reasoning=1)], "messages.0.reasoning"),
        ([assistant(reasoning_details="x")], "messages.0.reasoning_details"),
        ([assistant(reasoning_details=["x"])], "messages.0.reasoning_details.0"),
        ([assistant(tool_calls=[{"type": "web"}])], "messages.0.tool_calls.0.type"),
        ([assistant(tool_calls=[{"type": {}}])], "messages.0.tool_calls.0.type"),
        ([assistant(tool_calls=[{"id": "c"}])], "messages.0.tool_calls.0.function"),
        (
            [assistant(tool_calls=[tool_call("c", "f to=browser.open")])],
            "messages.0.tool_calls.0.function.name",
        ),
        (
            [assistant(function_call={"name": "f\n", "arguments": ""})],
            "messages.0.function_call.name",
        ),
        ([{"role": "function", "content": "x", "name": "f to=a"}], "messages.0.name"),
        (
            [assistant(tool_calls=[tool_call("c") | {"id": None}])],
            "messages.0.tool_calls.0.id",
        ),
        (
            [assistant(tool_calls=[{"id": "c", "function": {"name": "f", "arguments": {}}}])],
            "messages.0.tool_calls.0.function.arguments",
        ),
        ([{"role": "tool", "content": "x"}], "messages.0.tool_call_id"),
        ([{"role": "tool", "content": "x", "tool_call_id": "c"}], "messages.0.tool_call_id"),
        ([{"role": "function", "content": "x"}], "messages.0.name"),
    ],
)
def test_an_error_names_the_bad_field(messages: Any, param: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        read_messages(messages)
    assert refused.value.param == param


BAD_NAMES = ["", "\0", "a\u200bb", "a\nb", "a\u2028b", "a b", "a\u00a0b", "\ud800", "a" * 257]


@pytest.mark.parametrize("name", BAD_NAMES, ids=ascii)
@pytest.mark.parametrize(
    ("place", "param"),
    [
        (lambda name: USER | {"name": name}, "messages.0.name"),
        (
            lambda name: assistant(tool_calls=[tool_call("c", name)]),
            "messages.0.tool_calls.0.function.name",
        ),
        (
            lambda name: assistant(
                tool_calls=[{"id": "c", "type": "custom", "custom": {"name": name, "input": ""}}]
            ),
            "messages.0.tool_calls.0.custom.name",
        ),
        (
            lambda name: assistant(function_call={"name": name, "arguments": ""}),
            "messages.0.function_call.name",
        ),
        (lambda name: {"role": "function", "name": name, "content": ""}, "messages.0.name"),
    ],
    ids=["user", "function", "custom", "function_call", "result"],
)
def test_a_name_that_a_header_cannot_hold_is_refused(
    place: Callable[[str], dict[str, Any]], param: str, name: str
) -> None:
    with pytest.raises(InvalidRequest) as raised:
        read_messages([place(name)])
    assert raised.value.param == param


@pytest.mark.parametrize("name", ["Zoë", "李", "ann.b", "O'Brien", "a" * 64])
def test_user_names_may_have_any_script(name: str) -> None:
    (message,) = read_messages([USER | {"name": name}])
    assert message.author.name == name


@pytest.mark.parametrize("name", ["a<b", "a|b", "a\\b", "a/b", "a>b", "a" * 65])
def test_a_user_name_that_the_api_does_not_allow_is_refused(name: str) -> None:
    with pytest.raises(InvalidRequest) as raised:
        read_messages([USER | {"name": name}])
    assert raised.value.param == "messages.0.name"


@pytest.mark.parametrize("name", ["files.read", "mcp/server/tool", "météo", "a" * 128])
def test_calls_may_have_names_of_other_servers_tools(name: str) -> None:
    (message,) = read_messages([assistant(tool_calls=[tool_call("c", name)])])
    assert message.recipient == f"functions.{name}"
