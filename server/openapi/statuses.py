"""The statuses of errors in the document, from the classes of server.errors."""

import re
from collections.abc import Iterator
from typing import Any

from server import errors
from server.errors import APIError

ALWAYS = (403, 421, 431, 500, 503)
"""Those that any request may get."""

WITH_KEY = (401,)
"""Those that a request may get where a key is needed."""

WITH_QUERY = (400,)
"""Those that a request with parameters may get."""

WITH_BODY = (400, 408, 413, 415)
"""Those that a request with a body may get."""

WITH_IDEMPOTENCY_KEY = (422,)
"""Those that a POST may get."""

HEADERS = {
    401: ("WWW-Authenticate", "The scheme of the key."),
    415: ("Accept-Encoding", "The encodings that are known."),
    416: ("Content-Range", "The size of the file."),
    429: ("Retry-After", "Seconds to wait."),
    503: ("Retry-After", "Seconds to wait."),
}
X_REQUEST_ID = {"x-request-id": {"$ref": "#/components/headers/x-request-id"}}


def name(status: int) -> str:
    """The name of a status in the document's components."""
    return f"Error{status}"


def responses(schema: dict[str, Any]) -> dict[str, Any]:
    """A response for each status that an error has. schema: that of the body."""
    kinds: dict[int, list[type[APIError]]] = {}
    for kind in _kinds():
        kinds.setdefault(kind.status, []).append(kind)
    return {name(status): _response(schema, kinds[status]) for status in sorted(kinds)}


def _kinds() -> Iterator[type[APIError]]:
    for value in vars(errors).values():
        if isinstance(value, type) and issubclass(value, APIError) and value is not APIError:
            yield value


def _response(schema: dict[str, Any], kinds: list[type[APIError]]) -> dict[str, Any]:
    status = kinds[0].status
    lines = [
        f"`{kind.default_code}`: {_cause(kind)}" if kind.default_code else _cause(kind)
        for kind in kinds
    ]
    headers: dict[str, Any] = dict(X_REQUEST_ID)
    if status in HEADERS:
        header, about = HEADERS[status]
        headers[header] = {"description": about, "schema": {"type": "string"}}
    examples = {
        kind.default_code or kind.type: {
            "value": {
                "error": {
                    "message": _cause(kind),
                    "type": kind.type,
                    "param": None,
                    "code": kind.default_code,
                }
            }
        }
        for kind in kinds
    }
    return {
        "description": "\n\n".join(lines),
        "headers": headers,
        "content": {"application/json": {"schema": schema, "examples": examples}},
    }


def _cause(kind: type[APIError]) -> str:
    """The first clause of the class's docstring."""
    return re.split(r"[.;]\s|[.;]$", kind.__doc__ or "")[0] + "."
