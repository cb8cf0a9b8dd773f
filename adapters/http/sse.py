"""Reads server-sent events with one line of JSON each, as inference servers send them."""

from adapters.errors import BackendFailed

_MAX_LINE_BYTES = 64 * 1024 * 1024
_FIELD = b"data:"


class EventLines:
    """Splits a byte stream into the payloads of its `data:` lines."""

    def __init__(self) -> None:
        self._rest = b""

    def push(self, received: bytes) -> list[bytes]:
        """The payloads that `received` completes. Raises BackendFailed for a line over 64 MiB."""
        *lines, self._rest = (self._rest + received).split(b"\n")
        if len(self._rest) > _MAX_LINE_BYTES:
            raise BackendFailed("the engine sent a line without end")
        return [line[len(_FIELD) :].strip() for line in lines if line.startswith(_FIELD)]
