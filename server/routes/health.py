"""`GET /health` and `/version`: for load balancers and people; no key is asked for."""

from importlib.metadata import version

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from adapters.errors import BackendFailed
from server.context import context_of
from server.errors import EngineDown
from server.respond import json_response

router = APIRouter()


@router.api_route("/health", methods=["GET", "HEAD"])
async def health(request: Request) -> Response:
    """200 while the engine can serve, 503 with the reason when it cannot."""
    try:
        await context_of(request).gateway.backend.check()
    except BackendFailed as error:
        raise EngineDown(f"The engine is not healthy: {error}") from error
    return json_response({"status": "ok"})


@router.api_route("/version", methods=["GET", "HEAD"])
async def show_version(request: Request) -> Response:
    """The package's version and the engine's name."""
    info = context_of(request).gateway.backend.info
    return json_response({"version": version("gpt-oss-server"), "backend": info.name})
