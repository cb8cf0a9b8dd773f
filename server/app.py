"""Creates the ASGI application from the settings, a backend and a store."""

import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from fastapi.routing import APIRoute
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp

from adapters.base import Backend
from server.context import Context
from server.generation.admission import Admission
from server.generation.gateway import Gateway
from server.generation.hosted_calls import ToolLimits
from server.generation.metering import Observer
from server.generation.summary_model import EngineModel
from server.http.access import Access
from server.http.bodies.body import Bodies
from server.http.bodies.budget import Budget
from server.http.connections.unread_bodies import UnreadBody
from server.http.exception_handlers import EXCEPTION_HANDLERS
from server.http.idempotency import Idempotency
from server.http.middleware import RequestId
from server.http.origins import Origins
from server.http.shared_task import SharedTask
from server.http.traffic import Traffic
from server.openapi.document_bytes import Description
from server.persistence.maintenance import Maintenance
from server.replay.sealing import Sealer
from server.routes import (
    chat,
    compact,
    containers,
    conversations,
    files,
    health,
    input_tokens,
    legacy_completions,
    models,
    openapi,
    prometheus,
    render,
    responses,
    responses_socket,
    stored_chat,
    stored_responses,
    tokens,
    web,
)
from server.settings import DEFAULT_MAX_RUNNING, Settings
from server.store.approvals.base import KEEP_SECONDS
from server.store.files.folder import FileFolder
from server.store.files.library import FileLibrary, FileLimits
from server.store.responses.base import Store
from server.store.responses.memory import MemoryStore
from server.summaries.base import Summariser
from server.summaries.extractive import ExtractiveSummariser
from server.summaries.model import ModelSummariser, SummaryModel
from server.summaries.policy import load_policy
from server.summaries.remote import RemoteModel
from server.telemetry import definitions
from server.telemetry.metrics import Metrics
from server.telemetry.readiness import Readiness
from server.tools import registry
from server.tools.base import HostedTool
from server.tools.mcp.approvals import Approvals
from server.tools.python.containers import ContainerLimits, ContainerService
from server.tools.python.process import ProcessSandbox
from server.tools.python.sandbox import PythonSandbox
from server.tools.python.tool import NAME as PYTHON
from server.tools.registry import ToolSetup
from server.tools.toolbox import Toolbox

SECONDS_A_DAY = 86_400

_WEB_OPTIONS = ("search", "fetch_allow_private", "fetch_allow_domain", "egress_proxy", "robots")

ROUTES = (
    responses,
    chat,
    responses_socket,
    stored_responses,
    input_tokens,
    compact,
    conversations,
    containers,
    files,
    legacy_completions,
    render,
    stored_chat,
    tokens,
    models,
    health,
    prometheus,
    openapi,
    web,
)
"""The router searches them in this order: frequent ones come first."""

PUBLIC_ENDPOINTS = frozenset(
    route.endpoint
    for router in (health.router, openapi.router, web.pages)
    for route in router.routes
    if isinstance(route, APIRoute)
)
"""The endpoints that need no key: load balancers have none; descriptions and pages are public."""

UPLOAD_ENDPOINTS: frozenset[Callable[..., Any]] = frozenset(
    {files.create_file, containers.create_container_file}
)
"""The endpoints that read forms with files themselves, piece by piece."""


def create_app(
    settings: Settings,
    backend: Backend,
    store: Store | None = None,
    tools: Sequence[HostedTool] | None = None,
    sandbox: PythonSandbox | None = None,
) -> FastAPI:
    """The application for `backend` and `store`, which the caller starts and stops.

    Without a store, responses are stored in memory. tools: the hosted tools, which the application
    starts and stops; None for those that the settings name. sandbox: runs Python; without one there
    are no containers.
    """
    files_folder = None if store is None else settings.files_folder
    store = MemoryStore() if store is None else store
    library = _library(settings, store, files_folder)
    container_service = _containers(settings, store, library, sandbox)
    sealer = _sealer(settings, store)
    if tools is None:
        tools = _tools(settings, store, container_service, sealer)
    toolbox = Toolbox(tools)
    metrics = _metrics(settings, backend, tools)
    gateway = _gateway(settings, backend, metrics)
    traffic = Traffic(metrics)
    metrics.watch(gateway, traffic)
    context = Context(
        settings,
        gateway,
        created=int(time.time()),
        store=store,
        sealer=sealer,
        body_budget=Budget(settings.max_body_memory),
        files=library,
        containers=container_service,
        toolbox=toolbox,
        readiness=Readiness(backend, store),
        metrics=metrics,
        traffic=traffic,
    )
    _show_gauges(context, sandbox)
    maintenance = Maintenance(
        context.store, gateway.runs, settings.store_ttl * SECONDS_A_DAY, (library.sweep,)
    )

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncGenerator[None, None]:
        async with maintenance.running(), toolbox.running():
            yield
            if context.draining.is_set():
                # Background runs may finish too, within the time of the drain.
                await gateway.runs.wait()
            await gateway.close()
        library.close()

    app = _application(lifespan)
    app.state.context = context
    app.state.description = SharedTask[Description]()
    return app


