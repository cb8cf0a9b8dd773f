"""The sandbox `http`: sessions run in the service `gpt-oss-server python-sandbox`."""

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any, TypeVar
from urllib.parse import quote

import httpx

from adapters.cancel_safe import CancelSafeTransport
from server.tools.python.sandbox import (
    CellEnd,
    CellEvent,
    SandboxError,
    SandboxFile,
    SandboxLimits,
    SandboxUnavailable,
)
from server.tools.python.wire import (
    ALIVE_SECONDS,
    InvalidBody,
    decode_error,
    decode_event,
    decode_file,
    decode_files,
    decode_json,
    decode_status,
    encode_key,
    encode_limits,
)

logger = logging.getLogger(__name__)

T = TypeVar("T")

_TIMEOUT = httpx.Timeout(10, read=3 * ALIVE_SECONDS)
_RETRY_SECONDS = 5.0


class RemoteSandbox:
    """Runs sessions in a service. url: its address. key: its key; None: it needs none."""

    def __init__(
        self, url: str, key: str | None, *, transport: httpx.AsyncBaseTransport | None = None
    ) -> None:
        # Bytes: httpx refuses text beyond ASCII.
        headers = {} if key is None else {b"authorization": b"Bearer " + encode_key(key)}
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=64)
        connections = transport or httpx.AsyncHTTPTransport(limits=limits, trust_env=False)
        self._client = httpx.AsyncClient(
            base_url=url,
            headers=headers,
            timeout=_TIMEOUT,
            transport=CancelSafeTransport(connections),
            # A proxy would see the code of all sessions.
            trust_env=False,
        )
        self._problem: str | None = "it has not been started"
        self._layers: Mapping[str, str] = {}
        self._retrying: asyncio.Task[None] | None = None

    @property
    def problem(self) -> str | None:
        """Why no session can run, None if they can."""
        return self._problem

    @property
    def layers(self) -> Mapping[str, str]:
        """The layers of the service's machine."""
        return self._layers

    async def start(self) -> None:
        """Ask the service for its state. Where it does not answer, it is asked again later."""
        await self._ask_state()
        if self._problem is not None:
            self._retrying = asyncio.create_task(self._retry())

    async def stop(self) -> None:
        """Close the connections. Sessions of the service go on until they are closed."""
        if self._retrying is not None:
            self._retrying.cancel()
            with suppress(asyncio.CancelledError):
                await self._retrying
        self._problem = "it has been stopped"
        await self._client.aclose()

    async def create(self, session: str, limits: SandboxLimits) -> None:
        """Make the session's folder. Idempotent."""
        await self._call("PUT", _path(session), json=encode_limits(limits))

    async def resume(self, session: str, limits: SandboxLimits) -> None:
        """Find the session that was created. Idempotent."""
        await self._call("POST", _path(session), json=encode_limits(limits))

    async def run(
        self,
        session: str,
        code: str,
        timeout: float,  # noqa: ASYNC109 - the cell is interrupted, not this coroutine
    ) -> AsyncGenerator[CellEvent, None]:
        """Run a cell; see `PythonSandbox`."""
        body = {"code": code, "timeout": timeout}
        async with self._open("POST", _path(session, "cells"), json=body) as response:
            lines = response.aiter_lines()
            has_begun = False
            try:
                async for line in lines:
                    if line:
                        event = decode_event(line)
                        has_begun = True
                        yield event
                        if isinstance(event, CellEnd):
                            return
                reason = "the sandbox ended its answer too early"
            except SandboxError as error:
                if not has_begun:
                    raise
                reason = f"the sandbox failed: {error}"
            except (httpx.HTTPError, ValueError) as error:
                reason = f"the sandbox failed: {type(error).__name__}"
            yield CellEnd("died", reason)

    async def files(self, session: str) -> list[SandboxFile]:
        """The files of the session's folder, sorted by path."""
        return await self._ask(decode_files, "GET", _path(session, "files"))

    async def read(self, session: str, path: str) -> AsyncIterator[bytes]:
        """The content of a file."""
        async with self._open("GET", _path(session, "files", path)) as response:
            try:
                async for chunk in response.aiter_bytes():
                    yield chunk
            except httpx.HTTPError as error:
                raise SandboxUnavailable(_described(error)) from error

    async def write(self, session: str, path: str, content: AsyncIterator[bytes]) -> SandboxFile:
        """Write a file; see `PythonSandbox`."""
        return await self._ask(decode_file, "PUT", _path(session, "files", path), content=content)

    async def delete(self, session: str, path: str) -> None:
        """Delete a file."""
        await self._call("DELETE", _path(session, "files", path))

    async def close(self, session: str) -> None:
        """Kill the session's processes and delete its folder. Idempotent."""
        await self._call("DELETE", _path(session))

    async def _ask_state(self) -> None:
        try:
            status = await self._ask(decode_status, "GET", "/status")
            self._problem, self._layers = status.problem, status.layers
        except SandboxError as error:
            self._problem = str(error)

    async def _retry(self) -> None:
        while self._problem is not None:
            await asyncio.sleep(_RETRY_SECONDS)
            await self._ask_state()
        logger.info("The Python sandbox can be used now")

    async def _ask(self, decode: Callable[[Any], T], method: str, path: str, **content: Any) -> T:
        """What the service answers. Raises its error, or SandboxUnavailable if it is none of its
        answers."""
        response = await self._call(method, path, **content)
        try:
            return decode(decode_json(response.content))
        except InvalidBody as error:
            raise SandboxUnavailable(f"the sandbox's answer is not valid: {error}") from error

    async def _call(self, method: str, path: str, **content: Any) -> httpx.Response:
        async with self._open(method, path, **content) as response:
            try:
                await response.aread()
            except httpx.HTTPError as error:
                raise SandboxUnavailable(_described(error)) from error
            return response

    @asynccontextmanager
    async def _open(
        self, method: str, path: str, **content: Any
    ) -> AsyncGenerator[httpx.Response, None]:
        """A request whose answer is a success. Raises the service's error."""
        request = self._client.build_request(method, path, **content)
        try:
            response = await self._client.send(request, stream=True)
        except httpx.HTTPError as error:
            raise SandboxUnavailable(_described(error)) from error
        try:
            if response.is_error:
                raise await _error(response)
            yield response
        finally:
            await response.aclose()


async def _error(response: httpx.Response) -> Exception:
    if response.status_code == httpx.codes.UNAUTHORIZED:
        return SandboxUnavailable("the sandbox refuses the key (--python-sandbox-key)")
    try:
        body = decode_json(await response.aread())
    except (httpx.HTTPError, InvalidBody):
        body = None
    return decode_error(body, response.status_code)


def _path(session: str, *parts: str) -> str:
    return "/".join(("/sessions", quote(session, safe=""), *map(quote, parts)))


def _described(error: httpx.HTTPError) -> str:
    return f"the sandbox cannot be reached: {type(error).__name__}"
