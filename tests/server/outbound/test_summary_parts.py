"""Parts of summaries as events and fields of both APIs."""

from typing import Any

import pytest

from harmony.events import Header, MessageStarted
from harmony.messages import Author, Channel, Conversation, Message, Role
from server.errors import ServerFailed
from server.generation.plan import TurnPlan
from server.generation.turn_events import (
    MessageClosed,
    SummaryTotals,
    SummaryWritten,
    TextDelta,
    TurnEvent,
    TurnFinished,
    Usage,
)
from server.outbound.chat import fold as chat_fold
from server.outbound.chat.chunks import ChatOutbound, ChatRenderOptions
from server.outbound.redacted import redacted_completion, redacted_event, redacted_item
from server.outbound.responses.events import ResponsesOutbound
from server.outbound.responses.interrupted import REASON, end_interrupted
from server.outbound.usage import summary_usage
from server.summaries.base import SummaryUsage

Event = dict[str, Any]

STARTED: Event = {"id": "resp_1", "status": "in_progress", "output": []}
ANALYSIS = Header(Channel.ANALYSIS)
PLAN = TurnPlan(Conversation(()))
PART = SummaryWritten("**Adding**\n\nIt adds.\n\nThen it stops.")
QUOTE = SummaryWritten("**Raw**\n\nRaw words.", quotes=True)
LATE = SummaryWritten("", complete=False)
SHARED = {"id": "c", "object": "chat.completion.chunk"}


def reasoning(*parts: SummaryWritten) -> list[TurnEvent]:
    message = Message(Author(Role.ASSISTANT), "Raw words.", Channel.ANALYSIS)
    return [
        MessageStarted(0, ANALYSIS),
        TextDelta(0, "Raw "),
        *parts,
        TextDelta(0, "words."),
        MessageClosed(0, ANALYSIS, message, complete=True),
    ]


def events_of(*turn: TurnEvent, **options: Any) -> list[Event]:
    outbound = ResponsesOutbound(STARTED, PLAN, **options)
    return [*outbound.start(), *(wire for event in turn for wire in outbound.push(event))]


def kinds(events: list[Event]) -> list[str]:
    return [event["type"].removeprefix("response.") for event in events]


def test_a_part_has_its_events_in_the_specified_order() -> None:
    events = events_of(*reasoning(PART))
    assert kinds(events)[2:] == [
        "output_item.added",
        "content_part.added",
        "reasoning_text.delta",
        "reasoning_summary_part.added",
        "reasoning_summary_text.delta",
        "reasoning_summary_text.delta",
        "reasoning_summary_text.delta",
        "reasoning_summary_text.done",
        "reasoning_summary_part.done",
        "reasoning_text.delta",
        "reasoning_text.done",
        "content_part.done",
        "output_item.done",
    ]
    deltas = [event["delta"] for event in events if "summary_text.delta" in event["type"]]
    assert deltas == ["**Adding**\n\n", "It adds.\n\n", "Then it stops."]
    assert events[-1]["item"]["summary"] == [{"type": "summary_text", "text": PART.text}]
    assert "status" not in next(e for e in events if e["type"].endswith("summary_part.done"))


def test_parts_are_numbered_within_their_item() -> None:
    events = events_of(*reasoning(PART, PART), *reasoning(PART))
    added = [e for e in events if e["type"] == "response.reasoning_summary_part.added"]
    assert [(e["output_index"], e["summary_index"]) for e in added] == [(0, 0), (0, 1), (1, 0)]


def test_a_late_part_is_empty_and_incomplete() -> None:
    events = events_of(*reasoning(LATE), hide_reasoning=True)
    assert kinds(events)[3:-1] == [
        "reasoning_summary_part.added",
        "reasoning_summary_text.done",
        "reasoning_summary_part.done",
    ]
    assert events[-2]["status"] == "incomplete"
    assert events[-1]["item"]["status"] == "completed"
    assert events[-1]["item"]["summary"] == [{"type": "summary_text", "text": ""}]


def test_an_item_that_ends_early_keeps_its_summary() -> None:
    outbound = ResponsesOutbound(STARTED, PLAN)
    for event in (MessageStarted(0, ANALYSIS), PART):
        outbound.push(event)
    item = outbound.fail(ServerFailed("broke"))[0]["item"]
    assert (item["status"], len(item["summary"])) == ("incomplete", 1)


