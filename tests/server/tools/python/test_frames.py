"""What the server makes of frames and output of a session's process."""

import json
from typing import Any

import pytest

from server.tools.python import frames
from server.tools.python.frames import (
    LEAST,
    Budget,
    FrameReader,
    InvalidFrame,
    Output,
    event_of,
    parse,
    request,
)
from server.tools.python.sandbox import CellEnd, OutputImage, OutputText

FOLDER = "/srv/sessions/0123456789abcdef/data"


def parsed(content: bytes) -> list[dict[str, Any]]:
    return [parse(frame) for frame in FrameReader().feed(content)]


def test_frames_are_cut_at_their_lengths() -> None:
    content = request(cell="a", code="1") + request(interrupt="a")
    reader = FrameReader()
    found = [parse(frame) for byte in content for frame in reader.feed(bytes([byte]))]
    assert found == [{"cell": "a", "code": "1"}, {"interrupt": "a"}]


def test_frames_that_are_not_taken_come_later() -> None:
    reader = FrameReader()
    assert not reader.has_frame
    next(reader.feed(request(cell="a", code="1") + request(interrupt="a") + b"\0"))
    assert reader.has_frame
    assert [parse(frame) for frame in reader.complete()] == [{"interrupt": "a"}]
    assert not reader.has_frame


def test_what_is_no_frame_is_waiting_too() -> None:
    reader = FrameReader()
    reader.feed(b"\x7f\xff\xff\xff")
    assert reader.has_frame


@pytest.mark.parametrize("content", [b"\x7f\xff\xff\xff", b"\0\0\0\x14" + b"[" * 20])
def test_what_is_no_frame_is_refused(content: bytes) -> None:
    with pytest.raises(InvalidFrame):
        parsed(content)


@pytest.mark.parametrize("size", [16, frames.MOST_FRAME])
def test_a_frame_of_the_least_and_of_the_largest_size_is_read(size: int) -> None:
    assert list(FrameReader().feed(size.to_bytes(4, "big") + b"x" * size)) == [b"x" * size]
    with pytest.raises(InvalidFrame):
        list(FrameReader().feed((frames.MOST_FRAME + 1).to_bytes(4, "big")))


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"cell": "abc"}'])
def test_a_frame_is_larger_than_what_the_worker_never_sends(content: bytes) -> None:
    """It costs as much to cut off as any other: millions of them would occupy the server."""
    with pytest.raises(InvalidFrame, match="bytes"):
        parsed(len(content).to_bytes(4, "big") + content)


def test_deep_json_is_refused() -> None:
    with pytest.raises(InvalidFrame):
        parsed((1 << 20).to_bytes(4, "big") + b"[" * (1 << 20))


@pytest.mark.parametrize(
    "content",
    [
        b'{"event": "end", "cell": [[], [], []]}',
        b'{"event": "end", "cell": {"a": {}}}',
        b'{"event": "end", "cell": 1}',
        b"{" + b", ".join(b'"%d": ""' % number for number in range(9)) + b"}",
        b"{" + b", ".join([b'"a": ""'] * 9) + b"}",
        b'["event": "end"}',
        b'{"event": "end"',
        b'{"event": "end"}}',
        b'{"event": "\xff"}',
        b"{}",
    ],
)
def test_a_frame_has_few_texts_and_literals(content: bytes) -> None:
    """The parser of JSON takes seconds for millions of values, and lets nothing else run."""
    with pytest.raises(InvalidFrame):
        parsed(len(content).to_bytes(4, "big") + content)


def test_no_value_beyond_the_fields_of_a_frame_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    read = []

    class Decoder(json.JSONDecoder):
        def raw_decode(self, s: str, idx: int = 0) -> Any:
            read.append(idx)
            return super().raw_decode(s, idx)

    monkeypatch.setattr(frames, "_DECODER", Decoder())
    content = b"{" + b", ".join([b'"a": ""'] * 1000) + b"}"
    with pytest.raises(InvalidFrame):
        parsed(len(content).to_bytes(4, "big") + content)
    assert len(read) <= 2 * frames._MOST_FIELDS


def test_frames_of_the_worker_are_read() -> None:
    fields = {"event": "text", "cell": None, "text": '"é\n{}[] \\', "raised": True, "other": False}
    content = json.dumps(fields).encode()
    assert parsed(len(content).to_bytes(4, "big") + content) == [fields]


def test_events_are_read() -> None:
    text = {"cell": "a", "event": "text", "stream": "result", "text": "x\ud800"}
    assert event_of(text, "a") == OutputText("result", "x\\ud800")
    image = {"cell": "a", "event": "image", "media_type": "image/png", "data": "AAE="}
    assert event_of(image, "a") == OutputImage("image/png", b"\0\1")
    assert event_of({"cell": "a", "event": "end", "raised": True}, "a") == CellEnd("raised")
    assert event_of({"cell": "a", "event": "end", "raised": False}, "a") == CellEnd("completed")


