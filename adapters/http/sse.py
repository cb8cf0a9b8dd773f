"""Server-sent events as inference servers write them: one line of JSON to an event."""

from adapters.errors import BackendFailed

_LONGEST_LINE = 64 * 1024 * 1024
_FIELD = b"data:"


class EventLines:
    """Cuts a byte stream into the payloads of its `data:` lines."""

    def __init__(self) -> None:
        self._rest = b""

    def push(self, received: bytes) -> list[bytes]:
        """The payloads that `received` completes. Raises BackendFailed for an endless line."""
        *lines, self._rest = (self._rest + received).split(b"\n")
        if len(self._rest) > _LONGEST_LINE:
            raise BackendFailed("the engine sent a line without end")
        return [line[len(_FIELD) :].strip() for line in lines if line.startswith(_FIELD)]
