"""`GET /health`, `/ready` and `/version`, which need no API key."""

from importlib.metadata import version

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from adapters.errors import BackendFailed
from server.context import context_of
from server.errors import EngineDown
from server.http.answers.answer import json_response
from server.tools.toolbox import STARTING

router = APIRouter()


@router.api_route("/health", methods=["GET", "HEAD"])
async def health(request: Request) -> Response:
    """200 while the process is alive; 503 with the reason if its engine cannot serve."""
    try:
        await context_of(request).gateway.backend.check()
    except BackendFailed as error:
        raise EngineDown(f"The engine is not healthy: {error}") from error
    return json_response({"status": "ok"})


@router.api_route("/ready", methods=["GET", "HEAD"])
async def ready(request: Request) -> Response:
    """200 if the engine and the store can serve a request; else 503 with the reasons.

    `tools` has each hosted tool: `on`, `starting` or `off`, which concerns only requests that name
    it. The log says why it is off: the reason may have addresses and files, which are not public.
    """
    context = context_of(request)
    reasons = list(await context.readiness.reasons())
    if context.draining.is_set():
        reasons.append("server: it is stopping")
    states = {None: "on", STARTING: "starting"}
    tools = {name: states.get(problem, "off") for name, problem in context.toolbox.problems.items()}
    if reasons:
        return json_response({"status": "not ready", "reasons": reasons, "tools": tools}, 503)
    return json_response({"status": "ready", "reasons": [], "tools": tools})


@router.api_route("/version", methods=["GET", "HEAD"])
async def show_version(request: Request) -> Response:
    """The package's version and the engine's name."""
    info = context_of(request).gateway.backend.info
    return json_response({"version": version("gpt-oss-server"), "backend": info.name})
