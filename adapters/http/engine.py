"""One running inference server as a backend: token ids in and out over HTTP."""

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, suppress

import httpx
import orjson

from adapters.base import VOCAB_SIZE, BackendInfo, GenerationChunk, GenerationRequest
from adapters.bounds import bounded, check_length
from adapters.cancel_safe import CancelSafeTransport
from adapters.errors import BackendError, EngineFault, Lost, Unreached, Unsupported
from adapters.http.options import Options, without_user
from adapters.http.refusals import error_of_response
from adapters.http.sse import EventLines
from adapters.http.wire import MALFORMED, ChunkCheck, Reader, ServerInfo, Wire
from adapters.phases import split_by_phase

logger = logging.getLogger(__name__)

_DONE = b"[DONE]"
# For the end of a response after its last event. It arrives with the event as a rule.
_END_SECONDS = 0.1
# Most of it is for the test completion of llama.cpp.
_DESCRIBE_SECONDS = 30.0
# Shorter than the keep-alive of servers (uvicorn: 5), so that none closes a connection in use.
_IDLE_SECONDS = 2.0
# Without ReadTimeout, since after minutes the engine already has the request.
_UNREACHED = (httpx.ConnectTimeout, httpx.NetworkError)
# After the request was sent. This is how an engine looks whose process ends.
_LOST = (httpx.ReadError, httpx.RemoteProtocolError)


