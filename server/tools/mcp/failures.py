"""What goes wrong with a server, in the forms of the API.

Texts of exceptions are not passed on: they may hold URLs, addresses of the operator's network, and
parts of what a server sent.
"""

from collections.abc import Mapping
from typing import Any

# Codes of JSON-RPC and of the SDK.
INTERNAL_ERROR = -32603
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
CONNECTION_CLOSED = -32000
REQUEST_TIMEOUT = -32001

MAX_MESSAGE = 1000


class Failure(Exception):
    """A server failed to connect, to list its tools or to run a call.

    type: `mcp_protocol_error` or `http_error`. code: of JSON-RPC or of HTTP. message: for the
    client and the model.
    """

    def __init__(self, type: str, code: int, message: str) -> None:
        super().__init__(message)
        self.type = type
        self.code = code
        self.message = message

    @property
    def fields(self) -> Mapping[str, Any]:
        """The `error` of an item `mcp_call`."""
        return {"type": self.type, "code": self.code, "message": self.message}


def protocol_error(message: str, code: int = INTERNAL_ERROR) -> Failure:
    """A failure of the protocol or of the connection. message: shortened if it is long."""
    return Failure("mcp_protocol_error", code, message[:MAX_MESSAGE])


def http_error(status: int, reason: str) -> Failure:
    """A failure that the server reported by the status of a response."""
    return Failure("http_error", status, f"The server answered with HTTP {status} ({reason}).")


def timed_out(seconds: float, work: str) -> Failure:
    """A failure to finish in time. work: what took too long, such as `The call`."""
    return protocol_error(f"{work} took more than {seconds:g} seconds.", REQUEST_TIMEOUT)
