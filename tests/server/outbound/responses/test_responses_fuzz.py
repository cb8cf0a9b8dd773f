"""Any sampled tokens give valid events, whose deltas join to the items' texts."""

from collections import defaultdict
from itertools import cycle
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from openai.types.responses import Response

from adapters.base import GenerationChunk
from harmony.messages import Channel
from harmony.parser import Parser
from harmony.tokenizer import encode_with_control
from server.errors import ServerFailed
from server.generation.turn_events import SummaryWritten, TurnReader
from server.outbound.responses.events import ResponsesOutbound
from server.outbound.responses.fold import fold
from server.outbound.responses.interrupted import end_interrupted
from tests.server.outbound.responses.test_events import CREATED, EVENT_TYPES, PLAN

PIECES = [
    *("<|start|>", "<|channel|>", "<|message|>", "<|constrain|>", "<|end|>", "<|call|>"),
    *("<|return|>", "assistant", "analysis", "commentary", "final", "json", "user", " "),
    *(" to=functions.f", " to=functions.sql", " to=python", "Hello", '{"a":1}', "é"),
    "<|start|>assistant<|channel|>final<|message|>",
    "<|channel|>analysis<|message|>",
    "<|start|>assistant<|channel|>commentary to=functions.f <|constrain|>json<|message|>",
]


def text_of(item: dict[str, Any]) -> str:
    if "content" in item:
        return "".join(part["text"] for part in item["content"])
    text: str = item["arguments"] if item["type"] == "function_call" else item["input"]
    return text


@given(st.lists(st.sampled_from(PIECES)), st.sampled_from(["stop", "length", "fail", "cancel"]))
def test_any_sampled_tokens_become_valid_events(pieces: list[str], end: Any) -> None:
    check(events_of(pieces, end))


@given(st.lists(st.sampled_from(PIECES)), st.data())
def test_wherever_the_server_stops_the_stored_events_get_a_valid_end(
    pieces: list[str], data: st.DataObject
) -> None:
    events = events_of(pieces, "stop")[:-1]
    stored = events[: data.draw(st.integers(2, len(events)))]
    whole = end_interrupted(CREATED, stored)
    assert whole[: len(stored)] == stored
    check(whole)


def events_of(pieces: list[str], end: Any) -> list[dict[str, Any]]:
    """All events of an answer, with parts of a summary after each token of reasoning."""
    out = ResponsesOutbound(CREATED, PLAN)
    recipients = [tool.recipient for tool in PLAN.tools]
    prefix = encode_with_control("<|start|>assistant")
    reader = TurnReader(Parser(recipients, prefix=prefix), prompt_tokens=1)
    events = out.start()
    parts = cycle([SummaryWritten("**A**\n\nb"), SummaryWritten("", complete=False)])
    for token in encode_with_control("".join(pieces)):
        for turn in reader.push(GenerationChunk((token,))):
            events += out.push(turn)
        if reasons(reader):
            events += out.push(next(parts))
    if end in ("stop", "length"):
        for turn in reader.finish(end):
            events += out.push(turn)
    else:
        events += out.cancel() if end == "cancel" else out.fail(ServerFailed("broke"))
    return events


def reasons(reader: TurnReader) -> bool:
    header = reader.header
    return header is not None and header.recipient is None and header.channel is Channel.ANALYSIS


def check(events: list[dict[str, Any]]) -> None:
    deltas: dict[int, str] = defaultdict(str)
    summaries: dict[tuple[int, int], str] = defaultdict(str)
    for number, event in enumerate(events):
        EVENT_TYPES[event["type"]].validate_python(event, strict=True)
        assert event["sequence_number"] == number
        if event["type"] == "response.reasoning_summary_text.delta":
            summaries[event["output_index"], event["summary_index"]] += event["delta"]
        elif event["type"].endswith(".delta"):
            assert event["delta"]
            deltas[event["output_index"]] += event["delta"]
    response = events[-1]["response"]
    Response.model_validate(response, strict=True)
    assert fold(events) == response
    added = [e["item"]["id"] for e in events if e["type"] == "response.output_item.added"]
    assert [item["id"] for item in response["output"]] == added
    for index, item in enumerate(response["output"]):
        assert text_of(item) == deltas[index]
        for place, part in enumerate(item.get("summary", ())):
            assert part["text"] == summaries[index, place]
    early = {item["status"] for item in response["output"][:-1]}
    assert early <= {"completed"}
