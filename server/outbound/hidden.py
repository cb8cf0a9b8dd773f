"""What a server that hides raw reasoning refuses, and what it leaves out."""

from collections.abc import Callable
from typing import Any

from server.errors import InvalidRequest
from server.settings import Settings

Fields = dict[str, Any]
Show = Callable[[Fields], Fields]


def refuse_where_hidden(settings: Settings, what: str, *, param: str | None = None) -> None:
    """Raises InvalidRequest for an answer that would show raw reasoning all the same."""
    if settings.raw_reasoning == "hide":
        raise InvalidRequest(
            f"{what} would show the model's raw reasoning, which this server hides "
            "(--raw-reasoning hide).",
            param=param,
            code="raw_reasoning_hidden",
        )


def shown_by(settings: Settings, redact: Show) -> Show:
    """How stored objects are shown: by `redact` where raw reasoning is hidden, else as they are.

    They may have been stored while it was shown.
    """
    return redact if settings.raw_reasoning == "hide" else _as_they_are


def _as_they_are(fields: Fields) -> Fields:
    return fields