@pytest.mark.parametrize(
    "frame",
    [
        {"cell": "b", "event": "end", "raised": False},
        {"cell": "a", "event": "end", "raised": "no"},
        {"cell": "a", "event": "text", "stream": "stdout", "text": "x"},
        {"cell": "a", "event": "text", "stream": "result", "text": 1},
        {"cell": "a", "event": "image", "media_type": "text/html", "data": ""},
        {"cell": "a", "event": "image", "media_type": "image/png", "data": "?"},
        {"event": "ready"},
        {},
    ],
)
def test_what_the_worker_never_sends_is_refused(frame: dict[str, object]) -> None:
    with pytest.raises(InvalidFrame):
        event_of(frame, "a")


def test_bytes_that_are_not_utf8_are_escaped() -> None:
    output = Output(None)
    assert output.feed("ü".encode()[:1]) == ""
    assert output.feed("ü".encode()[1:] + b"\xff") == "ü\\xff"
    assert output.feed(b"\xc3") + output.feed(b"", last=True) == "\\xc3"


@pytest.mark.parametrize("size", [1, 2, 5, 100])
def test_the_true_folder_is_written_as_the_model_knows_it(size: int) -> None:
    content = f"a {FOLDER}/x /srv b {FOLDER}".encode()
    output = Output(FOLDER)
    parts = [output.feed(content[at : at + size]) for at in range(0, len(content), size)]
    assert "".join([*parts, output.feed(b"", last=True)]) == "a /mnt/data/x /srv b /mnt/data"


def test_only_what_may_be_the_true_folder_is_held_back() -> None:
    output = Output(FOLDER)
    assert output.feed(b"a long line that ends here\n") == "a long line that ends here\n"
    assert output.feed(b"in /srv/sess") == "in "
    assert output.feed(b"e") == "/srv/sesse"


def test_output_over_the_limit_is_dropped() -> None:
    budget = Budget(5)
    assert budget.take(OutputImage("image/png", b"123456")) is None
    assert budget.take(OutputText("stdout", "abc")) == OutputText("stdout", "abc")
    assert budget.take(OutputText("stdout", "dü")) == OutputText("stdout", "d")
    assert budget.take(OutputText("stdout", "e")) is None
    assert budget.take(OutputImage("image/png", b"1")) is None


def test_an_image_within_the_limit_is_returned() -> None:
    image = OutputImage("image/png", b"1234")
    budget = Budget(5)
    assert budget.take(image) == image
    assert budget.take(image) is None


@pytest.mark.parametrize(
    "event",
    [
        OutputImage("image/png", b"1"),
        OutputText("result", "1"),
        OutputText("error", "1"),
    ],
)
def test_small_outputs_count_for_more_than_their_bytes(event: OutputText | OutputImage) -> None:
    budget = Budget(2 * LEAST)
    assert [budget.take(event) for _ in range(3)] == [event, event, None]


@pytest.mark.parametrize("event", [OutputImage("image/png", b""), OutputText("result", "")])
def test_empty_outputs_are_dropped(event: OutputText | OutputImage) -> None:
    assert Budget(2 * LEAST).take(event) is None


def test_printed_text_counts_for_its_bytes_alone() -> None:
    budget = Budget(3)
    event = OutputText("stdout", "1")
    assert [budget.take(event) for _ in range(4)] == [event, event, event, None]


LAST = json.dumps({"event": "end", "cell": "a", "raised": False}).encode()
SMALL, LARGE = bytes(frames.SMALL_FRAME), bytes(frames.SMALL_FRAME + 1)


def test_once_the_limit_is_reached_only_the_last_frame_is_decoded() -> None:
    budget = Budget(3)
    assert budget.take_frame(LARGE)
    budget.take(OutputText("stdout", "abc"))
    assert [budget.take_frame(frame) for frame in (LARGE, SMALL, LAST)] == [False, False, True]


def test_large_frames_count_whatever_is_kept_of_them() -> None:
    """An image that does not fit leaves the limit to what comes later."""
    budget = Budget(5 << 20)
    largest = bytes(frames.MOST_FRAME)
    taken = [budget.take_frame(largest) for _ in range(8)]
    assert taken == [True] * 5 + [False] * 3
    assert budget.take_frame(SMALL)
    assert budget.take(OutputText("stdout", "a")) == OutputText("stdout", "a")


def test_small_frames_are_as_many_as_the_limit_has_room_for() -> None:
    """An image that is empty would be decoded without end: it leaves the limit as it is."""
    budget = Budget(2 * LEAST)
    taken = [budget.take_frame(SMALL) for _ in range(5)]
    assert taken == [True] * 3 + [False] * 2
    assert budget.take_frame(LAST)


@pytest.mark.parametrize("character", ["x", "é", "\0", "\U0001f600", "\ud800"])
def test_text_within_the_limit_is_decoded_whole(character: str) -> None:
    text = character * (1 << 20)
    size = len(text.encode("utf-8", "backslashreplace"))
    assert Budget(size).take_frame(request(event="text", cell="a", text=text))
