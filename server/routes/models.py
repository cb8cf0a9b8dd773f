"""`GET /v1/models` and `/v1/models/{id}`: the model names that the server accepts.

Source: https://platform.openai.com/docs/api-reference/models
"""

from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from server.context import Context, context_of
from server.http.answers.answer import json_response

router = APIRouter()

_DEMO_DESCRIPTION = (
    "A tiny demo model (13 million parameters besides its embedding), trained from scratch to try "
    "clients and for tests. Serve a real checkpoint with --model."
)


@router.api_route("/v1/models", methods=["GET", "HEAD"])
async def list_models(request: Request) -> Response:
    """All served models, the default first."""
    context = context_of(request)
    models = [_model(name, context) for name in context.models]
    return json_response({"object": "list", "data": models})


@router.api_route("/v1/models/{name:path}", methods=["GET", "HEAD"])
async def retrieve_model(request: Request, name: str) -> Response:
    """One served model; 404 for an unknown name."""
    context = context_of(request)
    return json_response(_model(context.model(name), context))


def _model(name: str, context: Context) -> dict[str, Any]:
    demo_fields = {"description": _DEMO_DESCRIPTION} if context.settings.is_demo else {}
    return {
        "id": name,
        "object": "model",
        "created": context.created,
        "owned_by": "gpt-oss-server",
        "max_model_len": context.context_length,
        **demo_fields,
    }
