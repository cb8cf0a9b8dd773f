"""What the requests of both APIs have in common."""

import logging
from functools import lru_cache
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from pydantic_core import PydanticCustomError

from server.errors import InvalidRequest

logger = logging.getLogger(__name__)

MAX_CHOICES = 128
Choices = Annotated[int, Field(ge=1, le=MAX_CHOICES)]


def _without_nul(text: str) -> str:
    if "\0" in text:
        raise PydanticCustomError("nul", "Input should hold no U+0000")
    return text


Metadata = Annotated[
    dict[
        Annotated[str, Field(max_length=64), AfterValidator(_without_nul)],
        Annotated[str, Field(max_length=512), AfterValidator(_without_nul)],
    ],
    Field(max_length=16),
]
"""Labels of what is stored; PostgreSQL keeps no U+0000."""


class WireModel(BaseModel):
    """JSON as clients send it: types are checked strictly, unknown fields are kept."""

    model_config = ConfigDict(extra="allow", strict=True, protected_namespaces=(), frozen=True)


def note_unknown(request: BaseModel, api: str) -> None:
    """Log the request's fields that no schema names, each once a process. Values never are."""
    for field in request.model_extra or ():
        _note(api, field[:64])


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
