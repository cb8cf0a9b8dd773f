"""Creates the ASGI application from the settings, a backend and a store."""

import time
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager

from fastapi import FastAPI
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Match, Route
from starlette.types import ASGIApp

from adapters.base import Backend
from server.context import Context
from server.errors import APIError
from server.generation.admission import Admission
from server.generation.gateway import Gateway
from server.http.access import Access
from server.http.answers import CLIENT_CLOSED_REQUEST, error_response, json_response
from server.http.bodies import Bodies
from server.http.budget import Budget
from server.http.idempotency import Idempotency
from server.http.middleware import RequestId
from server.http.origins import Origins
from server.http.unread import UnreadBody
from server.openapi.published import Published
from server.persistence.maintenance import Maintenance
from server.replay.sealing import Sealer
from server.routes import (
    chat,
    compact,
    conversations,
    health,
    input_tokens,
    legacy_completions,
    models,
    openapi,
    render,
    responses,
    responses_socket,
    stored_chat,
    stored_responses,
    tokens,
    web,
)
from server.settings import DEFAULT_MAX_RUNNING, Settings
from server.store.responses.base import Store
from server.store.responses.memory import MemoryStore
from server.telemetry.readiness import Readiness

SECONDS_A_DAY = 86_400

PUBLIC_ENDPOINTS = frozenset(
    route.endpoint
    for router in (health.router, openapi.router, web.pages)
    for route in router.routes
    if isinstance(route, APIRoute)
)
"""The endpoints that need no key: load balancers have none; descriptions and pages are public."""


def create_app(settings: Settings, backend: Backend, store: Store | None = None) -> FastAPI:
    """The application for `backend` and `store`, which the caller starts and stops.

    Without a store, responses are stored in memory.
    """
    gateway = _gateway(settings, backend)
    store = MemoryStore() if store is None else store
    store_keys = (store.sealing_key,) if store.sealing_key else ()
    context = Context(
        settings,
        gateway,
        created=int(time.time()),
        store=store,
        sealer=Sealer((*settings.encryption_key, *store_keys)),
        body_budget=Budget(settings.max_body_memory),
    )
    maintenance = Maintenance(context.store, gateway.runs, settings.store_ttl * SECONDS_A_DAY)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncGenerator[None, None]:
        async with maintenance.running():
            yield
            if context.draining.is_set():
                # Background runs may finish too, within the time of the drain.
                await gateway.runs.wait()
            await gateway.runs.close()

    app = Application(
        title="gpt-oss-server",
        lifespan=lifespan,
        openapi_url=None,
        exception_handlers={
            APIError: _api_error,
            HTTPException: _http_error,
            ClientDisconnect: _client_disconnect,
        },
    )
    app.state.context = context
    app.state.readiness = Readiness(backend, store)
    app.state.published = Published()
    # The router searches them in this order: frequent ones come first.
    for routes in (
        responses,
        chat,
        responses_socket,
        stored_responses,
        input_tokens,
        compact,
        conversations,
        legacy_completions,
        render,
        stored_chat,
        tokens,
        models,
        health,
        openapi,
        web,
    ):
        app.include_router(routes.router)
    return app


def _gateway(settings: Settings, backend: Backend) -> Gateway:
    return Gateway(
        backend,
        Admission(_max_running(settings, backend), settings.max_waiting),
        max_tokens=settings.max_output_tokens,
        guard=settings.repetition_guard == "analysis",
    )


def _max_running(settings: Settings, backend: Backend) -> int:
    """Requests that sample at once: as set, else what the engine computes at once."""
    return settings.max_running or backend.info.max_requests or DEFAULT_MAX_RUNNING


class Application(FastAPI):
    """An application whose own middleware is always outermost.

    Added middleware runs inside of it: it gets only requests that match a route and have a valid
    key, and their bodies are limited.
    """

    def build_middleware_stack(self) -> ASGIApp:
        """Called by Starlette once, after all middleware was added."""
        context: Context = self.state.context
        own = _middleware(context, direct=not self.user_middleware)
        self.user_middleware = [*own, *self.user_middleware]
        return super().build_middleware_stack()


def _middleware(context: Context, *, direct: bool) -> list[Middleware]:
    """The server's middleware, outermost first: what needs only headers precedes the body."""
    settings = context.settings
    cors = Middleware(
        CORSMiddleware,
        allow_origins=list(settings.cors_origin),
        allow_methods=["*"],
        allow_headers=["*"],
        expose_headers=["x-request-id"],
    )
    return [
        Middleware(UnreadBody),
        Middleware(RequestId, direct=direct),
        Middleware(
            Origins,
            cors_origin=settings.cors_origin,
            allowed_host=None if settings.api_key else settings.allowed_hosts,
        ),
        *([cors] if settings.cors_origin else []),
        Middleware(Access, public_endpoints=PUBLIC_ENDPOINTS),
        Middleware(Bodies, limit=settings.max_body_bytes, budget=context.body_budget),
        Middleware(Idempotency),
    ]


async def _api_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, APIError)
    return error_response(error)


async def _client_disconnect(_: Request, __: Exception) -> Response:
    """The client disconnected before the end of its request."""
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
    if error.status_code == 405:
        response.headers["Allow"] = ", ".join(sorted(set(_allowed_methods(request))))
    return response


def _allowed_methods(request: Request) -> Iterator[str]:
    """The methods of all routes that match the path; the router lists only those of the first."""
    for route in request.app.routes:
        if isinstance(route, Route) and route.matches(request.scope)[0] is not Match.NONE:
            yield from route.methods or ()
