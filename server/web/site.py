"""The playground as a site of its own, in front of any OpenAI-compatible server."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Any

import httpx
from pydantic import BaseModel
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from adapters.cancel_safe import CancelSafeTransport
from server.http.bodies.json_text import load, validate
from server.http.exception_handlers import EXCEPTION_HANDLERS
from server.http.origins import Origins
from server.schemas.web import CountPermitted, ParseHarmony, RenderBlocks
from server.web.helpers import counted_permitted, parsed_harmony, rendered_blocks
from server.web.pages import asset_answer, playground_answer, prefers_html
from server.web.proxy import Proxy, read_within

MAX_BODY_BYTES = 4 << 20
"""Of a request that this site answers itself."""

CONNECT_SECONDS = 10.0
"""There is no limit on the time of an answer."""

Answer = Callable[[Any], Awaitable[Response]]


def create_site(
    base_url: str,
    allowed_host: Sequence[str] = (),
    transport: httpx.AsyncBaseTransport | None = None,
) -> Starlette:
    """The application.

    base_url: the address of the API that the page uses, such as `http://localhost:8000/v1`.
    allowed_host: names of this site, in addition to those of the local machine; `*` for any.
    transport: for the connections to the API; None for the network.
    """
    timeout = httpx.Timeout(None, connect=CONNECT_SECONDS)
    # Unlimited: each stream has a connection.
    connections = transport or httpx.AsyncHTTPTransport(limits=httpx.Limits(), trust_env=False)
    client = httpx.AsyncClient(
        transport=CancelSafeTransport(connections),
        timeout=timeout,
        # Visitors share this client. A cookie of the API would be sent for all of them.
        cookies=CookieJar(DefaultCookiePolicy(allowed_domains=())),
        # A proxy or a .netrc of the environment could send keys to other hosts.
        trust_env=False,
    )

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncGenerator[None, None]:
        async with client:
            yield

    render = partial(_helper, RenderBlocks, rendered_blocks)
    parse = partial(_helper, ParseHarmony, parsed_harmony)
    permitted = partial(_helper, CountPermitted, counted_permitted)
    return Starlette(
        lifespan=lifespan,
        routes=[
            Route("/", _start),
            Route("/playground", _playground),
            Route("/playground/assets/{digest}/{name}", _asset),
            Route("/playground/render", render, methods=["POST"]),
            Route("/playground/parse", parse, methods=["POST"]),
            Route("/playground/permitted", permitted, methods=["POST"]),
            Route("/{path:path}", Proxy(base_url, client)),
        ],
        middleware=[Middleware(Origins, cors_origin=(), allowed_host=tuple(allowed_host))],
        exception_handlers=EXCEPTION_HANDLERS,
    )


async def _start(request: Request) -> Response:
    if prefers_html(request.headers.get("accept", "")):
        return RedirectResponse("playground")
    raise HTTPException(404)


async def _playground(_: Request) -> Response:
    return playground_answer()


async def _asset(request: Request) -> Response:
    answer = asset_answer(request.path_params["digest"], request.path_params["name"])
    if answer is None:
        raise HTTPException(404)
    return answer


async def _helper(schema: type[BaseModel], answer: Answer, request: Request) -> Response:
    body = await read_within(request.stream(), MAX_BODY_BYTES)
    return await answer(validate(load(body), schema))
