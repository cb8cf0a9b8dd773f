"""The traffic of the server: requests that have ended or were refused, and what is open now."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

WEBSOCKET = "WS"
"""The method of a WebSocket."""


@dataclass(frozen=True, slots=True)
class RequestEnded:
    """A request, or a WebSocket, that has ended.

    route: the path with the names of its parameters, None if it matched none. method: as the client
    sent it, `WEBSOCKET` for a WebSocket. status: None if it was not answered, 101 for a WebSocket
    that was accepted. error: the code of the error that answered it; None if no error did, or one
    without a code.
    """

    route: str | None
    method: str
    status: int | None
    error: str | None


class TrafficObserver:
    """Ignores what it observes. Subclasses count it; their methods do not raise."""

    def request_ended(self, request: RequestEnded) -> None:
        """A request has ended."""

    def refused(self, code: str | None) -> None:
        """A request was refused before it was read, or on an open WebSocket. code: the error's."""


class Traffic:
    """The streams and WebSockets that are open, and the observer of requests."""

    def __init__(self, observer: TrafficObserver | None = None) -> None:
        self.observer = observer or TrafficObserver()
        self._streams: set[object] = set()
        self._sockets: set[object] = set()

    @property
    def streams(self) -> int:
        """Answers as server-sent events that are being sent."""
        return len(self._streams)

    @property
    def sockets(self) -> int:
        """WebSockets that were accepted and are open."""
        return len(self._sockets)

    @contextmanager
    def request(self) -> Iterator["OpenRequest"]:
        """A request, until the end of the block."""
        opened = OpenRequest(self._streams, self._sockets)
        try:
            yield opened
        finally:
            self._streams.discard(opened)
            self._sockets.discard(opened)


class OpenRequest:
    """A request that is being answered. It is open for as long as its application runs."""

    def __init__(self, streams: set[object], sockets: set[object]) -> None:
        self._streams = streams
        self._sockets = sockets

    def streams(self) -> None:
        """Its answer is a stream."""
        self._streams.add(self)

    def accepted(self) -> None:
        """It is a WebSocket, which was accepted."""
        self._sockets.add(self)
