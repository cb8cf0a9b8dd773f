"""Parses JSON texts: values within the limits of the server, and objects of a schema.

It imports no web framework: the command `render` uses it too.
"""

from typing import Any, TypeVar

import orjson
from pydantic import BaseModel, ValidationError

from server.errors import InvalidRequest
from server.http.bodies import json_scan

M = TypeVar("M", bound=BaseModel)


def load(text: bytes) -> Any:
    """`text` as JSON; lone surrogates, as in a truncated emoji, become U+FFFD.

    Raises InvalidRequest if it is not JSON, or exceeds a limit of `server.schemas.limits`.
    """
    json_scan.check(text)
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as error:
        if not json_scan.has_escapes(text):
            raise _invalid_json(error) from None
    try:
        return orjson.loads(json_scan.replace_lone_surrogates(text))
    except orjson.JSONDecodeError as error:
        raise _invalid_json(error) from None


def _invalid_json(error: orjson.JSONDecodeError) -> InvalidRequest:
    return InvalidRequest(
        f"We could not parse the JSON body of your request: {error}", code="invalid_json"
    )


def validate(value: Any, schema: type[M]) -> M:
    """`value` as `schema`. Raises InvalidRequest with the dotted `param` of the first error.

    The schemas limit the size of arrays and objects before they check members, because pydantic
    makes an error for each invalid member.
    """
    try:
        return schema.model_validate(value)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        param = ".".join(str(part) for part in first["loc"]) or None
        where = f" for '{param}'" if param else ""
        problem = _JSON_MESSAGES.get(first["type"], first["msg"])
        raise InvalidRequest(
            f"Invalid value{where}: {problem}.", param=param, code=_code(first["type"])
        ) from None


def _code(kind: str) -> str | None:
    """The code of an error of pydantic; None for the default."""
    if kind == "missing":
        return "missing_required_parameter"
    return "invalid_type" if kind.endswith("_type") else None


# Messages for errors that pydantic describes with Python's types.
_JSON_MESSAGES = {
    "dict_type": "Input should be an object",
    "model_type": "Input should be an object",
    "list_type": "Input should be an array",
}
