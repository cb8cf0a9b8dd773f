"""A request's body: JSON that fits a schema, or a 400 that names the field."""

from typing import Any, TypeVar

import orjson
from pydantic import BaseModel, ValidationError
from starlette.requests import Request

from server.errors import InvalidRequest

M = TypeVar("M", bound=BaseModel)


async def parse(request: Request, schema: type[M]) -> M:
    """The body as `schema`. Raises InvalidRequest with the dotted `param` of the first error."""
    return validate(await read_json(request), schema)


async def read_json(request: Request) -> Any:
    """The body as JSON. Raises InvalidRequest when it is not."""
    return load(await request.body())


def load(text: bytes) -> Any:
    """`text` as JSON. Raises InvalidRequest when it is not."""
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise InvalidRequest(
            f"We could not parse the JSON body of your request: {error}", code="invalid_json"
        ) from None


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
