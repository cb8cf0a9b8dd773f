"""Turns the exceptions of requests into responses, in OpenAI's body."""

from collections.abc import Callable, Coroutine, Iterator
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Match, Route

from server.errors import APIError
from server.http.answers.answer import CLIENT_CLOSED_REQUEST, error_response, json_response
from server.http.request_state import state_of

_VERSION = "/v1"


async def _api_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, APIError)
    return error_response(error)


async def _client_disconnect(_: Request, __: Exception) -> Response:
    """The client disconnected before the end of its request."""
    return Response(status_code=CLIENT_CLOSED_REQUEST)


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    allowed = sorted(set(_allowed_methods(request))) if error.status_code == 405 else []
    body = {
        "message": _message(request, error, allowed),
        "type": "invalid_request_error",
        "param": None,
        "code": "unknown_url" if error.status_code == 404 else None,
    }
    state_of(request.scope).error_code = body["code"]
    response = json_response({"error": body}, error.status_code)
    response.headers.update(error.headers or {})
    if allowed:
        response.headers["Allow"] = ", ".join(allowed)
    return response


def _message(request: Request, error: HTTPException, allowed: list[str]) -> str:
    """The message; for an unknown address or method that of OpenAI's API."""
    method, path = request.method, request.url.path
    if error.status_code == 404:
        return f"Invalid URL ({method} {path}){_hint(request, path)}"
    if error.status_code == 405:
        return f"Not allowed to {method} on {path} (HTTP {' or '.join(allowed)} expected)."
    return error.detail


def _hint(request: Request, path: str) -> str:
    """The end of the message if the same path below `/v1` is an endpoint, else nothing.

    The base URL of such a client lacks the version.
    """
    meant = f"{_VERSION}{path}"
    known = any(route.path.startswith(_VERSION) for route in _routes(request, meant))
    return f". Did you mean {meant}?" if known else ""


def _allowed_methods(request: Request) -> Iterator[str]:
    """The methods of all routes that match the path; the router lists only those of the first."""
    for route in _routes(request, request.scope["path"]):
        yield from route.methods or ()


def _routes(request: Request, path: str) -> Iterator[Route]:
    """The routes that match the path, whatever their methods."""
    scope = {**request.scope, "path": path}
    for route in request.app.routes:
        if isinstance(route, Route) and route.matches(scope)[0] is not Match.NONE:
            yield route


EXCEPTION_HANDLERS: dict[
    int | type[Exception], Callable[[Request, Exception], Coroutine[Any, Any, Response]]
] = {
    APIError: _api_error,
    HTTPException: _http_error,
    ClientDisconnect: _client_disconnect,
}
"""For the applications of this server: the API, and the playground as a site of its own."""
