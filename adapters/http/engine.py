"""One running inference server as a backend: token ids in and out over HTTP."""

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from typing import Any

import httpx
import orjson

from adapters.base import VOCAB_SIZE, BackendInfo, GenerationChunk, GenerationRequest
from adapters.bounds import bounded
from adapters.errors import (
    BackendError,
    ContextTooLong,
    EngineFault,
    NotReady,
    Overloaded,
    Unreached,
    Unsupported,
)
from adapters.http.options import Options
from adapters.http.sse import EventLines
from adapters.http.wire import JSON, Reader, ServerInfo, Wire, error_of_status
from adapters.phases import split_by_phase

logger = logging.getLogger(__name__)

_QUOTED_BYTES = 500
# Most of it is for the test completion of llama.cpp.
_DESCRIBE_SECONDS = 30.0
# Shorter than the keep-alive of servers (uvicorn: 5), so that none closes a connection in use.
_IDLE_SECONDS = 2.0
# Without ReadTimeout, since after minutes the engine already has the request.
_UNREACHED = (httpx.ConnectTimeout, httpx.NetworkError, httpx.RemoteProtocolError)


class HTTPEngine:
    """Implements `adapters.base.Backend` for the server at `url`, with the protocol `wire`."""

    def __init__(self, url: str, wire: Wire, options: Options) -> None:
        self.name = url
        self._wire = wire
        self._options = options
        self._server: ServerInfo | None = None
        self._client: httpx.AsyncClient | None = None

    @property
    def info(self) -> BackendInfo:
        server = self._server
        if server is None:
            raise EngineFault(f"{self.name} has not been reached")
        return BackendInfo(
            self._wire.name,
            server.model,
            server.context_length,
            VOCAB_SIZE,
            server.features,
            max_requests=server.max_requests,
        )

    async def start(self) -> None:
        """Connect, and request the server's properties. May be repeated after BackendFailed."""
        if self._client is None:
            self._client = self._connect()
        try:
            async with asyncio.timeout(_DESCRIBE_SECONDS):
                self._server = await self._wire.describe(self._client)
        except TimeoutError as error:
            raise EngineFault(f"{self.name} does not say what it serves") from error
        except httpx.HTTPStatusError as error:
            status = error.response.status_code
            raise EngineFault(f"{self.name} answered {status} to {error.request.url}") from error
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise self._failed(error) from error
        except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
            raise EngineFault(f"{self.name} is no {self._wire.name} server: {error!r}") from error

    def _connect(self) -> httpx.AsyncClient:
        options = self._options
        key = {"authorization": f"Bearer {options.api_key}"} if options.api_key else {}
        try:
            return httpx.AsyncClient(
                base_url=self.name,
                headers={"accept-encoding": "identity", **key},
                timeout=httpx.Timeout(options.timeout_seconds, connect=options.connect_seconds),
                # The gateway limits the requests. Idle connections stay open for the next turn.
                limits=httpx.Limits(
                    max_connections=None,
                    max_keepalive_connections=64,
                    keepalive_expiry=_IDLE_SECONDS,
                ),
                trust_env=False,
            )
        except httpx.InvalidURL as error:
            raise EngineFault(f"{self.name} is no URL: {error}") from error

    async def stop(self) -> None:
        client, self._client = self._client, None
        self._server = None
        if client is not None:
            await client.aclose()

    async def check(self) -> None:
        client = self._running()
        try:
            answer = await client.get("/health", timeout=self._options.health_timeout_seconds)
        except httpx.HTTPError as error:
            raise self._failed(error) from error
        if answer.status_code != httpx.codes.OK:
            raise EngineFault(f"{self.name} is not healthy: it answered {answer.status_code}")

    def generate(self, request: GenerationRequest) -> AsyncGenerator[GenerationChunk, None]:
        request = bounded(request, VOCAB_SIZE)
        if request.phases:
            return split_by_phase(self._generate, request, self._wire.name)
        return self._generate(request)

    async def _generate(self, request: GenerationRequest) -> AsyncGenerator[GenerationChunk, None]:
        client = self._running()
        body = self._body(request)
        reader = self._wire.reader(request)
        try:
            async with client.stream(
                "POST",
                self._wire.path,
                content=body,
                headers={
                    "content-type": "application/json",
                    "connection": "keep-alive" if self._wire.reusable else "close",
                    "x-request-id": request.request_id,
                },
            ) as response:
                if response.status_code != httpx.codes.OK:
                    raise await self._error_of(response, request)
                received = response.aiter_raw()
                try:
                    async for chunk in self._chunks(received, reader):
                        yield chunk
                except GeneratorExit:
                    if not response.is_closed:
                        await self._wire.leave(response, received)
                    raise
        except (httpx.HTTPError, httpx.StreamError) as error:
            raise self._failed(error) from error

    async def _chunks(
        self, received: AsyncIterator[bytes], reader: Reader
    ) -> AsyncIterator[GenerationChunk]:
        lines = EventLines()
        async for part in received:
            chunks = [
                chunk
                for line in lines.push(part)
                if line != b"[DONE]" and (chunk := self._read(line, reader)) is not None
            ]
            if chunks:
                yield _merged(chunks)
        yield reader.finish()

    def _read(self, line: bytes, reader: Reader) -> GenerationChunk | None:
        try:
            event = orjson.loads(line)
            if not isinstance(event, dict):
                raise TypeError("not an object")
            return reader.push(event)
        except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
            start = line[:_QUOTED_BYTES].decode(errors="replace")
            raise EngineFault(f"{self.name} sent what cannot be read: {start}") from error

    def _body(self, request: GenerationRequest) -> bytes:
        info = self.info
        length = len(request.prompt_token_ids)
        if length + request.max_tokens > info.context_length:
            raise ContextTooLong(length, info.context_length)
        if request.grammar is not None and "grammar" not in info.features:
            raise Unsupported("a grammar", info.name)
        assert self._server is not None
        return orjson.dumps(self._wire.body(request, self._server), option=orjson.OPT_NON_STR_KEYS)

    async def _error_of(self, response: httpx.Response, request: GenerationRequest) -> BackendError:
        message = message_of(await response.aread())
        status = response.status_code
        logger.warning("%s answered %d to request %s", self.name, status, request.request_id)
        retry_after = response.headers.get("retry-after", "")
        seconds = float(retry_after) if retry_after.isdecimal() else 1.0
        if status == httpx.codes.TOO_MANY_REQUESTS:
            return Overloaded("the engine is busy", seconds)
        if status == httpx.codes.SERVICE_UNAVAILABLE:
            return NotReady("the engine takes no requests now", seconds)
        return error_of_status(status, message, request, self._wire.refused_statuses)

    def _running(self) -> httpx.AsyncClient:
        if self._client is None:
            raise EngineFault(f"the connection to {self.name} is closed")
        return self._client

    def _failed(self, error: Exception) -> EngineFault:
        if self._client is None:
            return EngineFault(f"the connection to {self.name} was closed")
        reason = f"{self.name} cannot be reached: {type(error).__name__}: {error}"
        logger.warning("%s", reason)
        return Unreached(reason) if isinstance(error, _UNREACHED) else EngineFault(reason)


