from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from harmony.events import ContentDelta, Event, MessageEnded, MessageStarted
from harmony.tokenizer import decode, encode, encode_with_control
from harmony.vocab import RETURN, STOP_TOKENS
from server.generation.raw_text import RawText


def read(ids: list[int], step: int = 1) -> list[Event]:
    parser = RawText()
    pieces = [ids[first : first + step] for first in range(0, len(ids), step)]
    return [*(event for piece in pieces for event in parser.push_many(piece)), *parser.finish()]


def text(events: list[Event]) -> str:
    return "".join(event.text for event in events if isinstance(event, ContentDelta))


def test_control_tokens_are_spelled_out_but_for_the_last() -> None:
    source = "<|channel|>final<|message|>Yes"
    *_, ended = events = read([*encode_with_control(source), RETURN])
    assert text(events) == source
    assert isinstance(ended, MessageEnded)
    assert ended.content == source
    assert ended.end == RETURN


def test_a_text_that_is_cut_off_has_no_end() -> None:
    *_, ended = read(encode("Yes"))
    assert isinstance(ended, MessageEnded)
    assert not ended.complete


def test_nothing_at_all_is_an_empty_message() -> None:
    started, ended = read([])
    assert isinstance(started, MessageStarted)
    assert isinstance(ended, MessageEnded)
    assert ended.content == ""


def test_tokens_may_come_in_empty_pieces() -> None:
    parser = RawText()
    assert [*parser.push_many(()), *parser.push_many(())] == [*RawText().push_many(())]


tokens = st.lists(st.integers(0, 201_200).filter(lambda token: token not in STOP_TOKENS))


@given(tokens, st.integers(1, 5))
def test_the_text_is_the_same_however_the_tokens_come(ids: list[int], step: int) -> None:
    known = [token for token in ids if token < 201_088]
    events = read(ids, step)
    assert text(events) == decode(known)
    spans = [event.span for event in events if isinstance(event, ContentDelta)]
    assert all(start <= end for start, end in spans)
    assert all(end == after for (_, end), (after, _) in pairwise(spans))
