"""Exceptions become responses with OpenAI's body."""

from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from server.errors import NotFound
from server.http.exception_handlers import EXCEPTION_HANDLERS


def client(error: Exception | None = None) -> httpx.AsyncClient:
    """A client of an application whose `GET /x` raises the error, with other endpoints."""

    async def fail(_: Request) -> Response:
        assert error is not None
        raise error

    routes = [
        Route("/x", fail, methods=["GET"]),
        Route("/x", fail, methods=["PUT"]),
        Route("/v1/z", fail, methods=["POST"]),
    ]
    app = Starlette(routes=routes, exception_handlers=EXCEPTION_HANDLERS)
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://test")


def error_of(answer: httpx.Response) -> Any:
    return answer.json()["error"]


async def test_an_api_error_has_its_status_and_body() -> None:
    error = NotFound("There is no such thing.", param="thing")
    async with client(error) as http:
        answer = await http.get("/x")
    assert (answer.status_code, answer.json()) == (404, error.body())


async def test_an_unknown_url_is_named_without_its_query() -> None:
    async with client() as http:
        answer = await http.get("/y?key=secret")
    assert answer.status_code == 404
    assert error_of(answer) == {
        "message": "Invalid URL (GET /y)",
        "type": "invalid_request_error",
        "param": None,
        "code": "unknown_url",
    }


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_an_address_that_lacks_only_the_version_is_mended(method: str) -> None:
    async with client() as http:
        answer = await http.request(method, "/z")
    assert error_of(answer)["message"] == f"Invalid URL ({method} /z). Did you mean /v1/z?"


async def test_a_refused_method_has_those_of_all_routes() -> None:
    async with client() as http:
        answer = await http.delete("/x")
    assert (answer.status_code, answer.headers["allow"]) == (405, "GET, HEAD, PUT")
    assert error_of(answer)["message"] == (
        "Not allowed to DELETE on /x (HTTP GET or HEAD or PUT expected)."
    )


async def test_another_http_error_keeps_its_words_and_headers() -> None:
    async with client(HTTPException(400, "It is not valid.", {"x-why": "this"})) as http:
        answer = await http.get("/x")
    assert (answer.status_code, answer.headers["x-why"]) == (400, "this")
    assert error_of(answer)["message"] == "It is not valid."


async def test_a_client_that_left_gets_nothing() -> None:
    async with client(ClientDisconnect()) as http:
        answer = await http.get("/x")
    assert (answer.status_code, answer.content) == (499, b"")
