"""The rules of `--raw-reasoning hide`: which requests are refused, and what is redacted."""

from collections.abc import Callable
from typing import Any

from server.errors import InvalidRequest
from server.settings import Settings

Fields = dict[str, Any]
Redact = Callable[[Fields], Fields]


def refuse_if_reasoning_hidden(
    settings: Settings, feature: str, *, param: str | None = None
) -> None:
    """Refuse a feature that would show raw reasoning if the server hides it.

    feature: the feature as the error message names it. Raises InvalidRequest.
    """
    if settings.hides_reasoning:
        raise InvalidRequest(
            f"{feature} would show the model's raw reasoning, which this server hides "
            "(--raw-reasoning hide).",
            param=param,
            code="raw_reasoning_hidden",
        )


def redaction_for(settings: Settings, redact: Redact) -> Redact:
    """The function to apply to stored objects: `redact` if raw reasoning is hidden, else none.

    An object may have been stored while raw reasoning was shown.
    """
    return redact if settings.hides_reasoning else _unchanged


def _unchanged(fields: Fields) -> Fields:
    return fields
