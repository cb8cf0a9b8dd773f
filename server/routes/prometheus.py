"""`GET /metrics`: what happens in the server, for Prometheus."""

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from server.context import context_of
from server.http.request_state import state_of

router = APIRouter()


@router.api_route("/metrics", methods=["GET", "HEAD"])
async def show_metrics(request: Request) -> Response:
    """The metrics in Prometheus' text format, or as OpenMetrics where `Accept` asks for it."""
    state_of(request.scope).unlogged = True
    context = context_of(request)
    problems = await context.readiness.problems()
    content, media_type = await context.metrics.text(request.headers.get("accept", ""), problems)
    return Response(content, headers={"Content-Type": media_type, "Cache-Control": "no-store"})
