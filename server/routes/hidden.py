"""What a server that hides raw reasoning has to refuse."""

from server.errors import InvalidRequest
from server.settings import Settings


def refuse_where_hidden(settings: Settings, what: str, *, param: str | None = None) -> None:
    """Raises InvalidRequest for an answer that would show raw reasoning all the same."""
    if settings.raw_reasoning == "hide":
        raise InvalidRequest(
            f"{what} would show the model's raw reasoning, which this server hides.",
            param=param,
            code="raw_reasoning_hidden",
        )
