import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.errors import BackendFailed
from adapters.http import sse
from adapters.http.sse import EventLines


def test_payloads_are_what_stands_after_data() -> None:
    text = b": ping\n\nevent: x\ndata: {}\r\n\r\ndata:[1]\n\nid: 3\n\ndata: cut"
    assert EventLines().push(text) == [b"{}", b"[1]"]


def test_a_long_line_may_come_in_very_many_parts() -> None:
    lines = EventLines()
    # Joined again for each part, they would be a terabyte.
    assert [lines.push(b"data: " + bytes(200)) for _ in range(100_000)] == [[]] * 100_000
    (payload,) = lines.push(b"\n")
    assert len(payload) == 100_000 * 206 - 6


@given(
    st.lists(st.integers(0, 99), max_size=8),
    st.integers(1, 30),
    st.sampled_from([b"\n\n", b"\n", b"\r\n\r\n"]),
)
def test_it_does_not_matter_how_the_bytes_arrive(numbers: list[int], step: int, end: bytes) -> None:
    text = b"".join(b"data: %d" % number + end for number in numbers)
    lines = EventLines()
    pieces = [lines.push(text[at : at + step]) for at in range(0, len(text), step)]
    assert [int(line) for piece in pieces for line in piece] == numbers


def test_a_line_without_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse, "_MAX_LINE_BYTES", 10)
    lines = EventLines()
    assert lines.push(b"data: 1234") == []
    with pytest.raises(BackendFailed, match="line without end"):
        lines.push(b"5")
