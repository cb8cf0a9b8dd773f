"""The service `gpt-oss-server python-sandbox`: a sandbox that other processes use over HTTP.

    GET    /health                            whether the service runs; needs no key
    GET    /status                            why sessions cannot run, and the layers
    PUT    /sessions/{session}                make a session; the body has its limits
    POST   /sessions/{session}                find one that was made; the body has its limits
    DELETE /sessions/{session}                close it
    POST   /sessions/{session}/cells          run `code` for `timeout` seconds; JSON lines, of which
                                              the last one may be an error
    GET    /sessions/{session}/files          its files
    GET, PUT, DELETE /sessions/{session}/files/{path}

`server.tools.python.remote` is the client.
"""

import asyncio
import dataclasses
import hashlib
import hmac
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from functools import partial
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from server import threads
from server.tools.python.sandbox import (
    SESSION_ID,
    CellEvent,
    PythonSandbox,
    SandboxError,
    SandboxUnavailable,
)
from server.tools.python.wire import (
    ALIVE_SECONDS,
    InvalidBody,
    decode_cell,
    decode_json,
    decode_limits,
    encode_error,
    encode_event,
    encode_key,
)

logger = logging.getLogger(__name__)

MOST_BODY = 16 << 20
"""Bytes of a body of JSON. The largest is that of a cell."""

Endpoint = Callable[[PythonSandbox, Request], Awaitable[Response]]


def create_service(sandbox: PythonSandbox, key: str | None) -> Starlette:
    """The application.

    sandbox: started and stopped by the caller. key: what requests must send as a bearer token;
    None: nothing.
    """

    def route(path: str, method: str, endpoint: Endpoint) -> Route:
        return Route(path, partial(_answer, sandbox, key, endpoint), methods=[method])

    return Starlette(
        routes=[
            Route("/health", _health),
            route("/status", "GET", _status),
            route("/sessions/{session}", "PUT", _create),
            route("/sessions/{session}", "POST", _resume),
            route("/sessions/{session}", "DELETE", _close),
            route("/sessions/{session}/cells", "POST", _run),
            route("/sessions/{session}/files", "GET", _files),
            route("/sessions/{session}/files/{path:path}", "GET", _read),
            route("/sessions/{session}/files/{path:path}", "PUT", _write),
            route("/sessions/{session}/files/{path:path}", "DELETE", _delete),
        ]
    )


async def _answer(
    sandbox: PythonSandbox, key: str | None, endpoint: Endpoint, request: Request
) -> Response:
    if key is not None and not _has_key(request, key):
        return JSONResponse({"error": "Unauthorized", "message": "wrong key"}, 401)
    try:
        return await endpoint(sandbox, request)
    except SandboxError as error:
        status, body = encode_error(error)
        return JSONResponse(body, status)
    except InvalidBody as error:
        return JSONResponse({"error": "Invalid", "message": str(error)}, 400)
    except ClientDisconnect:
        # Nobody reads this answer.
        return Response(status_code=400)
    except HTTPException:
        raise
    except Exception as error:
        logger.exception("a request failed")
        return JSONResponse({"error": "Failed", "message": type(error).__name__}, 500)


def _has_key(request: Request, key: str) -> bool:
    scheme, _, sent = request.headers.get("authorization", "").partition(" ")
    # Starlette decodes headers as Latin-1, in which bytes of UTF-8 can be white space.
    contents = (sent.strip(" \t").encode("latin-1"), encode_key(key))
    digests = (hashlib.sha256(content).digest() for content in contents)
    return scheme.lower() == "bearer" and hmac.compare_digest(*digests)


async def _health(_: Request) -> Response:
    return JSONResponse({"status": "ok"})


async def _status(sandbox: PythonSandbox, _: Request) -> Response:
    return JSONResponse({"problem": sandbox.problem, "layers": dict(sandbox.layers)})


async def _create(sandbox: PythonSandbox, request: Request) -> Response:
    await sandbox.create(_session(request), decode_limits(await _json(request)))
    return Response(status_code=204)


async def _resume(sandbox: PythonSandbox, request: Request) -> Response:
    await sandbox.resume(_session(request), decode_limits(await _json(request)))
    return Response(status_code=204)


def _session(request: Request) -> str:
    """The session of the path. Raises InvalidBody for what is no session id."""
    session: str = request.path_params["session"]
    if not SESSION_ID.fullmatch(session):
        raise InvalidBody(f"{session!r} is no session id")
    return session


async def _close(sandbox: PythonSandbox, request: Request) -> Response:
    await sandbox.close(request.path_params["session"])
    return Response(status_code=204)


async def _run(sandbox: PythonSandbox, request: Request) -> Response:
    asked = decode_cell(await _json(request))
    events = sandbox.run(request.path_params["session"], asked.code, asked.timeout)
    # The answer begins at once, also where the session has to wait: until then, nobody would notice
    # that the client leaves.
    return StreamingResponse(_lines(events), media_type="application/x-ndjson")


async def _files(sandbox: PythonSandbox, request: Request) -> Response:
    files = await sandbox.files(request.path_params["session"])
    return JSONResponse([dataclasses.asdict(file) for file in files])


async def _read(sandbox: PythonSandbox, request: Request) -> Response:
    content = aiter(sandbox.read(request.path_params["session"], request.path_params["path"]))
    first = await anext(content, b"")

    async def chunks() -> AsyncIterator[bytes]:
        yield first
        async for chunk in content:
            yield chunk

    return StreamingResponse(chunks(), media_type="application/octet-stream")


async def _write(sandbox: PythonSandbox, request: Request) -> Response:
    parameters = request.path_params
    file = await sandbox.write(parameters["session"], parameters["path"], request.stream())
    return JSONResponse(dataclasses.asdict(file))


async def _delete(sandbox: PythonSandbox, request: Request) -> Response:
    await sandbox.delete(request.path_params["session"], request.path_params["path"])
    return Response(status_code=204)


async def _json(request: Request) -> Any:
    """The value of the body. Raises InvalidBody."""
    body = await _body(request)
    size = threads.counted(len(body), threads.LARGE)
    return await threads.run(partial(decode_json, body), size)


async def _body(request: Request) -> bytearray:
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > MOST_BODY:
            raise HTTPException(413)
    return body


async def _lines(events: AsyncGenerator[CellEvent, None]) -> AsyncIterator[bytes]:
    """The events of a cell as lines; an empty one where it is silent; what it raised as the last.

    The cell runs in a task of its own, so that it is interrupted in order when its client leaves:
    in the task of the answer, every wait would be cancelled.
    """
    queue: asyncio.Queue[CellEvent | SandboxError | None] = asyncio.Queue(maxsize=16)
    driving = asyncio.create_task(_drive(events, queue))
    try:
        while True:
            try:
                async with asyncio.timeout(ALIVE_SECONDS):
                    event = await queue.get()
            except TimeoutError:
                yield b"\n"
                continue
            if event is None:
                return
            yield encode_event(event)
    finally:
        driving.cancel()


async def _drive(
    events: AsyncGenerator[CellEvent, None],
    queue: "asyncio.Queue[CellEvent | SandboxError | None]",
) -> None:
    """Run a cell. Its events go to the queue, then what it raised, then None."""
    try:
        async for event in events:
            await queue.put(event)
    except SandboxError as error:
        await queue.put(error)
    except Exception as error:
        # Without an entry in the queue, the answer would never end.
        name = type(error).__name__
        logger.error("a cell failed: %s", name)
        await queue.put(SandboxUnavailable(f"the cell failed: {name}"))
    finally:
        await events.aclose()
    await queue.put(None)
