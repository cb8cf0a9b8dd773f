"""How forms with a file are read: piece by piece, and within limits."""

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect, Request
from starlette.types import Message

from server.errors import APIError, BodyTooLarge, InvalidRequest, UnsupportedEncoding
from server.http.bodies import multipart
from server.http.bodies.multipart import (
    MOST_FIELD_BYTES,
    MOST_FIELDS,
    OVERHEAD,
    Form,
    read_form,
)

TYPE = "multipart/form-data; boundary=x"


class Sink:
    """Keeps what is written."""

    def __init__(self, limit: int = 1000) -> None:
        self.limit = limit
        self.content = b""

    async def write(self, data: bytes) -> None:
        self.content += data


def part(disposition: str, content: bytes) -> bytes:
    head = f"--x\r\nContent-Disposition: form-data; {disposition}\r\n\r\n"
    return head.encode() + content + b"\r\n"


def fields(count: int) -> bytes:
    return b"".join(part(f'name="{number}"', b"x") for number in range(count))


FILE = part('name="file"; filename="a.csv"', b"1,2\r\n--3")
END = b"--x--\r\n"


async def read(*pieces: bytes, sink: Sink | None = None, ends: bool = True, **headers: str) -> Form:
    messages: list[Message] = [
        {"type": "http.request", "body": piece, "more_body": True} for piece in pieces
    ]
    if ends:
        messages.append({"type": "http.request", "body": b"", "more_body": False})
    messages.append({"type": "http.disconnect"})

    async def receive() -> Message:
        return messages.pop(0)

    given = {"content-type": TYPE} | {
        name.replace("_", "-"): value for name, value in headers.items()
    }
    scope: dict[str, Any] = {
        "type": "http",
        "method": "POST",
        "headers": [(name.encode(), value.encode()) for name, value in given.items()],
    }
    return await read_form(Request(scope, receive), sink or Sink())


async def test_a_form_has_a_file_and_fields() -> None:
    sink = Sink()
    body = part('name="purpose"', b"batch") + FILE + part('name="x[y]"', "é".encode()) + END
    form = await read(body, sink=sink)
    assert form == Form("a.csv", {"purpose": "batch", "x[y]": "é"})
    assert sink.content == b"1,2\r\n--3"


@given(st.lists(st.integers(0, 200), max_size=6), st.binary(max_size=60))
async def test_pieces_may_end_anywhere(cuts: list[int], content: bytes) -> None:
    content = content.replace(b"\r\n--x", b"")
    body = part('name="purpose"', b"batch") + part('name="file"; filename="a"', content) + END
    places = sorted({0, len(body), *(cut for cut in cuts if cut < len(body))})
    pieces = [body[first:last] for first, last in pairwise(places)]
    sink = Sink()
    assert await read(*pieces, sink=sink) == Form("a", {"purpose": "batch"})
    assert sink.content == content


async def test_fields_are_read_up_to_their_limits() -> None:
    assert len((await read(fields(MOST_FIELDS) + FILE + END)).fields) == MOST_FIELDS
    long = part('name="a"', b"x" * MOST_FIELD_BYTES)
    assert len((await read(long + FILE + END)).fields["a"]) == MOST_FIELD_BYTES


async def test_a_file_without_a_name_gets_one() -> None:
    assert (await read(part('name="file"', b"1") + END)).filename == "upload"


@pytest.mark.parametrize(
    ("body", "code", "param"),
    [
        (END, "missing_required_parameter", "file"),
        (FILE, "invalid_multipart", None),
        (b"--y\r\n\r\n--y--", "invalid_multipart", None),
        (b"", "invalid_multipart", None),
        (b"--x\r\nX: y\r\n\r\n\r\n--x--", "invalid_multipart", None),
        (part('name="purpose"', b"batch") + END, "missing_required_parameter", "file"),
        (FILE + FILE + END, "invalid_value", "file"),
        (part('name="other"; filename="a"', b"") + END, "invalid_value", "file"),
        (part('name="a"', b"x" * (MOST_FIELD_BYTES + 1)) + FILE + END, "invalid_value", None),
        (fields(MOST_FIELDS + 1) + FILE + END, "invalid_value", None),
        (part('name="a"', b"") * (MOST_FIELDS + 1) + FILE + END, "invalid_value", None),
    ],
)
async def test_a_form_that_is_wrong_is_refused(body: bytes, code: str, param: str | None) -> None:
    with pytest.raises(InvalidRequest) as caught:
        await read(body)
    assert (caught.value.code, caught.value.param) == (code, param)


async def test_a_form_that_is_wrong_is_refused_before_its_end() -> None:
    with pytest.raises(InvalidRequest, match="cannot be read"):
        await read(b"--y\r\n", ends=False)


@pytest.mark.parametrize(
    "kind", ["application/json", "multipart/form-data", "text/plain", f"{TYPE}{'; a=b' * 1000}"]
)
async def test_another_type_is_refused(kind: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        await read(FILE + END, content_type=kind)
    assert caught.value.code == "invalid_multipart"


def test_the_parameters_of_a_type_are_not_parsed_to_know_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The time for that grows with the square of their size."""
    monkeypatch.delattr(multipart, "parse_options_header")
    assert multipart.is_multipart(Headers({"content-type": f" Multipart/Form-Data {';' * 60_000}"}))
    assert not multipart.is_multipart(Headers())


async def test_a_boundary_that_is_none_is_refused() -> None:
    with pytest.raises(InvalidRequest):
        await read(FILE + END, content_type=f"multipart/form-data; boundary={'x' * 300}")


async def test_a_compressed_form_is_refused() -> None:
    with pytest.raises(UnsupportedEncoding):
        await read(FILE + END, content_encoding="gzip")
    assert (await read(FILE + END, content_encoding="identity")).filename == "a.csv"


async def test_a_long_body_is_refused_before_it_is_read() -> None:
    with pytest.raises(BodyTooLarge) as caught:
        await read(content_length=str(1001 + OVERHEAD), ends=False)
    assert caught.value.code == "file_too_large"


async def test_what_surrounds_the_file_is_limited_too() -> None:
    with pytest.raises(BodyTooLarge):
        await read(FILE + END, *([b"x" * 100_000] * 3))


async def test_a_client_that_leaves_is_no_error_of_the_form() -> None:
    with pytest.raises(ClientDisconnect):
        await read(FILE, ends=False)


async def test_an_error_of_the_sink_ends_the_reading() -> None:
    class Full(Sink):
        async def write(self, data: bytes) -> None:
            raise BodyTooLarge("full")

    with pytest.raises(APIError, match="full"):
        await read(FILE, FILE, sink=Full())


async def test_a_part_with_a_long_header_is_refused() -> None:
    """The time to read its parameters grows with the square of its size."""
    with pytest.raises(InvalidRequest, match="cannot be read"):
        await read(part('name="file"; a="' + ";" * 5000, b"x") + END)
