"""What the requests of both APIs have in common."""

import logging
from collections.abc import Callable
from functools import lru_cache
from itertools import islice
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    model_validator,
)
from pydantic_core import PydanticCustomError

from server.errors import InvalidRequest
from server.schemas.limits import MAX_FIELDS, MAX_LABEL, MAX_LISTED

logger = logging.getLogger(__name__)

MAX_CHOICES = 128
Choices = Annotated[int, Field(ge=1, le=MAX_CHOICES)]


MAX_NAMED = 8
_NAME_CHARACTERS = 64


def at_most(count: int) -> BeforeValidator:
    """Refuses a longer array or object before its members are looked at."""
    return BeforeValidator(_bounded(count))


def _bounded(count: int) -> Callable[[Any], Any]:
    def check(value: Any) -> Any:
        if isinstance(value, list | dict) and len(value) > count:
            raise PydanticCustomError("too_long", f"Input should have at most {count} members")
        return value

    return check


def _short(text: str) -> str:
    # Not `max_length`, which encodes the whole text to count its characters.
    if len(text) > MAX_LABEL:
        raise PydanticCustomError("too_long", f"Input should have at most {MAX_LABEL} characters")
    return text


Label = Annotated[str, AfterValidator(_short)]
"""A string that is no text to read, such as an id."""

Fields = Annotated[dict[str, Any], at_most(MAX_FIELDS)]

Labels = Annotated[list[Label], at_most(MAX_LISTED)]


def _without_nul(text: str) -> str:
    if "\0" in text:
        raise PydanticCustomError("nul", "Input should hold no U+0000")
    return text


Metadata = Annotated[
    dict[
        Annotated[Label, Field(max_length=64), AfterValidator(_without_nul)],
        Annotated[Label, Field(max_length=512), AfterValidator(_without_nul)],
    ],
    at_most(16),
]
"""Labels of what is stored; PostgreSQL keeps no U+0000."""


class WireModel(BaseModel):
    """JSON as clients send it: types are checked strictly, unknown fields are kept.

    The strings under fields describe them in the API's document.
    """

    model_config = ConfigDict(
        extra="allow",
        strict=True,
        protected_namespaces=(),
        frozen=True,
        use_attribute_docstrings=True,
    )

    _few_fields = model_validator(mode="before")(_bounded(MAX_FIELDS))


def note_unknown(request: BaseModel, api: str) -> None:
    """Log the request's fields that no schema names, each once a process. Values never are.

    The first `MAX_NAMED` are logged by their names, of which the rest is cut.
    """
    extra = request.model_extra or {}
    for field in islice(extra, MAX_NAMED):
        _note(api, field[:_NAME_CHARACTERS])
    if len(extra) > MAX_NAMED:
        logger.info("a request has %d more fields that are not known", len(extra) - MAX_NAMED)


def refuse(field: str, value: Any) -> None:
    """Raises InvalidRequest for a field that would change the answer and is not served.

    Null, and empty values that mean the same as null, pass.
    """
    if value not in (None, False, [], {}, ""):
        raise InvalidRequest(
            f"'{field}' is not supported by this server.", param=field, code="unsupported_parameter"
        )


@lru_cache(maxsize=4096)
def _note(api: str, field: str) -> None:
    logger.info("%s requests have a field that is not known here: %r", api, field)