def message_of(body: bytes) -> str:
    """The message in the error response of a server, in any of the usual formats; truncated."""
    try:
        value: Any = orjson.loads(body)
        for key in ("error", "message", "detail"):
            if isinstance(value, Mapping) and key in value:
                value = value[key]
    except ValueError:
        value = body.decode(errors="replace")
    return str(value)[:_QUOTED_BYTES]


def _merged(chunks: list[GenerationChunk]) -> GenerationChunk:
    """Chunks that arrived together, as one. None of them is the last one of the generation."""
    if len(chunks) == 1:
        return chunks[0]
    logprobs = [one.logprobs for one in chunks if one.logprobs is not None]
    return GenerationChunk(
        tuple(token_id for chunk in chunks for token_id in chunk.token_ids),
        tuple(entry for part in logprobs for entry in part) if logprobs else None,
        cached_tokens=next(
            (one.cached_tokens for one in chunks if one.cached_tokens is not None), None
        ),
    )


def error_of_event(event: JSON) -> tuple[int, str] | None:
    """Status and message of an event in the error format of OpenAI-like servers, else None."""
    error = event.get("error")
    if error is None:
        return None
    if isinstance(error, Mapping):
        code = error.get("code")
        return code if isinstance(code, int) else 500, str(error.get("message", error))
    return 500, str(error)
