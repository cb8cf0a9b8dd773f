"""What an inference server's HTTP interface looks like, as far as `HTTPEngine` must know."""

from dataclasses import dataclass
from typing import Any, Protocol

import httpx

from adapters.base import GenerationChunk, GenerationRequest
from adapters.errors import BackendError, BackendFailed, EngineFault, InvalidGrammar, Rejected

JSON = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Served:
    """What a server serves: the model's name there, the context's length in tokens, features.

    max_requests: requests that it computes at once; None where it does not say.
    """

    model: str
    context_length: int
    features: frozenset[str]
    max_requests: int | None = None


class Reader(Protocol):
    """Reads the events of one generation."""

    def push(self, event: JSON) -> GenerationChunk | None:
        """The tokens that an event brings; the last ones may be held for `finish`.

        Raises BackendError where the event tells of one. A KeyError, IndexError, TypeError,
        ValueError or AttributeError means that the event is not what such a server sends.
        """
        ...

    def finish(self) -> GenerationChunk:
        """The last chunk, once all events are read. Raises BackendFailed where there is none."""
        ...


class Wire(Protocol):
    """One kind of server: where to ask, how, and how to read the answer.

    name: the backend's. path: where completions are asked for. refused: statuses that mean that
    the request is at fault, and would be everywhere. reusable: whether a connection can be used
    again after a stream.
    """

    name: str
    path: str
    refused: frozenset[int]
    reusable: bool

    async def describe(self, client: httpx.AsyncClient) -> Served:
        """Ask what is served. Raises BackendFailed where it cannot be used, httpx's errors."""
        ...

    def body(self, request: GenerationRequest, served: Served) -> JSON:
        """The request as JSON (orjson, keys need not be strings); it has no phases."""
        ...

    def reader(self, request: GenerationRequest) -> Reader:
        """A reader for the request's answer."""
        ...


BAD_REQUEST = frozenset({int(httpx.codes.BAD_REQUEST)})
"""`Wire.refused` of most: a 422 says that the body is not what this server's version reads."""


def refusal(
    status: int,
    message: str,
    request: GenerationRequest,
    refused: frozenset[int] = BAD_REQUEST,
) -> BackendError:
    """What an error status of a server means; `message` is the server's, `refused` the wire's."""
    told = f"the engine answered {status}: {message}"
    if status not in refused:
        return EngineFault(told)
    if request.grammar is not None and "grammar" in message.lower():
        # Clients are told this; a server's own words name hosts, and may quote prompts.
        return InvalidGrammar("the engine does not take the request's grammar")
    return Rejected(told)


class Ending:
    """Holds a generation's last tokens until all is known about it."""

    def __init__(self, engine: str) -> None:
        self._engine = engine
        self._last: GenerationChunk | None = None

    def hold(self, chunk: GenerationChunk) -> None:
        """Keep the chunk that has the finish reason."""
        self._last = chunk

    def release(self, cached_tokens: int | None) -> GenerationChunk:
        """The last chunk. Raises BackendFailed where the stream was cut off before it."""
        last = self._last
        if last is None:
            raise BackendFailed(f"the {self._engine} engine's answer was cut off")
        return GenerationChunk(
            last.token_ids, last.logprobs, last.finish_reason, cached_tokens=cached_tokens
        )
