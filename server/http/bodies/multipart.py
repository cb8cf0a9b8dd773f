"""Reads uploads: forms of the type multipart/form-data with one file, which is never in memory.

Source: RFC 7578 (multipart/form-data).
"""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Protocol

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header
from starlette.datastructures import Headers
from starlette.requests import Request

from server.errors import BodyTooLarge, InvalidRequest, UnsupportedEncoding
from server.schemas.limits import MAX_CONTENT_TYPE

TYPE = "multipart/form-data"
FILE = "file"
"""The name of the part that is the file."""

MOST_FIELDS = 32
MOST_FIELD_BYTES = 64 * 1024
"""Bytes of all fields together."""
OVERHEAD = 256 * 1024
"""Bytes of a form beside its file: fields, headers and boundaries."""
UNNAMED = "upload"


class Sink(Protocol):
    """Where the file is written. limit: its most bytes."""

    @property
    def limit(self) -> int:
        """The most bytes that may be written."""
        ...

    async def write(self, data: bytes) -> None:
        """Append bytes. Raises BodyTooLarge."""
        ...


@dataclass(frozen=True, slots=True)
class Form:
    """A form whose file was written. filename: as the client named it."""

    filename: str
    fields: dict[str, str]


def is_multipart(headers: Headers) -> bool:
    """Whether a request's body is a form that may have files."""
    return headers.get("content-type", "").partition(";")[0].strip().lower() == TYPE


async def read_form(request: Request, sink: Sink) -> Form:
    """Read a form, and write its file to `sink` as it arrives.

    Raises InvalidRequest for another type, a broken form, or one without exactly one file;
    BodyTooLarge; UnsupportedEncoding for a compressed body; and ClientDisconnect.
    """
    if request.headers.get("content-encoding", "identity").strip().lower() != "identity":
        raise UnsupportedEncoding(("identity",))
    limit = sink.limit + OVERHEAD
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and int(declared) > limit:
        raise _too_large(sink.limit)
    reader = _Reader(_boundary(request.headers))
    received = 0
    async for chunk in request.stream():
        received += len(chunk)
        if received > limit:
            raise _too_large(sink.limit)
        async for piece in reader.file_pieces(chunk):
            await sink.write(piece)
    return reader.form()


def _boundary(headers: Headers) -> bytes:
    text = headers.get("content-type", "")
    is_read = is_multipart(headers) and len(text) <= MAX_CONTENT_TYPE
    boundary = parse_options_header(text)[1].get(b"boundary") if is_read else None
    if not boundary:
        raise InvalidRequest(
            "Send the file as multipart/form-data, with a boundary in the Content-Type.",
            code="invalid_multipart",
        )
    return boundary


@dataclass(slots=True)
class _Part:
    """The part that is being read. headers: by lower-case name."""

    headers: dict[bytes, bytes] = field(default_factory=dict)
    name: str = ""
    is_file: bool = False


class _Reader:
    """Separates the parts of a form. Pieces of the file are handed on; fields are collected."""

    def __init__(self, boundary: bytes) -> None:
        self._part = _Part()
        self._header = (bytearray(), bytearray())
        self._fields: dict[str, bytearray] = {}
        self._field_parts = 0
        self._field_bytes = 0
        self._filename: str | None = None
        self._pieces: list[bytes] = []
        self._ended = False
        try:
            self._parser = MultipartParser(
                boundary,
                {
                    "on_part_begin": self._begin,
                    "on_header_field": lambda data, start, end: self._header[0].extend(
                        data[start:end]
                    ),
                    "on_header_value": lambda data, start, end: self._header[1].extend(
                        data[start:end]
                    ),
                    "on_header_end": self._end_header,
                    "on_headers_finished": self._end_headers,
                    "on_part_data": self._data,
                    "on_end": self._end,
                },
            )
        except FormParserError as error:
            raise _broken() from error

    async def file_pieces(self, chunk: bytes) -> AsyncIterator[bytes]:
        """The bytes of the file in the next part of the body."""
        try:
            self._parser.write(chunk)
        except FormParserError as error:
            raise _broken() from error
        pieces, self._pieces = self._pieces, []
        for piece in pieces:
            yield piece

    def form(self) -> Form:
        """The form, after the whole body."""
        if not self._ended:
            raise _broken()
        if self._filename is None:
            raise InvalidRequest(
                f"The form has no part '{FILE}'.", param=FILE, code="missing_required_parameter"
            )
        fields = {name: value.decode("utf-8", "replace") for name, value in self._fields.items()}
        return Form(self._filename, fields)

    def _begin(self) -> None:
        self._part = _Part()

    def _end_header(self) -> None:
        name, value = map(bytes, self._header)
        self._part.headers[name.lower()] = value
        self._header = (bytearray(), bytearray())

    def _end_headers(self) -> None:
        _, options = parse_options_header(self._part.headers.get(b"content-disposition"))
        if b"name" not in options:
            raise _broken()
        part = self._part
        part.name = options[b"name"].decode("utf-8", "replace")
        part.is_file = b"filename" in options or part.name == FILE
        if not part.is_file:
            # Not the names: parts may repeat one, and a form has room for millions of parts.
            self._field_parts += 1
            if self._field_parts > MOST_FIELDS:
                raise InvalidRequest(f"The form has more than {MOST_FIELDS} fields.")
            self._fields[part.name] = bytearray()
        elif part.name != FILE or self._filename is not None:
            raise InvalidRequest(f"The form must have one file, in the part '{FILE}'.", param=FILE)
        else:
            self._filename = options.get(b"filename", b"").decode("utf-8", "replace") or UNNAMED

    def _data(self, data: bytes, start: int, end: int) -> None:
        if self._part.is_file:
            self._pieces.append(data[start:end])
            return
        self._field_bytes += end - start
        if self._field_bytes > MOST_FIELD_BYTES:
            raise InvalidRequest(f"The fields have more than {MOST_FIELD_BYTES} bytes.")
        self._fields[self._part.name] += data[start:end]

    def _end(self) -> None:
        self._ended = True


def _broken() -> InvalidRequest:
    return InvalidRequest("The form cannot be read.", code="invalid_multipart")


def _too_large(limit: int) -> BodyTooLarge:
    return BodyTooLarge(
        f"The file is larger than {limit} bytes.", param=FILE, code="file_too_large"
    )
