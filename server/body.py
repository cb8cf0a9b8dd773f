"""A request's body: JSON that fits a schema, or a 400 that names the field."""

import re
from typing import Any, TypeVar

import orjson
from pydantic import BaseModel, ValidationError
from starlette.requests import Request

from server.errors import InvalidRequest
from server.http.bodies import take_body

M = TypeVar("M", bound=BaseModel)

MAX_DEPTH = 128
"""Levels of arrays and objects in a body; orjson writes 254, and answers wrap what was sent."""

_HIGH = rb"\\u[dD][89abAB][0-9a-fA-F]{2}"
_LOW = rb"\\u[dD][c-fC-F][0-9a-fA-F]{2}"
_ESCAPE = re.compile(rb"(" + _HIGH + _LOW + rb")|" + _HIGH + rb"|" + _LOW + rb"|(\\.)", re.DOTALL)


async def parse(request: Request, schema: type[M]) -> M:
    """The body as `schema`. Raises InvalidRequest with the dotted `param` of the first error."""
    return validate(await read_json(request), schema)


async def parse_or_none(request: Request, schema: type[M]) -> M | None:
    """The body as `schema`, None for an empty one. Raises InvalidRequest as `parse` does."""
    text = await take_body(request)
    return validate(load(text), schema) if text else None


async def read_json(request: Request) -> Any:
    """The body as JSON. Raises InvalidRequest when it is not."""
    return load(await take_body(request))


def load(text: bytes) -> Any:
    """`text` as JSON; lone surrogates, which a cut emoji leaves, become U+FFFD.

    Raises InvalidRequest when it is no JSON, or nested deeper than MAX_DEPTH.
    """
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        value = _load_mended(text, error)
    if _is_deep(value):
        raise _no_json(f"it is nested deeper than {MAX_DEPTH} levels")
    return value


def _load_mended(text: bytes, error: orjson.JSONDecodeError) -> Any:
    try:
        return orjson.loads(_ESCAPE.sub(lambda found: found[1] or found[2] or rb"\uFFFD", text))
    except orjson.JSONDecodeError:
        raise _no_json(str(error)) from None


def _is_deep(value: Any) -> bool:
    level, depth = [value], 0
    while level and depth <= MAX_DEPTH:
        level = [
            inner
            for outer in level
            if isinstance(outer, dict | list)
            for inner in (outer.values() if isinstance(outer, dict) else outer)
        ]
        depth += 1
    return bool(level)


def _no_json(problem: str) -> InvalidRequest:
    return InvalidRequest(
        f"We could not parse the JSON body of your request: {problem}", code="invalid_json"
    )


def validate(value: Any, schema: type[M]) -> M:
    """`value` as `schema`. Raises InvalidRequest with the dotted `param` of the first error."""
    try:
        return schema.model_validate(value)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        param = ".".join(str(part) for part in first["loc"]) or None
        where = f" for '{param}'" if param else ""
        problem = _IN_JSONS_WORDS.get(first["type"], first["msg"])
        raise InvalidRequest(f"Invalid value{where}: {problem}.", param=param) from None


_IN_JSONS_WORDS = {
    "dict_type": "Input should be an object",
    "model_type": "Input should be an object",
    "list_type": "Input should be an array",
}
