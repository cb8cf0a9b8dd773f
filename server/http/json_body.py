"""A request's body: JSON that fits a schema, or a 400 that names the field."""

from functools import partial
from typing import Any, TypeVar

import orjson
from pydantic import BaseModel, ValidationError
from starlette.requests import Request

from server import threads
from server.errors import InvalidRequest
from server.http import json_scan
from server.http.bodies import take_body

M = TypeVar("M", bound=BaseModel)

LARGE = 1 << 18
"""Bytes; a longer body is read on a thread."""


async def parse(request: Request, schema: type[M]) -> M:
    """The body as `schema`. Raises InvalidRequest with the dotted `param` of the first error."""
    return await _parse(await take_body(request), schema)


async def parse_or_none(request: Request, schema: type[M]) -> M | None:
    """The body as `schema`, None for an empty one. Raises InvalidRequest as `parse` does."""
    text = await take_body(request)
    return await _parse(text, schema) if text else None


async def _parse(text: bytes, schema: type[M]) -> M:
    return await threads.run(lambda: validate(load(text), schema), small=len(text) <= LARGE)


async def read_json(text: bytes) -> Any:
    """`text` as JSON, read on a thread where it is large. Raises as `load` does."""
    return await threads.run(partial(load, text), small=len(text) <= LARGE)


def load(text: bytes) -> Any:
    """`text` as JSON; lone surrogates, which a cut emoji leaves, become U+FFFD.

    Raises InvalidRequest when it is no JSON, or over a limit of `server.schemas.limits`.
    """
    json_scan.check(text)
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as error:
        if not json_scan.has_escapes(text):
            raise _no_json(error) from None
    try:
        return orjson.loads(json_scan.mended(text))
    except orjson.JSONDecodeError as error:
        raise _no_json(error) from None


def _no_json(error: orjson.JSONDecodeError) -> InvalidRequest:
    return InvalidRequest(
        f"We could not parse the JSON body of your request: {error}", code="invalid_json"
    )


def validate(value: Any, schema: type[M]) -> M:
    """`value` as `schema`. Raises InvalidRequest with the dotted `param` of the first error.

    The schema bounds the size of arrays and objects before it looks at their members: pydantic
    builds an error for each wrong one.
    """
    try:
        return schema.model_validate(value)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        param = ".".join(str(part) for part in first["loc"]) or None
        where = f" for '{param}'" if param else ""
        problem = _IN_JSONS_WORDS.get(first["type"], first["msg"])
        raise InvalidRequest(f"Invalid value{where}: {problem}.", param=param) from None


_IN_JSONS_WORDS = {
    "dict_type": "Input should be an object",
    "model_type": "Input should be an object",
    "list_type": "Input should be an array",
}
