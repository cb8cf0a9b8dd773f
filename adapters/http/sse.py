"""Reads server-sent events with one line of JSON each, as inference servers send them."""

from adapters.errors import BackendFailed

_MAX_LINE_BYTES = 64 * 1024 * 1024
_FIELD = b"data:"


class EventLines:
    """Splits a byte stream into the payloads of its `data:` lines."""

    def __init__(self) -> None:
        self._rest: list[bytes] = []
        self._size = 0

    def push(self, received: bytes) -> list[bytes]:
        """The payloads that `received` completes. Raises BackendFailed for a line over 64 MiB."""
        first, *others = received.split(b"\n")
        # The parts of a line are joined once: a long one comes in thousands.
        self._rest.append(first)
        self._size += len(first)
        lines: list[bytes] = []
        if others:
            lines = [b"".join(self._rest), *others[:-1]]
            self._rest, self._size = [others[-1]], len(others[-1])
        if self._size > _MAX_LINE_BYTES:
            raise BackendFailed("the engine sent a line without end")
        return [line[len(_FIELD) :].strip() for line in lines if line.startswith(_FIELD)]
