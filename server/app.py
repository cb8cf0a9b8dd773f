"""The application: settings and a started backend in, an ASGI app out."""

import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from adapters.base import Backend
from server.admission import Admission
from server.context import Context
from server.decoding import Decoding
from server.errors import APIError
from server.gateway import Gateway
from server.idempotency import Idempotency
from server.middleware import BodyLimit, RequestId
from server.readiness import Readiness
from server.respond import CLIENT_CLOSED_REQUEST, json_response
from server.routes import (
    chat,
    compact,
    completions,
    conversations,
    health,
    input_tokens,
    models,
    render,
    responses,
    responses_socket,
    stored_chat,
    stored_responses,
    tokens,
)
from server.sealing import Sealer
from server.settings import Settings
from server.store.base import Store
from server.store.memory import MemoryStore
from server.upkeep import Upkeep

SECONDS_A_DAY = 86_400


def create_app(settings: Settings, backend: Backend, store: Store | None = None) -> FastAPI:
    """The server around `backend` and `store`, which the caller has started and will stop.

    Without a store, what is kept is kept in memory.
    """
    gateway = Gateway(backend, Admission(settings.max_running, settings.max_waiting))
    store = MemoryStore() if store is None else store
    shared = (store.sealing_key,) if store.sealing_key else ()
    context = Context(
        settings,
        gateway,
        created=int(time.time()),
        store=store,
        sealer=Sealer((*settings.encryption_key, *shared)),
    )
    upkeep = Upkeep(context.store, gateway.runs, settings.store_ttl * SECONDS_A_DAY)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncGenerator[None, None]:
        async with upkeep.running():
            yield
            if context.draining.is_set():
                # Those that nobody follows may finish, too, in the time that the drain gives.
                await gateway.runs.wait()
            await gateway.runs.close()

    app = FastAPI(
        title="gpt-oss-server",
        lifespan=lifespan,
        openapi_url=None,
        middleware=_middleware(settings),
        exception_handlers={
            APIError: _api_error,
            HTTPException: _http_error,
            ClientDisconnect: _client_disconnect,
        },
    )
    app.state.context = context
    app.state.readiness = Readiness(backend, store)
    # They are looked through in this order for each request.
    for routes in (
        responses,
        chat,
        responses_socket,
        stored_responses,
        input_tokens,
        compact,
        conversations,
        completions,
        render,
        stored_chat,
        tokens,
        models,
        health,
    ):
        app.include_router(routes.router)
    return app


def _middleware(settings: Settings) -> list[Middleware]:
    cors = Middleware(
        CORSMiddleware,
        allow_origins=list(settings.cors_origin),
        allow_methods=["*"],
        allow_headers=["*"],
        expose_headers=["x-request-id"],
    )
    return [
        Middleware(RequestId),
        *([cors] if settings.cors_origin else []),
        Middleware(BodyLimit, limit=settings.max_body_bytes),
        Middleware(Decoding, limit=settings.max_body_bytes),
        Middleware(Idempotency),
    ]


async def _api_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, APIError)
    response = json_response(error.body(), error.status)
    response.headers.update(error.headers)
    return response


async def _client_disconnect(_: Request, __: Exception) -> Response:
    """The client left before it had sent its whole request."""
    return Response(status_code=CLIENT_CLOSED_REQUEST)


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    message = f"Invalid URL ({request.method} {request.url.path})"
    body = {
        "message": message if error.status_code in (404, 405) else error.detail,
        "type": "invalid_request_error",
        "param": None,
        "code": "unknown_url" if error.status_code == 404 else None,
    }
    response = json_response({"error": body}, error.status_code)
    response.headers.update(error.headers or {})
    return response
