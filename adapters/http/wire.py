"""The interface between `HTTPEngine` and the HTTP protocols of inference servers."""

from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass, replace
from typing import Any, Protocol

import httpx

from adapters.base import (
    LEAST_LOGPROB,
    VOCAB_SIZE,
    FinishReason,
    GenerationChunk,
    GenerationRequest,
    TokenLogprobs,
)
from adapters.errors import (
    BackendError,
    BackendFailed,
    EngineFault,
    InvalidGrammar,
    Mismatch,
    Rejected,
)
from adapters.reasons import finish_reason

JSON = dict[str, Any]

_FINISH_WORDS = frozenset({"stop", "length", "abort", "error"})


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
    """The error for an error status. refused_statuses: as in `Wire`.

    message: from the server; the error does not contain it, since it may quote hosts and prompts.
    """
    reason = f"the engine answered {status}"
    if status not in refused_statuses:
        is_client_error = httpx.codes.is_client_error(status)
        return Mismatch(reason) if is_client_error else EngineFault(reason)
    if request.grammar is not None and "grammar" in message.lower():
        return InvalidGrammar("the engine does not take the request's grammar")
    return Rejected(reason)


def reason_of_finish(word: object, engine: str) -> FinishReason:
    """`finish_reason`, which quotes the word in its error, for the word of another program."""
    return finish_reason(str(word) if word in _FINISH_WORDS else "unknown", engine)


def bounded_logprob(value: float | None) -> float:
    """`value`, or `LEAST_LOGPROB` if it is lower, missing or not a number."""
    return value if value is not None and value > LEAST_LOGPROB else LEAST_LOGPROB


class ChunkCheck:
    """Checks the chunks of one answer, since an engine is another program with other faults."""

    def __init__(self, request: GenerationRequest) -> None:
        self._room = request.max_tokens

    def checked(self, chunk: GenerationChunk) -> GenerationChunk:
        """`chunk`, without a count of cached tokens that is none.

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


class LastChunk:
    """Stores the last chunk of a generation until the stream has ended."""

    def __init__(self, engine: str) -> None:
        self._engine = engine
        self._last: GenerationChunk | None = None

    def expect_more(self) -> None:
        """Raises EngineFault if the last chunk has been stored: nothing may follow it."""
        if self._last is not None:
            raise EngineFault(f"the {self._engine} engine sent more after the end of the answer")

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
