"""Parses request bodies: JSON that fits a schema, or a 400 that names the field."""

from functools import partial
from typing import Any, TypeVar

from pydantic import BaseModel
from starlette.requests import Request

from server import threads
from server.http.bodies.body import take_body
from server.http.bodies.json_text import load, validate
from server.threads import LARGE, Size

M = TypeVar("M", bound=BaseModel)


async def parse(request: Request, schema: type[M]) -> M:
    """The body as `schema`. Raises InvalidRequest with the dotted `param` of the first error."""
    return await _parse(await take_body(request), schema)


async def parse_or_none(request: Request, schema: type[M]) -> M | None:
    """The body as `schema`, None for an empty one. Raises InvalidRequest as `parse` does."""
    text = await take_body(request)
    return await _parse(text, schema) if text else None


async def _parse(text: bytes, schema: type[M]) -> M:
    return await threads.run(lambda: validate(load(text), schema), size_of(text))


async def read_json(text: bytes) -> Any:
    """`text` as JSON, parsed on a thread if it is large. Raises the errors of `load`."""
    return await threads.run(partial(load, text), size_of(text))


def size_of(text: bytes) -> Size:
    """The size of the work of reading the text."""
    return Size.SMALL if len(text) <= LARGE else Size.LARGE
