"""The interface between `HTTPEngine` and the HTTP protocols of inference servers."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any, Protocol

import httpx

from adapters.base import GenerationChunk, GenerationRequest
from adapters.errors import BackendError, BackendFailed, EngineFault, InvalidGrammar, Rejected

JSON = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ServerInfo:
    """The properties of a server.

    model: the name of the model at the server. context_length: in tokens. features: a subset of
    `adapters.base.FEATURES`. max_requests: the number of requests that it computes at once; None if
    unknown.
    """

    model: str
    context_length: int
    features: frozenset[str]
    max_requests: int | None = None


class Reader(Protocol):
    """Reads the events of one generation."""

    def push(self, event: JSON) -> GenerationChunk | None:
        """The tokens of an event, or None. The last chunk is returned by `finish`.

        Raises BackendError for an error event, and KeyError, IndexError, TypeError, ValueError or
        AttributeError for a malformed event.
        """
        ...

    def finish(self) -> GenerationChunk:
        """The last chunk, after all events. Raises BackendFailed if there was none."""
        ...


class Wire(Protocol):
    """The protocol of one kind of server.

    name: the name of the backend. path: the path for completions. refused_statuses: the HTTP
    statuses for a request that every server of this kind refuses. reusable: whether a connection
    can be used again after a stream.
    """

    name: str
    path: str
    refused_statuses: frozenset[int]
    reusable: bool

    async def describe(self, client: httpx.AsyncClient) -> ServerInfo:
        """Request the properties. Raises httpx's errors, and BackendFailed if it cannot be used."""
        ...

    def body(self, request: GenerationRequest, server: ServerInfo) -> JSON:
        """The JSON body for a request without phases. Keys may be integers."""
        ...

    def reader(self, request: GenerationRequest) -> Reader:
        """A reader for the events of the response to `request`."""
        ...

    async def leave(self, response: httpx.Response, rest: AsyncIterator[bytes]) -> None:
        """Prepare the server for the closing of a stream that has not ended.

        rest: what remains of the stream. The server's errors are not raised.
        """
        ...


BAD_REQUEST = frozenset({int(httpx.codes.BAD_REQUEST)})
"""The usual `Wire.refused_statuses`. A 422 means that the server's version is incompatible."""


def error_of_status(
    status: int,
    message: str,
    request: GenerationRequest,
    refused_statuses: frozenset[int] = BAD_REQUEST,
) -> BackendError:
    """The error for an error status. message: from the server. refused_statuses: as in `Wire`."""
    reason = f"the engine answered {status}: {message}"
    if status not in refused_statuses:
        return EngineFault(reason)
    if request.grammar is not None and "grammar" in message.lower():
        # Clients receive this message. That of the server may contain hosts and prompts.
        return InvalidGrammar("the engine does not take the request's grammar")
    return Rejected(reason)


class LastChunk:
    """Stores the last chunk of a generation until the stream has ended."""

    def __init__(self, engine: str) -> None:
        self._engine = engine
        self._last: GenerationChunk | None = None

    def set(self, chunk: GenerationChunk) -> None:
        """Store the chunk with the finish reason."""
        self._last = chunk

    def take(self, cached_tokens: int | None) -> GenerationChunk:
        """The last chunk. Raises BackendFailed if the stream ended before it."""
        last = self._last
        if last is None:
            raise BackendFailed(f"the {self._engine} engine's answer was cut off")
        return GenerationChunk(
            last.token_ids, last.logprobs, last.finish_reason, cached_tokens=cached_tokens
        )
