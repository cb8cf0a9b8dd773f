"""Reads the events of one generation: errors, tokens, and the end."""

from abc import ABC, abstractmethod

import httpx

from adapters.base import GenerationChunk, GenerationRequest
from adapters.errors import BackendError, BackendFailed, EngineFault
from adapters.http.refusals import BAD_REQUEST, error_of_event, error_of_status
from adapters.http.wire import JSON


class EventReader(ABC):
    """Implements `adapters.http.wire.Reader` for events that a subclass converts to chunks.

    engine: the name of the engine in messages. refused_statuses: as in `Wire`.
    """

    engine: str
    refused_statuses = BAD_REQUEST

    def __init__(self, request: GenerationRequest) -> None:
        self._request = request
        self._last: GenerationChunk | None = None

    def push(self, event: JSON) -> GenerationChunk | None:
        if (error := error_of_event(event, self._status_without_code())) is not None:
            raise self._error(*error)
        if self._last is not None:
            raise EngineFault(f"the {self.engine} engine sent more after the end of the answer")
        chunk = self._chunk(event)
        if chunk.finish_reason is None:
            return chunk
        self._last = chunk
        return None

    def finish(self) -> GenerationChunk:
        if self._last is None:
            raise BackendFailed(f"the {self.engine} engine's answer was cut off")
        return self._last

    def _error(self, status: int, message: str) -> BackendError:
        """The error of an error event."""
        return error_of_status(status, message, self._request, self.refused_statuses)

    def _status_without_code(self) -> int:
        """The status of an error event that has none."""
        return httpx.codes.INTERNAL_SERVER_ERROR

    @abstractmethod
    def _chunk(self, event: JSON) -> GenerationChunk:
        """The chunk of an event; the last one has the finish reason. Raises as `Reader.push`."""