@pytest.mark.parametrize("part", [PART, QUOTE])
@pytest.mark.parametrize("hidden", [True, False])
def test_an_interrupted_item_keeps_what_is_stored_of_its_summary(
    part: SummaryWritten, hidden: bool
) -> None:
    """Whatever the last stored event is, the parts that began end, and the item has their text."""
    known = events_of(*reasoning(part, part)[:-1], hide_reasoning=hidden)
    for stored in range(3, len(known) + 1):
        events = end_interrupted(STARTED, known[:stored])
        (item,) = events[-1]["response"]["output"]
        texts = ["", ""]
        for event in events:
            if event["type"] == "response.reasoning_summary_text.delta":
                texts[event["summary_index"]] += event["delta"]
        began = kinds(events).count("reasoning_summary_part.added")
        assert [each["text"] for each in item["summary"]] == texts[:began]
        assert kinds(events).count("reasoning_summary_text.done") == began
        assert kinds(events).count("reasoning_summary_part.done") == began
        ended = [e for e in events[stored:] if e["type"].endswith("summary_part.done")]
        assert all(event["status"] == "incomplete" for event in ended)
        assert kinds(events).index("output_item.done") > max(
            (i for i, kind in enumerate(kinds(events)) if "summary" in kind), default=0
        )
        assert bool(item.get("gpt_oss:quotes_reasoning")) == (part is QUOTE and began > 0)
    failed = ResponsesOutbound(STARTED, PLAN, hide_reasoning=hidden)
    whole = [*failed.start(), *(w for e in reasoning(part, part)[:-1] for w in failed.push(e))]
    assert end_interrupted(STARTED, whole) == whole + failed.fail(ServerFailed(REASON))


def test_a_server_that_hides_reasoning_removes_quotes_only() -> None:
    quoted, written = events_of(*reasoning(QUOTE)), events_of(*reasoning(PART))
    hidden = [redacted_event(event) for event in quoted]
    assert "Raw" not in str(hidden)
    assert [event["sequence_number"] for event in hidden] == list(range(len(quoted)))
    assert redacted_item(quoted[-1]["item"])["summary"] == [{"type": "summary_text", "text": ""}]
    shown = [redacted_event(event) for event in written]
    assert "Raw" not in str(shown)
    assert [e for e in shown if "summary" in e["type"]] == [
        e for e in written if "summary" in e["type"]
    ]
    assert redacted_item(written[-1]["item"])["summary"] == written[-1]["item"]["summary"]


def completion(*turn: TurnEvent, **options: Any) -> Event:
    outbound = ChatOutbound(SHARED, PLAN, ChatRenderOptions(**options))
    chunks = [*outbound.start(), *(chunk for event in turn for chunk in outbound.push(event))]
    finished = outbound.push(TurnFinished("stop", Usage(1)))
    return chat_fold.fold([*chunks, *finished])


def test_chat_has_an_entry_for_each_part() -> None:
    message = completion(*reasoning(PART, PART))["choices"][0]["message"]
    assert message["reasoning"] == "Raw words."
    text, *summaries = message["reasoning_details"]
    assert (text["type"], text["index"]) == ("reasoning.text", 0)
    assert [(each["summary"], each["index"]) for each in summaries] == [
        (PART.text, 1),
        (PART.text, 2),
    ]
    assert len({each["id"] for each in summaries}) == 2


def test_chat_has_the_summary_as_reasoning_where_that_is_hidden() -> None:
    message = completion(*reasoning(PART, LATE, PART), hide_reasoning=True, alias=True)["choices"][
        0
    ]["message"]
    whole = f"{PART.text}\n\n{PART.text}"
    assert (message["reasoning"], message["reasoning_content"]) == (whole, whole)
    assert [each["type"] for each in message["reasoning_details"]] == ["reasoning.summary"] * 2


@pytest.mark.parametrize("hidden", [True, False])
def test_a_stored_completion_keeps_summaries_of_a_model(hidden: bool) -> None:
    made = completion(*reasoning(PART, PART), hide_reasoning=hidden)
    message = redacted_completion(made)["choices"][0]["message"]
    assert message["reasoning"] == f"{PART.text}\n\n{PART.text}"
    assert "reasoning_content" not in message
    assert [each["type"] for each in message["reasoning_details"]] == ["reasoning.summary"] * 2


def test_a_stored_completion_loses_quotes() -> None:
    message = redacted_completion(completion(*reasoning(QUOTE)))["choices"][0]["message"]
    assert "Raw" not in str(message)
    assert "reasoning" not in message


def test_the_usage_of_summaries_is_the_sum_of_all_answers() -> None:
    assert summary_usage([None]) == {}
    totals = SummaryTotals(SummaryUsage(5, 2), {"written": 1, "late": 1})
    assert summary_usage([totals, None, totals]) == {
        "gpt_oss:summary_usage": {
            "input_tokens": 10,
            "output_tokens": 4,
            "total_tokens": 14,
            "parts": {"written": 2, "withheld": 0, "skipped": 0, "failed": 0, "late": 2},
        }
    }
