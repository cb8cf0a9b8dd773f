"""Backend options (`--backend-option NAME=VALUE`), read into the dataclass of a backend.

The types and constraints of the fields are pydantic's: `Annotated[int, Field(ge=0)]`, `Literal`.
"""

from collections.abc import Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, TypeVar

from pydantic import TypeAdapter, ValidationError

from adapters.errors import BackendFailed

if TYPE_CHECKING:
    from _typeshed import DataclassInstance
    from pydantic_core import ErrorDetails

Options = TypeVar("Options", bound="DataclassInstance")


def parse_options(backend: str, options: type[Options], values: Mapping[str, str]) -> Options:
    """An instance of `options` with `values` converted to the types of its fields.

    Raises BackendFailed, which names the option that is unknown or has an invalid value.
    """
    names = [field.name for field in fields(options)]
    for name in values:
        if name not in names:
            raise BackendFailed(
                f"the {backend} backend has no option {name}; it has {', '.join(names)}"
            )
    try:
        return TypeAdapter(options).validate_python(dict(values))
    except ValidationError as error:
        raise BackendFailed(_message(error.errors()[0])) from error


def _message(error: "ErrorDetails") -> str:
    """`NAME must be …, not 'VALUE'`, from pydantic's `Input should be …`."""
    name = error["loc"][0]
    if error["type"] == "value_error":
        return f"{name} {error['ctx']['error']}, not {error['input']!r}"
    requirement = error["msg"].removeprefix("Input should be ").partition(", unable to parse")[0]
    return f"{name} must be {requirement}, not {error['input']!r}"
