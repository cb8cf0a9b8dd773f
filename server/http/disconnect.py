"""Whether a client is still there."""

from starlette.types import Receive


async def left(receive: Receive) -> None:
    """Return when the client has left. What it sends until then is passed over."""
    while (await receive())["type"] != "http.disconnect":
        continue
