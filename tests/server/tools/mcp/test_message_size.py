"""How the values of a message are counted."""

import json

import pytest

from server.tools.mcp.message_size import ValueCounter

VALUE = {"text": 'a "quoted" [{,\\', "b": [1, {"c": "\\"}]}
TEXT = json.dumps(VALUE).encode()


def most(body: bytes, size: int, *, is_stream: bool) -> int:
    counter = ValueCounter(is_stream=is_stream)
    return max(counter.add(body[at : at + size]) for at in range(0, len(body), size))


@pytest.mark.parametrize("size", [1, 2, 7, 1000])
@pytest.mark.parametrize("indent", [None, 2])
def test_values_are_counted_outside_strings(size: int, indent: int | None) -> None:
    body = json.dumps(VALUE, indent=indent).encode()

    assert most(body, size, is_stream=False) == 5


@pytest.mark.parametrize("size", [1, 7, 10_000])
def test_long_numbers_count_as_several_values(size: int) -> None:
    body = b'{"12": [' + b"9" * 640 + b", 1." + b"0" * 639 + b'], "text": "' + b"9" * 640 + b'"}'

    assert most(body, size, is_stream=False) == 4 + 20


@pytest.mark.parametrize("size", [1, 2, 7, 1000])
@pytest.mark.parametrize("end", [b"\n", b"\r", b"\r\n"])
def test_values_are_counted_for_each_event(size: int, end: bytes) -> None:
    stream = (b"data: " + TEXT + end + end) * 3

    assert most(stream, size, is_stream=True) == 5


@pytest.mark.parametrize("size", [1, 2, 7, 1000])
@pytest.mark.parametrize("end", [b"\n", b"\r", b"\r\n"])
def test_an_event_may_have_several_lines(size: int, end: bytes) -> None:
    stream = b'event: "open' + end + (b"data: " + TEXT + end) * 3

    assert most(stream, size, is_stream=True) == 15


@pytest.mark.parametrize("sign", [b"\\", b"\r", b"\n"])
def test_a_long_run_of_one_sign_is_not_held(sign: bytes) -> None:
    counter = ValueCounter(is_stream=True)
    taken: list[int] = []
    for _ in range(10):
        chunk = Measured(sign * 1001)
        counter.add(chunk)
        taken.append(chunk.joined)
    assert max(taken) <= 1002


class Measured(bytes):
    """Bytes that know how long they were together with what came before."""

    joined = 0

    def __radd__(self, before: bytes) -> bytes:
        self.joined = len(before) + len(self)
        return before + bytes(self)
