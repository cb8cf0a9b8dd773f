"""Types and checks that the request schemas of all APIs share."""

import ast
import logging
from collections.abc import Callable, Iterator
from functools import lru_cache
from inspect import cleandoc, getsource
from itertools import islice, pairwise
from textwrap import dedent
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    model_validator,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticCustomError

from server.errors import InvalidRequest
from server.schemas.limits import MAX_FIELDS, MAX_LABEL, MAX_LISTED

logger = logging.getLogger(__name__)

MAX_CHOICES = 128
Choices = Annotated[int, Field(ge=1, le=MAX_CHOICES)]


MAX_NAMED = 8
_NAME_CHARACTERS = 64


def at_most(count: int) -> BeforeValidator:
    """A validator that refuses a longer array or object before its members are validated."""
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
"""A short string that is not text for the model, such as an id. See `MAX_LABEL`."""

Fields = Annotated[dict[str, Any], at_most(MAX_FIELDS)]

Labels = Annotated[list[Label], at_most(MAX_LISTED)]


def _without_nul(text: str) -> str:
    if "\0" in text:
        raise PydanticCustomError("nul", "Input should hold no U+0000")
    return text


MAX_METADATA = 16
"""The most labels of a stored object."""

Metadata = Annotated[
    dict[
        Annotated[Label, Field(max_length=64), AfterValidator(_without_nul)],
        Annotated[Label, Field(max_length=512), AfterValidator(_without_nul)],
    ],
    at_most(MAX_METADATA),
]
"""Labels of a stored object. U+0000 is refused, as PostgreSQL cannot store it."""


class WireModel(BaseModel):
    """The base of request schemas. Types are checked strictly; unknown fields are accepted.

    The strings under fields describe them in the API's document.
    """

    model_config = ConfigDict(
        extra="allow",
        strict=True,
        protected_namespaces=(),
        frozen=True,
    )

    _few_fields = model_validator(mode="before")(_bounded(MAX_FIELDS))

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """The JSON schema with the fields' descriptions; pydantic's hook.

        pydantic's `use_attribute_docstrings` would parse the source when the class is made.
        """
        value = handler(schema)
        fields = handler.resolve_ref_schema(value)["properties"]
        for model in reversed(cls.__mro__[: cls.__mro__.index(WireModel)]):
            for name, text in _docstrings(model).items():
                fields[name]["description"] = text
        return value


def _docstrings(model: type[BaseModel]) -> dict[str, str]:
    """The strings under the fields in the source of the class."""
    body = ast.parse(dedent(getsource(model))).body[0]
    assert isinstance(body, ast.ClassDef)
    return {
        field.target.id: cleandoc(below.value.value)
        for field, below in pairwise(body.body)
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and isinstance(below, ast.Expr)
        and isinstance(below.value, ast.Constant)
        and isinstance(below.value.value, str)
    }


def note_unknown(request: BaseModel, api: str) -> None:
    """Log the names of a request's unknown fields, each name once in a process, and no values.

    Fields of nested models have dotted names. Of each request the first `MAX_NAMED` names are
    logged, at most 64 characters of each, and the number of the others.
    """
    unknown = _unknown_fields(request)
    for field in islice(unknown, MAX_NAMED):
        _note(api, field[:_NAME_CHARACTERS])
    if more := sum(1 for _ in unknown):
        logger.info("a request has %d more unknown fields", more)


def _unknown_fields(model: BaseModel, prefix: str = "") -> Iterator[str]:
    for name in model.model_extra or ():
        yield f"{prefix}{name}"
    for name in type(model).model_fields:
        if isinstance(nested := getattr(model, name), BaseModel):
            yield from _unknown_fields(nested, f"{prefix}{name}.")


def refuse(field: str, value: Any) -> None:
    """Raises InvalidRequest for a field that would change the answer and is not supported.

    Null passes, and so do false and empty values, which mean the same as null.
    """
    if value not in (None, False, [], {}, ""):
        raise InvalidRequest(
            f"'{field}' is not supported by this server.", param=field, code="unsupported_parameter"
        )


@lru_cache(maxsize=4096)
def _note(api: str, field: str) -> None:
    logger.info("%s requests have an unknown field: %r", api, field)
