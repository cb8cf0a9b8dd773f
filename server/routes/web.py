"""`/`, `/playground` and what the playground needs beside the API."""

import asyncio
from dataclasses import asdict
from typing import Any

from fastapi import APIRouter
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from harmony.tokenizer import encode_within
from harmony.vocab import VOCAB_SIZE
from server import threads
from server.context import context_of
from server.http import json_body
from server.http.answers import json_response
from server.http.authentication import authenticate
from server.http.middleware import UNLOGGED
from server.inbound import grammar_sandbox
from server.inbound.prompts import read_ids
from server.outbound.token_bytes import hexadecimal
from server.schemas.fields import array, invalid
from server.schemas.limits import MAX_IDS
from server.schemas.web import CountPermitted, ParseHarmony, RenderBlocks
from server.telemetry.readiness import Readiness
from server.web.assets import PAGE_HEADERS, assets, playground_page, start_page, version
from server.web.markup import render
from server.web.masks import GrammarError, permitted
from server.web.parsing import Span, parse

MAX_CHARACTERS = 100_000
"""Characters of Markdown in one request: about a quarter of a second."""
FOR_EVER = "public, max-age=31536000, immutable"

pages = APIRouter(include_in_schema=False)
"""The pages. They have no secrets and need no key."""
helpers = APIRouter(include_in_schema=False)
"""The endpoints that compute something. They need a key where the API does."""

_rendering = asyncio.Semaphore(2)
"""Requests that render at once: the work holds the interpreter, and streams share it."""
_following = asyncio.Semaphore(1)
"""Requests that follow a grammar at once."""


@pages.api_route("/", methods=["GET", "HEAD"])
async def show_start(request: Request) -> Response:
    """A page of links for browsers. Other clients get the error for unknown URLs."""
    if not _wants_html(request.headers.get("accept", "")):
        raise HTTPException(404)
    page = start_page(playground=context_of(request).settings.serves_playground)
    return _page(page, {"Vary": "Accept"})


@pages.api_route("/playground", methods=["GET", "HEAD"])
async def show_playground(request: Request) -> Response:
    """The playground."""
    _refuse_unless_served(request)
    return _page(playground_page(), {})


@pages.api_route("/playground/assets/{digest}/{name}", methods=["GET", "HEAD"])
async def show_asset(request: Request, digest: str, name: str) -> Response:
    """A script or style. An address with the hash of another version has a 404."""
    _refuse_unless_served(request)
    asset = assets().get(name)
    if asset is None or digest != version():
        raise HTTPException(404)
    setattr(request.state, UNLOGGED, True)
    headers = {"Cache-Control": FOR_EVER, "X-Content-Type-Options": "nosniff"}
    return Response(asset.content, headers=headers, media_type=asset.media_type)


@helpers.post("/playground/render")
async def render_blocks(request: Request) -> Response:
    """The HTML of blocks of Markdown: escaped, and of allowed elements only."""
    _refuse_unless_served(request)
    authenticate(request)
    body = await json_body.parse(request, RenderBlocks)
    if sum(map(len, body.blocks)) > MAX_CHARACTERS:
        raise invalid("blocks", f"expected at most {MAX_CHARACTERS} characters")
    setattr(request.state, UNLOGGED, True)
    async with _rendering:
        rendered = await asyncio.to_thread(lambda: [render(block) for block in body.blocks])
    return json_response({"html": rendered})


@helpers.post("/playground/parse")
async def parse_harmony(request: Request) -> Response:
    """The messages of pasted harmony, with the repairs, and the tokens with their bytes."""
    _refuse_unless_served(request)
    authenticate(request)
    body = await json_body.parse(request, ParseHarmony)
    small = threads.is_small([body.text, body.tokens])
    return json_response(await threads.run(lambda: _parsed(body), small=small))


@helpers.post("/playground/permitted")
async def count_permitted(request: Request) -> Response:
    """How many tokens a grammar permits at each place of a sampling."""
    _refuse_unless_served(request)
    authenticate(request)
    body = await json_body.parse(request, CountPermitted)
    async with _following:
        return json_response(await asyncio.to_thread(_permitted, body))


@helpers.get("/playground/load")
async def show_load(request: Request) -> Response:
    """What runs and waits, the tokens since the start, and why engine or store cannot serve."""
    _refuse_unless_served(request)
    authenticate(request)
    setattr(request.state, UNLOGGED, True)
    gateway = context_of(request).gateway
    readiness: Readiness = request.app.state.readiness
    return json_response(
        {
            "admitted": gateway.admission.admitted,
            "waiting": gateway.admission.waiting,
            "limit": gateway.admission.limit,
            "tokens": asdict(gateway.tokens),
            "problems": await readiness.problems(),
        }
    )


def _parsed(body: ParseHarmony) -> dict[str, Any]:
    if (body.text is None) == (body.tokens is None):
        raise invalid("text", "expected either text or tokens")
    if body.text is None:
        token_ids = list(read_ids(array(body.tokens, "tokens", MAX_IDS), "tokens"))
    else:
        token_ids = encode_within(body.text, MAX_IDS, control=True)
        if len(token_ids) > MAX_IDS:
            raise invalid("text", f"it has more than {MAX_IDS} tokens")
    sampled = None if body.sampled is None else _spans(body.sampled, len(token_ids))
    return {
        "token_ids": token_ids,
        "token_bytes": hexadecimal(token_ids),
        "messages": [asdict(each) for each in parse(token_ids, body.tools or (), sampled)],
    }


def _spans(value: Any, length: int) -> list[Span]:
    """The ranges in `sampled`: ascending, not empty, within `length` tokens. Raises APIError."""
    spans = array(value, "sampled", MAX_IDS)
    end = 0
    for index, span in enumerate(spans):
        whole = isinstance(span, list) and len(span) == 2 and all(type(n) is int for n in span)
        if not whole or not end <= span[0] < span[1] <= length:
            raise invalid(f"sampled.{index}", "expected ascending pairs of places of tokens")
        end = span[1]
    return [(span[0], span[1]) for span in spans]


def _permitted(body: CountPermitted) -> dict[str, Any]:
    token_ids = read_ids(array(body.tokens, "tokens", MAX_IDS), "tokens")
    if (problem := grammar_sandbox.shared().problem(body.grammar)) is not None:
        raise invalid("grammar", problem)
    try:
        found = permitted(body.grammar, token_ids)
    except GrammarError as error:
        raise invalid("grammar", str(error)) from error
    return {"permitted": found.counts, "refused": found.refused, "vocabulary": VOCAB_SIZE}


def _wants_html(accept: str) -> bool:
    """Whether a client prefers a page, as browsers do. `*/*` alone is what programs send."""
    kinds = {part.partition(";")[0].strip().lower() for part in accept.split(",")}
    return "text/html" in kinds


def _refuse_unless_served(request: Request) -> None:
    if not context_of(request).settings.serves_playground:
        raise HTTPException(404)


def _page(content: bytes, headers: dict[str, str]) -> Response:
    headers = {**PAGE_HEADERS, "Cache-Control": "no-cache", **headers}
    return Response(content, headers=headers, media_type="text/html")


router = APIRouter()
router.include_router(pages)
router.include_router(helpers)
