"""Which web pages may open a WebSocket: the same that may call from another origin.

A browser lets any page open one to any server, and leaves it to the server to look at who asks.

Source: RFC 6455, 10.2.
"""

from starlette.requests import HTTPConnection

from server.context import context_of
from server.errors import Forbidden


def refuse_foreign_pages(connection: HTTPConnection) -> None:
    """Raises Forbidden for a page of an origin that is neither this server's own nor allowed.

    Clients that are no browsers send no origin.
    """
    origin = connection.headers.get("origin")
    host = connection.headers.get("host")
    allowed = context_of(connection).settings.cors_origin
    fine = (None, f"http://{host}", f"https://{host}", *allowed)
    if origin not in fine and "*" not in allowed:
        raise Forbidden(f"Pages of {origin} may not connect; --cors-origin allows more.")
