"""What the requests of both APIs have in common."""

import logging
from functools import lru_cache
from typing import Any

from pydantic import BaseModel, ConfigDict

from server.errors import InvalidRequest

logger = logging.getLogger(__name__)


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
