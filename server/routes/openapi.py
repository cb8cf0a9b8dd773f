"""`GET /openapi.json` and `/docs`: the API's description. It has no secrets and needs no key."""

import asyncio
from functools import partial

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from server.http.shared_task import SharedTask
from server.openapi.document_bytes import Description, File, describe
from server.openapi.page import POLICY

router = APIRouter()


@router.api_route("/openapi.json", methods=["GET", "HEAD"])
async def show_document(request: Request) -> Response:
    """The OpenAPI document; 304 where the client has it."""
    return _answer(request, (await _description(request)).document, {}, "application/json")


@router.api_route("/docs", methods=["GET", "HEAD"])
async def show_page(request: Request) -> Response:
    """A page that shows the document; 304 where the client has it."""
    headers = {"Content-Security-Policy": POLICY, "X-Content-Type-Options": "nosniff"}
    return _answer(request, (await _description(request)).page, headers, "text/html")


async def _description(request: Request) -> Description:
    shared: SharedTask[Description] = request.app.state.description
    return await asyncio.shield(shared.get(partial(asyncio.to_thread, describe)))


def _answer(request: Request, file: File, headers: dict[str, str], media_type: str) -> Response:
    headers = {**headers, "ETag": file.etag, "Cache-Control": "no-cache"}
    # A proxy that compresses makes strong tags weak; the bytes behind them are the same.
    known = request.headers.get("if-none-match", "").split(",")
    if any(tag.strip().removeprefix("W/") in (file.etag, "*") for tag in known):
        return Response(status_code=304, headers=headers)
    return Response(file.content, headers=headers, media_type=media_type)
