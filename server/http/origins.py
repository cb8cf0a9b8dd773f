"""Checks which web pages may send requests, and which host names the server answers for.

A browser sends requests of any page to any server; the server has to check their origin. If the
name of a page resolves to this server (DNS rebinding), the browser treats both as one origin; only
the name in `Host` shows the difference.

Sources: RFC 6455, 10.2; the Fetch standard, "Origin"; W3C, Fetch Metadata Request Headers;
RFC 9110, 15.5.20 (421).
"""

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from server.errors import APIError, Forbidden, Misdirected
from server.http.answers.answer import error_response

LOOPBACK_NAMES = ("localhost", "127.0.0.1", "[::1]", "*.localhost")
"""Names of the local machine, which pages of other machines cannot have."""

ANY = "*"


class Origins:
    """Middleware that refuses requests of other origins (403), and for unknown hosts (421).

    cors_origin: allowed origins, `*` for any. allowed_host: host names, with or without a port, in
    addition to LOOPBACK_NAMES and the connection's local address; `*.name` allows subdomains, with
    or without a port too, `*` any name. None disables the check of `Host`: if a key is required, a
    page without one can do nothing.
    """

    def __init__(
        self, app: ASGIApp, cors_origin: tuple[str, ...], allowed_host: tuple[str, ...] | None
    ) -> None:
        self._app = app
        self._origins = cors_origin
        names = None if allowed_host is None else (*LOOPBACK_NAMES, *allowed_host)
        self._names = None if names is None or ANY in names else frozenset(map(str.lower, names))
        self._suffixes = tuple(name[1:] for name in self._names or () if name.startswith("*."))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The ASGI interface."""
        if scope["type"] in ("http", "websocket"):
            error = self._error(scope, Headers(raw=scope["headers"]))
            if error is not None:
                await error_response(error)(scope, receive, send)
                return
        await self._app(scope, receive, send)

    def _error(self, scope: Scope, headers: Headers) -> APIError | None:
        host = headers.get("host")
        if host is not None and not self._answers_for(host.lower(), scope):
            return Misdirected(
                f"This server does not answer for the host {host[:255]!r}. --allowed-host adds a"
                " name; with an API key any is served."
            )
        if not self._granted(scope, headers):
            origin = headers.get("origin", "another site")
            return Forbidden(
                f"Pages of {origin[:255]} may not send requests; --cors-origin allows more."
            )
        return None

    def _answers_for(self, host: str, scope: Scope) -> bool:
        if self._names is None:
            return True
        name = _without_port(host)
        if name.strip("[]") == _local_address(scope):
            return True
        return any(each in self._names or each.endswith(self._suffixes) for each in (host, name))

    def _granted(self, scope: Scope, headers: Headers) -> bool:
        """Whether the origin may send this request.

        Allowed are requests of no page, of this server's own origin, and of `cors_origin`.
        Preflights are allowed because they only ask for permission, and links to this server
        because the page with the link cannot read the answer.
        """
        origin, site = headers.get("origin"), headers.get("sec-fetch-site")
        if ANY in self._origins or origin in self._origins or site in ("same-origin", "none"):
            return True
        if origin is None:
            return site in (None, "same-site") or _is_link(scope, headers)
        if site is None and _authority(origin) == headers.get("host", "").lower():
            return True
        return _is_preflight(scope, headers)


def _without_port(host: str) -> str:
    name, colon, port = host.rpartition(":")
    return name if colon and port.isdecimal() else host


def _local_address(scope: Scope) -> str | None:
    """The local address of the connection; None for a Unix socket."""
    server = scope.get("server")
    # An IPv6 socket that accepts IPv4 too has mapped addresses.
    return str(server[0]).removeprefix("::ffff:") if server else None


def _authority(origin: str) -> str | None:
    """The host and port of an origin; None if it has none, such as `null`."""
    scheme, _, authority = origin.partition("://")
    return authority if authority and scheme in ("http", "https") else None


def _is_preflight(scope: Scope, headers: Headers) -> bool:
    return scope.get("method") == "OPTIONS" and "access-control-request-method" in headers


def _is_link(scope: Scope, headers: Headers) -> bool:
    return (
        scope.get("method") in ("GET", "HEAD")
        and headers.get("sec-fetch-mode") == "navigate"
        and headers.get("sec-fetch-dest") == "document"
    )
