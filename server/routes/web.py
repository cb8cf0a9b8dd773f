"""`/`, `/playground` and what the playground needs beside the API."""

from dataclasses import asdict

from fastapi import APIRouter
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from server.context import context_of
from server.http.answers.answer import json_response
from server.http.bodies import json_body
from server.http.request_state import state_of
from server.schemas.web import CountPermitted, ParseHarmony, RenderBlocks
from server.web.helpers import counted_permitted, parsed_harmony, rendered_blocks
from server.web.pages import asset_answer, playground_answer, prefers_html, start_answer

pages = APIRouter(include_in_schema=False)
"""The pages. They have no secrets and need no key."""
helpers = APIRouter(include_in_schema=False)
"""The endpoints that compute something. They need a key where the API does."""


@pages.api_route("/", methods=["GET", "HEAD"])
async def show_start(request: Request) -> Response:
    """A page of links for browsers. Other clients get the error for unknown URLs."""
    if not prefers_html(request.headers.get("accept", "")):
        raise HTTPException(404)
    return start_answer(playground=context_of(request).settings.serves_playground)


@pages.api_route("/playground", methods=["GET", "HEAD"])
async def show_playground(request: Request) -> Response:
    """The playground."""
    _refuse_unless_served(request)
    return playground_answer()


@pages.api_route("/playground/assets/{digest}/{name}", methods=["GET", "HEAD"])
async def show_asset(request: Request, digest: str, name: str) -> Response:
    """A script or style. An address with the hash of another version has a 404."""
    _refuse_unless_served(request)
    answer = asset_answer(digest, name)
    if answer is None:
        raise HTTPException(404)
    state_of(request.scope).unlogged = True
    return answer


@helpers.post("/playground/render")
async def render_blocks(request: Request) -> Response:
    """The HTML of blocks of Markdown: escaped, and of allowed elements only."""
    _refuse_unless_served(request)
    body = await json_body.parse(request, RenderBlocks)
    rendered = await rendered_blocks(body)
    state_of(request.scope).unlogged = True
    return rendered


@helpers.post("/playground/parse")
async def parse_harmony(request: Request) -> Response:
    """The messages of pasted harmony, with the repairs, and the tokens with their bytes."""
    _refuse_unless_served(request)
    return await parsed_harmony(await json_body.parse(request, ParseHarmony))


@helpers.post("/playground/permitted")
async def count_permitted(request: Request) -> Response:
    """How many tokens a grammar permits at each place of a sampling."""
    _refuse_unless_served(request)
    return await counted_permitted(await json_body.parse(request, CountPermitted))


@helpers.get("/playground/load")
async def show_load(request: Request) -> Response:
    """What runs and waits, the tokens since the start, and why engine or store cannot serve."""
    _refuse_unless_served(request)
    state_of(request.scope).unlogged = True
    context = context_of(request)
    admission = context.gateway.admission
    return json_response(
        {
            "admitted": admission.queued,
            "waiting": admission.waiting,
            "limit": admission.limit,
            "tokens": asdict(context.gateway.tokens),
            "problems": await context.readiness.problems(),
        }
    )


def _refuse_unless_served(request: Request) -> None:
    if not context_of(request).settings.serves_playground:
        raise HTTPException(404)


router = APIRouter()
router.include_router(pages)
router.include_router(helpers)
