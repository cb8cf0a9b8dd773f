"""The `error` event of the Responses API."""

from collections.abc import Iterator

from server.errors import APIError, InvalidRequest, ServerFailed
from server.generation.runs import WireEvent


def error_event(error: APIError) -> WireEvent:
    """The `error` event, without a sequence number.

    The error's fields are at the top level, where the SDK reads them, and repeated under `error`,
    where Open Responses has them.
    """
    fields = error.body()["error"]
    flat = {key: fields[key] for key in ("code", "message", "param")}
    return {"type": "error", **flat, "error": fields}


def status_of(event: WireEvent) -> int:
    """The HTTP status of the error in an `error` event, which may come from the store."""
    code, kind = event["error"]["code"], event["error"]["type"]
    # Codes of one place only, such as `invalid_grammar`, belong to requests that are not valid.
    other = InvalidRequest.status if kind == InvalidRequest.type else ServerFailed.status
    known = (each.status for each in _kinds(APIError) if each.default_code == code)
    return other if code is None else next(known, other)


def _kinds(error: type[APIError]) -> Iterator[type[APIError]]:
    yield error
    for each in error.__subclasses__():
        yield from _kinds(each)
