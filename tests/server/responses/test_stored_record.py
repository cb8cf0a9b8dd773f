from typing import Any

import pytest

from harmony.messages import Author, Channel, Message, Role
from harmony.tokenizer import decode, encode_with_control
from server.errors import InvalidRequest
from server.responses.stored_record import _output, rendered_record
from server.store.items import StoredItem
from server.store.responses.base import StoredResponse

OPENED = 2
"""The tokens of `<|start|>assistant`, which are part of the prompt."""
CALL = "<|start|>assistant to=python<|channel|>analysis code<|message|>print(42)<|call|>"
FINAL = "<|start|>assistant<|channel|>final<|message|>42<|return|>"
RESULT = Message(Author(Role.TOOL, "python"), "42", Channel.ANALYSIS, "assistant")


def sampled(text: str) -> Message:
    tokens = tuple(encode_with_control(text))
    return Message(Author(Role.ASSISTANT), "", Channel.FINAL, tokens=tokens)


def test_each_sampling_ends_where_the_result_of_a_call_begins() -> None:
    items = (StoredItem({}, sampled(CALL), RESULT), StoredItem({}), StoredItem({}, sampled(FINAL)))
    samplings, tokens = _output(items, OPENED)
    answer = tokens[OPENED:]
    assert [decode(answer[each["start"] : each["end"]]) for each in samplings] == [
        CALL.removeprefix("<|start|>assistant"),
        FINAL.removeprefix("<|start|>assistant"),
    ]
    assert "<|start|>python to=assistant" in decode(answer)


def test_a_message_without_its_tokens_is_rendered() -> None:
    message = Message(Author(Role.ASSISTANT), "Yes", Channel.FINAL)
    samplings, tokens = _output((StoredItem({}, message),), OPENED)
    assert decode(tokens) == "<|start|>assistant<|channel|>final<|message|>Yes<|end|>"
    assert [(each["start"], each["end"]) for each in samplings] == [(0, len(tokens) - OPENED)]


def test_a_response_without_output_has_no_sampling() -> None:
    assert _output((), OPENED) == ([], ())


async def test_no_record_is_rendered_of_a_response_without_its_earlier_turns() -> None:
    unused: Any = None
    stored = StoredResponse("owner", {}, "2026-01-01", (), (), (), detached=True)
    with pytest.raises(InvalidRequest, match="earlier turns") as refusal:
        await rendered_record(unused, stored)
    assert refusal.value.param == "include"