def _application(lifespan: Callable[[FastAPI], AbstractAsyncContextManager[None]]) -> "Application":
    """An application with all routes."""
    app = Application(
        title="gpt-oss-server",
        lifespan=lifespan,
        openapi_url=None,
        exception_handlers=EXCEPTION_HANDLERS,
    )
    for routes in ROUTES:
        app.include_router(routes.router)
    return app


def _library(settings: Settings, store: Store, folder: Path | None) -> FileLibrary:
    limits = FileLimits(settings.max_file_bytes, settings.max_owner_file_bytes)
    return FileLibrary(store.files, FileFolder(folder), limits, now=store.now)


def _containers(
    settings: Settings, store: Store, library: FileLibrary, sandbox: PythonSandbox | None
) -> ContainerService:
    limits = ContainerLimits(settings.max_containers, settings.max_container_memory)
    service = partial(ContainerService, store.containers, library, limits=limits, now=store.now)
    names = settings.hosted_tool_names
    if names is not None and PYTHON not in names:
        # Without the tool, nothing starts the sandbox.
        return service(None, reason="it is turned off (--hosted-tools)")
    return service(sandbox)


def _sealer(settings: Settings, store: Store) -> Sealer:
    store_keys = (store.sealing_key,) if store.sealing_key else ()
    return Sealer((*settings.encryption_key, *store_keys))


def _metrics(settings: Settings, backend: Backend, tools: Sequence[HostedTool]) -> Metrics:
    # A tool may have servers with names of their own, such as `browser.search`.
    names = {*registry.names(), *(tool.name.partition(".")[0] for tool in tools)}
    info = backend.info
    return Metrics(
        settings.model_names[0],
        info.context_length,
        names,
        version("gpt-oss-server"),
        info.name,
    )


def _show_gauges(context: Context, sandbox: PythonSandbox | None) -> None:
    metrics, toolbox = context.metrics, context.toolbox
    metrics.show(definitions.BODY_MEMORY, lambda: {(): context.body_budget.used})
    metrics.show(
        definitions.TOOL_READY,
        lambda: {(name,): problem is None for name, problem in toolbox.problems.items()},
    )
    if isinstance(sandbox, ProcessSandbox):
        metrics.show(definitions.PYTHON_SESSIONS, lambda: {(): sandbox.live})


def _gateway(settings: Settings, backend: Backend, observer: Observer) -> Gateway:
    admission = Admission(_max_running(settings, backend), settings.max_waiting)
    return Gateway(
        backend,
        admission,
        max_tokens=settings.max_output_tokens,
        guard=settings.repetition_guard == "analysis",
        tool_limits=ToolLimits(
            settings.max_tool_rounds, settings.tool_timeouts, settings.answer_timeout
        ),
        summariser=_summariser(settings, backend, admission),
        summary_patience=settings.summary_patience,
        observer=observer,
    )


def _summariser(settings: Settings, backend: Backend, admission: Admission) -> Summariser | None:
    """What writes summaries of reasoning."""
    if settings.summary_kind != "model":
        return ExtractiveSummariser() if settings.summary_kind == "extractive" else None
    model: SummaryModel
    if settings.summary_url is not None:
        name = settings.summary_model or settings.model_names[0]
        model = RemoteModel(settings.summary_url, name, settings.summary_key)
    else:
        masks = settings.constrain != "never" and "grammar" in backend.info.features
        model = EngineModel(backend, admission, masks=masks)
    return ModelSummariser(model, load_policy(settings.summary_policy))


def _tools(
    settings: Settings, store: Store, containers: ContainerService, sealer: Sealer
) -> tuple[HostedTool, ...]:
    unseal = partial(sealer.unseal_text, seconds=KEEP_SECONDS)
    parts = {
        "containers": containers,
        "mcp_file": settings.mcp,
        "approvals": Approvals(store.approvals, sealer.seal_text, unseal, sealer.signatures),
        "web_options": {name: getattr(settings, name) for name in _WEB_OPTIONS},
    }
    return registry.create(settings.hosted_tool_names, ToolSetup(store, parts))


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
        expose_headers=["x-request-id", "retry-after", "idempotent-replayed"],
    )
    return [
        Middleware(UnreadBody),
        Middleware(RequestId, direct=direct, traffic=context.traffic),
        Middleware(
            Origins,
            cors_origin=settings.cors_origin,
            allowed_host=None if settings.api_keys else settings.allowed_hosts,
        ),
        *([cors] if settings.cors_origin else []),
        Middleware(Access, public_endpoints=PUBLIC_ENDPOINTS, keys=settings.api_keys),
        Middleware(
            Bodies,
            limit=settings.max_body_bytes,
            budget=context.body_budget,
            upload_endpoints=UPLOAD_ENDPOINTS,
        ),
        Middleware(Idempotency),
    ]
