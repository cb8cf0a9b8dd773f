"""The document and its page as bytes, with their entity tags."""

import hashlib
from dataclasses import dataclass

import orjson

from server.openapi.document import openapi
from server.openapi.page import page


@dataclass(frozen=True, slots=True)
class File:
    """What is sent. etag: its strong entity tag, quotes included."""

    content: bytes
    etag: str


@dataclass(frozen=True, slots=True)
class Description:
    """The document, and the page that shows it."""

    document: File
    page: File


def describe() -> Description:
    """Both files. It takes some tenths of a second: call it off the event loop, and once."""
    document = openapi()
    return Description(_file(orjson.dumps(document)), _file(page(document).encode()))


def _file(content: bytes) -> File:
    return File(content, f'"{hashlib.sha256(content).hexdigest()[:32]}"')
