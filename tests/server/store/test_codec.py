"""What is written is read again, byte for byte."""

import asyncio
import threading
import zlib
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harmony.messages import Author, Channel, Message, Role
from server.encoding.json_pieces import EncodedArray
from server.store import codec

TEXT = st.text(st.characters(exclude_categories=["Cs"]))
JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | TEXT,
    lambda inner: st.lists(inner) | st.dictionaries(TEXT, inner),
    max_leaves=5,
)
MESSAGES = st.builds(
    Message,
    st.builds(Author, st.sampled_from(Role), st.none() | TEXT),
    TEXT,
    st.none() | st.sampled_from(Channel),
    st.none() | TEXT,
    st.none() | TEXT,
    st.none() | st.lists(st.integers(0, 201_087)).map(tuple),
)


@settings(max_examples=30)
@given(st.lists(st.dictionaries(TEXT, JSON), max_size=5))
def test_events_are_read_as_they_were_written(events: list[dict[str, Any]]) -> None:
    assert asyncio.run(_packed_and_unpacked(events)) == events


@given(MESSAGES)
def test_messages_are_read_as_they_were_written(message: Message) -> None:
    text, tokens = codec.dump_message(message), codec.pack_tokens(message.tokens)
    assert codec.load_message(text, tokens) == message


async def _packed_and_unpacked(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return await codec.unpack([await codec.pack(events)])


async def test_events_with_encoded_arrays_are_read_as_arrays() -> None:
    values = EncodedArray()
    values.add([{"n": number} for number in range(20_000)])
    (event,) = await codec.unpack([await codec.pack([{"values": values}])])
    assert event == {"values": [{"n": number} for number in range(20_000)]}


async def test_batches_are_read_one_after_another() -> None:
    packed = [await codec.pack(batch) for batch in ([{"n": 0}], [{"n": 1}, {"n": 2}])]
    assert await codec.unpack(packed) == [{"n": 0}, {"n": 1}, {"n": 2}]


def deltas(count: int) -> list[dict[str, Any]]:
    return [
        {
            "type": "response.output_text.delta",
            "item_id": f"msg_{'0123456789abcdef' * 3}",
            "output_index": 1,
            "content_index": 0,
            "delta": f" word{number % 97}",
            "logprobs": [],
            "sequence_number": number,
        }
        for number in range(count)
    ]


async def test_a_delta_costs_some_twenty_bytes() -> None:
    assert len(await codec.pack(deltas(1000))) < 25 * 1000


@pytest.mark.parametrize(("count", "beside"), [(10, False), (5000, True)])
async def test_long_batches_are_packed_and_unpacked_beside_the_event_loop(
    count: int, beside: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    done_by: list[int] = []

    def watched(work: Callable[..., Any]) -> Callable[..., Any]:
        def work_here(*arguments: Any) -> Any:
            done_by.append(threading.get_ident())
            return work(*arguments)

        return work_here

    monkeypatch.setattr(zlib, "compressobj", watched(zlib.compressobj))
    monkeypatch.setattr(zlib, "decompress", watched(zlib.decompress))
    await codec.unpack([await codec.pack(deltas(count))])
    assert [one != threading.get_ident() for one in done_by] == [beside, beside]
