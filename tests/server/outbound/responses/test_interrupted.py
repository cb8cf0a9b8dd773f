"""The last events of a response whose server stopped."""

from typing import Any

import orjson
import pytest

from adapters.base import TokenLogprobs
from harmony.events import Header, MessageStarted
from harmony.messages import Author, Channel, Conversation, Message, Role
from server.errors import ServerFailed
from server.generation.plan import DeclaredTool, TurnPlan
from server.generation.turn_events import MessageClosed, TextDelta, TurnFinished, Usage
from server.outbound.responses.events import ResponsesOutbound
from server.outbound.responses.interrupted import REASON, end_interrupted, is_interrupted

STARTED: dict[str, Any] = {"id": "resp_1", "status": "in_progress", "output": []}
BEGUN = [
    {"type": "response.created", "response": STARTED, "sequence_number": 0},
    {"type": "response.in_progress", "response": STARTED, "sequence_number": 1},
]


def numbered(*events: dict[str, Any]) -> list[dict[str, Any]]:
    known = [*BEGUN, *events]
    return [{**event, "sequence_number": number} for number, event in enumerate(known)]


def test_a_response_without_events_gets_its_first_and_last_events() -> None:
    events = end_interrupted(STARTED, [])
    assert events[:2] == BEGUN
    assert [event["type"] for event in events[2:]] == ["error", "response.failed"]
    assert events[-1]["response"]["error"] == {"code": "server_error", "message": REASON}


def test_a_response_that_waited_is_in_progress_before_it_fails() -> None:
    first, second, *_ = end_interrupted({**STARTED, "status": "queued"}, [])
    assert first["response"]["status"] == "queued"
    assert second["response"]["status"] == "in_progress"


def test_completed_items_stay() -> None:
    item = {"id": "msg_1", "type": "message", "status": "completed", "content": []}
    known = numbered(
        {"type": "response.output_item.added", "output_index": 0, "item": item},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
    )
    events = end_interrupted(STARTED, known)
    assert events[:4] == known
    assert [event["sequence_number"] for event in events] == list(range(6))
    assert events[-1]["response"]["output"] == [item]


def test_an_open_message_gets_no_annotations_of_another() -> None:
    first: dict[str, Any] = {"id": "msg_1", "type": "message", "content": []}
    second = {**first, "id": "msg_2"}
    noted = "response.output_text.annotation.added"
    known = numbered(
        {"type": "response.output_item.added", "output_index": 0, "item": first},
        {"type": noted, "item_id": "msg_1", "annotation": {"type": "url_citation"}},
        {"type": "response.output_item.done", "output_index": 0, "item": first},
        {"type": "response.output_item.added", "output_index": 1, "item": second},
    )
    (part,) = end_interrupted(STARTED, known)[-1]["response"]["output"][1]["content"]
    assert part["annotations"] == []


@pytest.mark.parametrize("texts", [(), ("a",), ("a", "b")])
@pytest.mark.parametrize(
    "header",
    [
        Header(Channel.ANALYSIS),
        Header(Channel.COMMENTARY),
        Header(Channel.FINAL),
        Header(Channel.COMMENTARY, "functions.f"),
        Header(Channel.COMMENTARY, "functions.sql"),
    ],
)
def test_an_open_item_ends_as_in_a_response_that_fails(
    header: Header, texts: tuple[str, ...]
) -> None:
    tools = (DeclaredTool("functions.f", "f"), DeclaredTool("functions.sql", "sql", "custom"))
    outbound = ResponsesOutbound(STARTED, TurnPlan(Conversation(()), tools=tools))
    known = [*outbound.start(), *outbound.push(MessageStarted(0, header))]
    for text in texts:
        known += outbound.push(TextDelta(0, text, (TokenLogprobs(1, -0.5),)))
    failed = outbound.fail(ServerFailed(REASON))
    assert orjson.dumps(end_interrupted(STARTED, known)) == orjson.dumps(known + failed)


def test_reasoning_that_is_hidden_has_no_content() -> None:
    outbound = ResponsesOutbound(STARTED, TurnPlan(Conversation(())), hide_reasoning=True)
    known = [*outbound.start(), *outbound.push(MessageStarted(0, Header(Channel.ANALYSIS)))]
    known += outbound.push(TextDelta(0, "secret"))
    assert end_interrupted(STARTED, known) == known + outbound.fail(ServerFailed(REASON))


def test_an_open_item_has_no_text_of_the_items_before_it() -> None:
    outbound = ResponsesOutbound(STARTED, TurnPlan(Conversation(())))
    header = Header(Channel.COMMENTARY)
    first = Message(Author(Role.ASSISTANT), "a", Channel.COMMENTARY)
    known = [*outbound.start(), *outbound.push(MessageStarted(0, header))]
    known += outbound.push(TextDelta(0, "a", (TokenLogprobs(1, -0.5),)))
    known += outbound.push(MessageClosed(0, header, first, complete=True))
    known += outbound.push(MessageStarted(1, Header(Channel.FINAL)))
    known += outbound.push(TextDelta(1, "b"))
    assert end_interrupted(STARTED, known) == known + outbound.fail(ServerFailed(REASON))


def test_an_event_that_was_stored_is_not_repeated() -> None:
    outbound = ResponsesOutbound(STARTED, TurnPlan(Conversation(())))
    known = [*outbound.start(), *outbound.push(MessageStarted(0, Header(Channel.FINAL)))]
    known += outbound.push(TextDelta(0, "a"))
    done, *rest = outbound.fail(ServerFailed(REASON))
    assert done["type"] == "response.output_text.done"
    assert end_interrupted(STARTED, [*known, done]) == [*known, done, *rest]


def test_the_end_of_an_interrupted_response_is_recognised() -> None:
    outbound = ResponsesOutbound(STARTED, TurnPlan(Conversation(())))
    assert is_interrupted(end_interrupted(STARTED, outbound.start())[-1])
    assert not is_interrupted(outbound.start()[-1])
    assert not is_interrupted(outbound.fail(ServerFailed("broke"))[-1])
    assert not is_interrupted(outbound.push(TurnFinished("stop", Usage(1)))[-1])
