"""Parses JSON texts: values within the limits of the server, and objects of a schema.

It imports no web framework: the command `render` uses it too.
"""

import re
from typing import Any, TypeVar

import orjson
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from server.errors import InvalidRequest
from server.http.bodies import json_scan
from server.schemas.fields import missing

M = TypeVar("M", bound=BaseModel)


def load(text: bytes) -> Any:
    """`text` as JSON; lone surrogates, as in a truncated emoji, become U+FFFD.

    Raises InvalidRequest if it is not JSON, or exceeds a limit of `server.schemas.limits`.
    """
    json_scan.check(text)
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as error:
        if not json_scan.contains(text, rb"\u"):  # no surrogates either
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
        first = error.errors(include_url=False, include_input=False)[0]
        param = ".".join(str(part) for part in first["loc"])
        raise _invalid(first, param) from None


def _invalid(error: ErrorDetails, param: str) -> InvalidRequest:
    """param: the path of the field, empty for the whole value."""
    kind = error["type"]
    if kind == "missing":
        return missing(param)
    where = f" for '{param}'" if param else ""
    code = "invalid_type" if kind.endswith("_type") else None
    problem = f"Invalid value{where}: {_problem(error)}."
    return InvalidRequest(problem, param=param or None, code=code)


def _problem(error: ErrorDetails) -> str:
    """What pydantic found, in the words of `server.schemas.fields`."""
    if expected := _EXPECTED.get(error["type"]):
        return f"expected {expected.format(**error.get('ctx', {}))}"
    return _SHOULD.sub("expected ", error["msg"])


_SHOULD = re.compile(r"^\w+ should (?:be|have) ")
_EXPECTED = {
    "bool_type": "a boolean",
    "dict_type": "an object",
    "float_type": "a number",
    "greater_than_equal": "at least {ge}",
    "int_type": "an integer",
    "less_than_equal": "at most {le}",
    "list_type": "an array",
    "model_type": "an object",
    "string_type": "a string",
}
"""What a field may have, by the kind of pydantic's error."""
