"""The event that tells of an error inside a stream of Responses' events."""

from server.errors import APIError
from server.generation.runs import WireEvent


def error_event(error: APIError) -> WireEvent:
    """Flat, as the SDK's type has it, and nested, as Open Responses has it; without a number."""
    told = error.body()["error"]
    flat = {key: told[key] for key in ("code", "message", "param")}
    return {"type": "error", **flat, "error": told}
