"""What is written is read again, byte for byte."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from harmony.messages import Author, Channel, Message, Role
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
    assert codec.unpack(codec.pack(events)) == events


@given(MESSAGES)
def test_messages_are_read_as_they_were_written(message: Message) -> None:
    text, tokens = codec.dump_message(message), codec.pack_tokens(message.tokens)
    assert codec.load_message(text, tokens) == message


def test_a_delta_costs_some_twenty_bytes() -> None:
    events = [
        {
            "type": "response.output_text.delta",
            "item_id": f"msg_{'0123456789abcdef' * 3}",
            "output_index": 1,
            "content_index": 0,
            "delta": f" word{number % 97}",
            "logprobs": [],
            "sequence_number": number,
        }
        for number in range(1000)
    ]
    assert len(codec.pack(events)) < 25 * len(events)