class HTTPEngine:
    """Implements `adapters.base.Backend` for the server at `url`, with the protocol `wire`.

    name: the URL without user and password. Messages of errors and of the log contain it, but
    nothing that the server sent: that may quote prompts.
    """

    def __init__(self, url: str, wire: Wire, options: Options) -> None:
        self.name = without_user(url)
        self._url = url
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
        """Connect, and request the server's properties. May be repeated, also during requests."""
        if self._client is None:
            self._client = self._connect()
        try:
            async with asyncio.timeout(_DESCRIBE_SECONDS):
                self._server = await self._wire.describe(self._client)
        except TimeoutError as error:
            raise EngineFault(f"{self.name} does not say what it serves") from error
        except httpx.HTTPStatusError as error:
            status = error.response.status_code
            path = error.request.url.path
            raise EngineFault(f"{self.name} answered {status} to {path}") from error
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise self._failed(error) from error
        except MALFORMED as error:
            kind = type(error).__name__
            raise EngineFault(f"{self.name} is no {self._wire.name} server: {kind}") from error

    def _connect(self) -> httpx.AsyncClient:
        options = self._options
        key = {"authorization": f"Bearer {options.api_key}"} if options.api_key else {}
        try:
            url = httpx.URL(self._url)
            return httpx.AsyncClient(
                base_url=self.name,
                auth=(url.username, url.password) if url.userinfo else None,
                headers={"accept-encoding": "identity", **key},
                timeout=httpx.Timeout(options.timeout_seconds, connect=options.connect_seconds),
                transport=CancelSafeTransport(_connections()),
                trust_env=False,  # no proxies
            )
        except httpx.InvalidURL as error:
            raise EngineFault(f"{self.name} is no URL") from error
        except OSError as error:
            raise EngineFault(f"the certificate authorities cannot be read: {error}") from error

    async def stop(self) -> None:
        client, self._client = self._client, None
        self._server = None
        if client is not None:
            await client.aclose()

    async def check(self) -> None:
        client = self._running()
        try:
            async with (
                asyncio.timeout(self._options.health_timeout_seconds),
                client.stream("GET", "/health") as answer,
            ):
                status = answer.status_code
        except TimeoutError as error:
            raise EngineFault(f"{self.name} does not answer health checks") from error
        except httpx.HTTPError as error:
            raise self._failed(error) from error
        if status != httpx.codes.OK:
            raise EngineFault(f"{self.name} is not healthy: it answered {status}")

    def generate(self, request: GenerationRequest) -> AsyncGenerator[GenerationChunk, None]:
        return split_by_phase(self._generate, bounded(request, VOCAB_SIZE), self._wire.name)

    async def _generate(self, request: GenerationRequest) -> AsyncGenerator[GenerationChunk, None]:
        client = self._running()
        body = self._body(request)
        status: int | None = None
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
                status = response.status_code
                if status != httpx.codes.OK:
                    refused = self._wire.refused_statuses
                    raise await error_of_response(response, request, refused)
                received = response.aiter_raw()
                check = ChunkCheck(request)
                try:
                    async with aclosing(self._chunks(response, received, request)) as chunks:
                        async for chunk in chunks:
                            yield check.checked(chunk)
                except GeneratorExit:
                    if not response.is_closed:
                        await self._wire.leave(response, received)
                    raise
        except (httpx.HTTPError, httpx.StreamError) as error:
            failure = self._failed(error)
            self._log(failure, status, request)
            raise failure from error
        except BackendError as error:
            self._log(error, status, request)
            raise

    async def _chunks(
        self, response: httpx.Response, received: AsyncIterator[bytes], request: GenerationRequest
    ) -> AsyncGenerator[GenerationChunk, None]:
        lines, reader = EventLines(), self._wire.reader(request)
        async for part in received:
            events = lines.push(part)
            is_done = _DONE in events
            if is_done:
                del events[events.index(_DONE) :]
            chunks, failure = self._read_all(events, reader)
            if chunks:
                yield _merged(chunks)
            if failure is not None:
                raise failure
            if is_done:
                await _end(response, received)
                break
        yield reader.finish()

    def _read_all(
        self, events: list[bytes], reader: Reader
    ) -> tuple[list[GenerationChunk], BackendError | None]:
        """The chunks with tokens, and the error that the events after them have, if any."""
        chunks: list[GenerationChunk] = []
        try:
            for event in events:
                chunk = self._read(event, reader)
                if chunk is not None and chunk.token_ids:
                    chunks.append(chunk)
        except BackendError as error:
            return chunks, error
        return chunks, None

    def _read(self, line: bytes, reader: Reader) -> GenerationChunk | None:
        try:
            event = orjson.loads(line)
            if not isinstance(event, dict):
                raise TypeError("not an object")
            return reader.push(event)
        except MALFORMED as error:
            kind = type(error).__name__
            raise EngineFault(f"{self.name} sent what cannot be read: {kind}") from error

    def _body(self, request: GenerationRequest) -> bytes:
        info = self.info
        check_length(request, info.context_length)
        if request.grammar is not None and "grammar" not in info.features:
            raise Unsupported("a grammar", info.name)
        assert self._server is not None
        return orjson.dumps(self._wire.body(request, self._server), option=orjson.OPT_NON_STR_KEYS)

    def _log(self, error: BackendError, status: int | None, request: GenerationRequest) -> None:
        """Log a failure. status: of the response, None if none came."""
        logger.warning(
            "%s did not serve request %s: %s, status %s: %s",
            self.name,
            request.request_id,
            type(error).__name__,
            status or "none",
            error,
        )

    def _running(self) -> httpx.AsyncClient:
        if self._client is None:
            raise EngineFault(f"the connection to {self.name} is closed")
        return self._client

    def _failed(self, error: Exception) -> EngineFault:
        if self._client is None:
            return EngineFault(f"the connection to {self.name} was closed")
        # The system's text. Those of other errors quote headers, or what the server sent.
        detail = f": {error}" if isinstance(error, httpx.NetworkError) else ""
        reason = f"{self.name} cannot be reached: {type(error).__name__}{detail}"
        if isinstance(error, _LOST):
            return Lost(reason)
        return Unreached(reason) if isinstance(error, _UNREACHED) else EngineFault(reason)


async def _end(response: httpx.Response, received: AsyncIterator[bytes]) -> None:
    """Read the end of a response, so that its connection can be used again; else close it."""
    with suppress(TimeoutError, httpx.HTTPError, httpx.StreamError):
        async with asyncio.timeout(_END_SECONDS):
            async for _ in received:
                pass
    await response.aclose()


def _connections() -> httpx.AsyncHTTPTransport:
    return httpx.AsyncHTTPTransport(
        # The gateway limits the requests. Idle connections stay open for the next turn.
        limits=httpx.Limits(
            max_connections=None, max_keepalive_connections=64, keepalive_expiry=_IDLE_SECONDS
        ),
        trust_env=False,
        verify=httpx.create_ssl_context(),  # with the authorities of SSL_CERT_FILE
    )


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
