"""Waits for a client to disconnect."""

from starlette.types import Receive


async def wait_for_disconnect(receive: Receive) -> None:
    """Return when the client has disconnected. Messages before that are dropped."""
    while (await receive())["type"] != "http.disconnect":
        continue
