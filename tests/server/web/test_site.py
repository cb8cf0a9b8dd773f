"""The site in front of an API that notes what reaches it."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from server.web.assets import version
from server.web.site import create_site

BROWSER = {"accept": "text/html,application/xhtml+xml"}


async def everything(request: Request) -> Response:
    path = request.url.path
    if path == "/base/v1/moved":
        return RedirectResponse("http://example.test/")
    if path == "/base/v1/page":
        return HTMLResponse("<script>1</script>", headers={"set-cookie": "a=b", "server": "x"})
    if path == "/base/v1/refused":
        return JSONResponse({"error": {}}, 401, {"www-authenticate": "Bearer"})
    body = (await request.body()).decode()
    seen = {
        "path": path,
        "query": request.url.query,
        "body": body,
        "headers": dict(request.headers),
    }
    return JSONResponse({**seen, "method": request.method}, headers={"x-request-id": "req_1"})


API = Starlette(
    routes=[Route("/{path:path}", everything, methods=["GET", "POST", "DELETE", "PUT"])]
)


@asynccontextmanager
async def visiting(
    *names: str, transport: httpx.AsyncBaseTransport | None = None
) -> AsyncIterator[Any]:
    """A client of the site. transport: to the API, by default to the one that notes requests."""
    site = create_site("http://api.test/base/v1", names, transport or httpx.ASGITransport(API))
    client = httpx.AsyncClient(transport=httpx.ASGITransport(site), base_url="http://localhost")
    async with client, site.router.lifespan_context(site):
        yield client


async def test_requests_of_the_api_are_forwarded() -> None:
    async with visiting() as client:
        answer = await client.post("/v1/responses?a=%20b", content=b'{"x": 1}')
    seen = answer.json()
    assert (seen["method"], seen["path"]) == ("POST", "/base/v1/responses")
    assert (seen["query"], seen["body"]) == ("a=%20b", '{"x": 1}')
    assert answer.headers["x-request-id"] == "req_1"


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "DELETE"])
async def test_methods_of_the_api_are_forwarded(method: str) -> None:
    seen: list[tuple[str, str]] = []

    class Noting(httpx.ASGITransport):
        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            seen.append((request.method, request.url.path))
            return await super().handle_async_request(request)

    async with visiting(transport=Noting(API)) as client:
        answer = await client.request(method, "/v1/responses/resp_1")
    assert (answer.status_code, answer.headers["x-request-id"]) == (200, "req_1")
    assert seen == [(method, "/base/v1/responses/resp_1")]


async def test_only_headers_that_the_api_needs_are_forwarded() -> None:
    sent = {
        "authorization": "Bearer k",
        "cookie": "a=b",
        "origin": "http://localhost",
        "sec-fetch-site": "same-origin",
        "x-forwarded-for": "1.2.3.4",
        "referer": "http://localhost/playground",
    }
    async with visiting() as client:
        headers = (await client.get("/v1/models", headers=sent)).json()["headers"]
    assert headers["authorization"] == "Bearer k"
    assert headers["host"] == "api.test"
    assert not {"cookie", "origin", "sec-fetch-site", "x-forwarded-for", "referer"} & set(headers)


async def test_headers_beyond_ascii_are_forwarded_as_they_are() -> None:
    key = "Bearer schlüssel".encode()
    async with visiting() as client:
        answer = await client.get("/v1/models", headers=[(b"authorization", key)])
    # Servers read headers as Latin-1.
    assert answer.json()["headers"]["authorization"] == key.decode("latin-1")


@pytest.mark.parametrize("path", ["/v1/responses", "/playground/render"])
async def test_a_client_that_leaves_before_the_end_of_its_body_is_no_fault(path: str) -> None:
    site = create_site("http://api.test/base/v1", (), httpx.ASGITransport(API))
    arriving: list[Any] = [
        {"type": "http.request", "body": b"{", "more_body": True},
        {"type": "http.disconnect"},
    ]
    sent: list[Any] = []

    async def receive() -> Any:
        return arriving.pop(0)

    async def send(message: Any) -> None:
        sent.append(message)

    headers = [(b"host", b"localhost")]
    scope = {"type": "http", "method": "POST", "path": path, "raw_path": path.encode()}
    await site({**scope, "query_string": b"", "headers": headers}, receive, send)
    assert sent[0]["status"] == 499


async def test_cookies_of_the_api_reach_nobody() -> None:
    async with visiting() as client:
        assert "set-cookie" not in (await client.get("/v1/page")).headers
        assert "cookie" not in (await client.get("/v1/models")).json()["headers"]


async def test_an_answer_of_the_api_is_no_page_of_the_site() -> None:
    async with visiting() as client:
        headers = (await client.get("/v1/page", headers=BROWSER)).headers
    assert headers["content-security-policy"] == "default-src 'none'; sandbox"
    assert headers["x-content-type-options"] == "nosniff"
    assert "server" not in headers


@pytest.mark.parametrize(
    "path", ["/health", "/ready", "/metrics", "/tokenize", "/detokenize", "/playground/load"]
)
async def test_paths_beside_the_api_are_forwarded(path: str) -> None:
    async with visiting() as client:
        assert (await client.get(path)).json()["path"] == f"/base{path}"


@pytest.mark.parametrize(
    "path",
    [
        "/admin",
        "/v1",
        "/v1/../admin",
        "/v1/%2e%2e/admin",
        "/v1/%2E/a",
        "/v1//a",
        "/v1/a%5c..",
        "/x/v1/a",
    ],
)
async def test_nothing_else_is_forwarded(path: str) -> None:
    site = create_site("http://api.test/base/v1", (), httpx.ASGITransport(API))
    sent: list[Any] = []

    async def receive() -> Any:
        return {"type": "http.request", "body": b""}

    async def send(message: Any) -> None:
        sent.append(message)

    headers = [(b"host", b"localhost")]
    scope = {"type": "http", "method": "GET", "query_string": b"", "headers": headers}
    # As a server passes it on: a client would normalise the path.
    await site(
        {**scope, "path": path.replace("%2e", "."), "raw_path": path.encode()}, receive, send
    )
    assert sent[0]["status"] == 404
    assert json.loads(sent[1]["body"])["error"]["code"] == "unknown_url"


async def test_a_url_that_is_too_long_with_the_address_of_the_api_is_refused() -> None:
    async with visiting() as client:
        answer = await client.get("/v1/" + 65_515 * "a")
    assert answer.status_code == 400
    assert answer.json()["error"]["type"] == "invalid_request_error"


async def test_other_methods_are_refused() -> None:
    async with visiting() as client:
        assert (await client.put("/v1/models")).status_code == 404


async def test_the_challenge_of_the_api_is_passed_on() -> None:
    async with visiting() as client:
        answer = await client.get("/v1/refused")
    assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")


@pytest.mark.parametrize(
    ("status", "passed_on"),
    [(201, 201), (299, 299), (300, 500), (307, 500), (399, 500), (400, 400), (503, 503)],
)
async def test_redirects_of_the_api_are_errors(status: int, passed_on: int) -> None:
    api = httpx.ASGITransport(JSONResponse({"error": {}}, status))
    async with visiting(transport=api) as client:
        answer = await client.get("/v1/models")
    assert answer.status_code == passed_on
    if passed_on != status:
        assert "http://api.test is at another address" in answer.json()["error"]["message"]


class Streamed(httpx.AsyncByteStream):
    """An answer of the API that goes on until its connection is lost."""

    def __init__(self) -> None:
        self.is_lost = asyncio.Event()
        self.is_closed = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield b"data: 1\n\n"
        await self.is_lost.wait()
        raise httpx.ReadError("lost")

    async def aclose(self) -> None:
        self.is_closed = True


@pytest.mark.parametrize("who_leaves", ["client", "server"])
async def test_an_answer_that_ends_early_is_closed_on_both_sides(who_leaves: str) -> None:
    streamed, leaving = Streamed(), asyncio.Event()
    answers = httpx.MockTransport(lambda _: httpx.Response(200, stream=streamed))
    site = create_site("http://api.test/base/v1", (), answers)
    arriving: list[Any] = [{"type": "http.request", "body": b""}]
    sent: list[Any] = []

    async def receive() -> Any:
        if arriving:
            return arriving.pop()
        await leaving.wait()
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        sent.append(message)
        if message["type"] == "http.response.body":
            (leaving if who_leaves == "client" else streamed.is_lost).set()

    headers = [(b"host", b"localhost")]
    scope = {"type": "http", "method": "GET", "path": "/v1/a", "raw_path": b"/v1/a"}
    await site({**scope, "query_string": b"", "headers": headers}, receive, send)
    assert streamed.is_closed
    # Without a last message, the server closes the connection.
    assert [message.get("more_body") for message in sent] == [None, True]
    assert sent[1]["body"] == b"data: 1\n\n"


async def test_the_proxys_own_answers_are_no_pages_of_the_site(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def unreachable(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("away")

    monkeypatch.setattr("server.web.proxy.MAX_BODY_BYTES", 10)
    async with visiting(transport=httpx.MockTransport(unreachable)) as client:
        away = await client.get("/v1/models", headers=BROWSER)
    async with visiting() as client:
        unknown = await client.get("/admin", headers=BROWSER)
        moved = await client.get("/v1/moved", headers=BROWSER)
        large = await client.post("/v1/responses", content=b"a" * 11)
    answers = [away, unknown, moved, large]
    assert [each.status_code for each in answers] == [503, 404, 500, 413]
    for each in answers:
        assert each.headers["content-security-policy"] == "default-src 'none'; sandbox"
        assert each.headers["x-content-type-options"] == "nosniff"
        assert each.headers["cache-control"] == "no-store"


async def test_a_server_that_is_away_is_an_error_in_words() -> None:
    site = create_site("http://127.0.0.1:9/v1")
    client = httpx.AsyncClient(transport=httpx.ASGITransport(site), base_url="http://localhost")
    async with client, site.router.lifespan_context(site):
        answer = await client.get("/v1/models")
    assert answer.status_code == 503
    assert (
        answer.json()["error"]["message"] == "The server at http://127.0.0.1:9 cannot be reached."
    )


async def test_a_large_body_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("server.web.proxy.MAX_BODY_BYTES", 10)
    async with visiting() as client:
        answer = await client.post("/v1/responses", content=b"a" * 11)
    assert answer.status_code == 413
    assert answer.json()["error"]["code"] == "request_too_large"


@pytest.mark.parametrize(
    ("name", "status"),
    [("localhost", 200), ("127.0.0.1:80", 200), ("play.test", 200), ("evil.test", 421)],
)
async def test_the_host_is_checked(name: str, status: int) -> None:
    async with visiting("play.test") as client:
        answer = await client.get("/playground", headers={"host": name})
    assert answer.status_code == status


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"origin": "http://localhost"}, 200),
        ({"origin": "http://evil.test"}, 403),
        ({"sec-fetch-site": "cross-site"}, 403),
        ({"origin": "null"}, 403),
    ],
)
async def test_the_origin_is_checked(headers: dict[str, str], status: int) -> None:
    async with visiting() as client:
        assert (await client.post("/v1/responses", headers=headers)).status_code == status
        body = {"blocks": ["*a*"]}
        render = await client.post("/playground/render", json=body, headers=headers)
    assert render.status_code == status


async def test_it_has_the_page_its_files_and_its_helpers() -> None:
    async with visiting() as client:
        page = await client.get("/playground")
        script = await client.get(f"/playground/assets/{version()}/main.js")
        old = await client.get("/playground/assets/0000/main.js")
        rendered = await client.post("/playground/render", json={"blocks": ["*a*"]})
        parsed = await client.post("/playground/parse", json={"tokens": [200008]})
        bad = await client.post("/playground/render", json={})
    assert page.headers["content-security-policy"].startswith("default-src 'none'")
    assert (script.status_code, old.status_code) == (200, 404)
    assert rendered.json()["html"] == ["<p><em>a</em></p>\n"]
    assert parsed.json()["token_ids"] == [200008]
    assert (bad.status_code, bad.json()["error"]["param"]) == (400, "blocks")


async def test_browsers_are_led_to_the_playground_and_programs_get_an_error() -> None:
    async with visiting() as client:
        page = await client.get("/", headers=BROWSER)
        program = await client.get("/")
    assert (page.status_code, page.headers["location"]) == (307, "playground")
    error = program.json()["error"]
    assert (program.status_code, error["code"]) == (404, "unknown_url")
    assert error["message"] == "Invalid URL (GET /)"
