"""The interface between `HTTPEngine` and the HTTP protocols of inference servers."""

from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass, replace
from typing import Any, Protocol

import httpx

from adapters.base import (
    LEAST_LOGPROB,
    VOCAB_SIZE,
    GenerationChunk,
    GenerationRequest,
    TokenLogprobs,
)
from adapters.errors import EngineFault

JSON = dict[str, Any]

MALFORMED = (
    ArithmeticError,
    AttributeError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
)
"""The errors of code that reads JSON which has another form than expected."""


@dataclass(frozen=True, slots=True)
class ServerInfo:
    """The properties of a server.

    model: the name of the model at the server. context_length: in tokens. features: a subset of
    `adapters.base.FEATURES`. max_requests: the number of requests that it computes at once; None if
    unknown. Raises ValueError where a server said something of another type.
    """

    model: str
    context_length: int
    features: frozenset[str]
    max_requests: int | None = None

    def __post_init__(self) -> None:
        model: Any = self.model
        counts = (self.context_length, 1 if self.max_requests is None else self.max_requests)
        if type(model) is not str or any(type(count) is not int or count < 1 for count in counts):
            raise ValueError("a property has a wrong type or value")


class Reader(Protocol):
    """Reads the events of one generation."""

    def push(self, event: JSON) -> GenerationChunk | None:
        """The tokens of an event, or None. The last chunk is returned by `finish`.

        Raises BackendError for an error event and for one after the end of the answer, and one of
        `MALFORMED` for a malformed event.
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


def bounded_logprob(value: float | None) -> float:
    """`value`, or `LEAST_LOGPROB` if it is lower, NaN or None."""
    return value if value is not None and value > LEAST_LOGPROB else LEAST_LOGPROB


class ChunkCheck:
    """Checks the chunks of one answer, since an engine is another program with other faults."""

    def __init__(self, request: GenerationRequest) -> None:
        self._room = request.max_tokens

    def checked(self, chunk: GenerationChunk) -> GenerationChunk:
        """`chunk`; its number of cached tokens becomes None if it is not an integer from 0 on.

        Raises EngineFault for more tokens than were requested, for ids outside of the vocabulary,
        and for logprobs of other tokens.
        """
        self._room -= len(chunk.token_ids)
        if self._room < 0:
            raise EngineFault("the engine sent more tokens than were requested")
        if not _are_ids(chunk.token_ids):
            raise EngineFault("the engine sent ids of no tokens")
        if chunk.logprobs is not None:
            _check_logprobs(chunk.token_ids, chunk.logprobs)
        cached = chunk.cached_tokens
        if cached is None or (type(cached) is int and cached >= 0):
            return chunk
        return replace(chunk, cached_tokens=None)


def _are_ids(values: Iterable[int]) -> bool:
    return all(type(value) is int and 0 <= value < VOCAB_SIZE for value in values)


def _check_logprobs(token_ids: tuple[int, ...], logprobs: tuple[TokenLogprobs, ...]) -> None:
    if tuple(entry.token_id for entry in logprobs) != token_ids:
        raise EngineFault("the engine sent logprobs of other tokens")
    if not _are_ids(token_id for entry in logprobs for token_id, _ in entry.top):
        raise EngineFault("the engine sent logprobs of no tokens")
