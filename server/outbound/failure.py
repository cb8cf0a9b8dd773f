"""The `error` event of the Responses API."""

from server.errors import APIError
from server.generation.runs import WireEvent


def error_event(error: APIError) -> WireEvent:
    """The `error` event, without a sequence number.

    The error's fields are at the top level, where the SDK reads them, and repeated under `error`,
    where Open Responses has them.
    """
    fields = error.body()["error"]
    flat = {key: fields[key] for key in ("code", "message", "param")}
    return {"type": "error", **flat, "error": fields}
