"""Which pages may send requests, and under which names the server answers."""

from typing import Any

import httpx
import pytest
from starlette.types import Receive, Scope, Send

from server.http.answers.answer import json_response
from server.http.origins import Origins
from server.http.request_state import state_of

CHAT = "https://chat.example"
LINK = {"sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}
CROSS = {"sec-fetch-site": "cross-site"}


async def app(scope: Scope, receive: Receive, send: Send) -> None:
    await json_response({})(scope, receive, send)


async def ask(
    headers: dict[str, str],
    *origins: str,
    method: str = "POST",
    names: tuple[str, ...] | None = None,
    url: str = "http://localhost:8000/v1/responses",
) -> httpx.Response:
    guarded: Any = Origins(app, origins, names)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(guarded)) as client:
        return await client.request(method, url, headers=headers)


# Pages


@pytest.mark.parametrize(
    "headers",
    [
        pytest.param({}, id="no browser"),
        pytest.param({"origin": "http://localhost:8000"}, id="its own"),
        pytest.param({"origin": "https://localhost:8000"}, id="its own behind TLS"),
        pytest.param({"origin": "http://localhost:8000", "host": "LOCALHOST:8000"}, id="case"),
        pytest.param(
            {"origin": "https://public.example", "sec-fetch-site": "same-origin"},
            id="its own behind a proxy that names another host",
        ),
        pytest.param({"sec-fetch-site": "none"}, id="a person's own request"),
        pytest.param({"origin": CHAT, **CROSS}, id="granted"),
    ],
)
async def test_who_may_send(headers: dict[str, str]) -> None:
    assert (await ask(headers, "https://other.example", CHAT)).status_code == 200


async def test_any_page_may_where_all_are_granted() -> None:
    for headers in ({"origin": "null"}, CROSS, {"origin": CHAT, **CROSS}):
        assert (await ask(headers, "*")).status_code == 200


@pytest.mark.parametrize("content_type", ["text/plain", "application/json", ""])
@pytest.mark.parametrize(
    "headers",
    [
        pytest.param({"origin": "https://evil.example"}, id="unnamed"),
        pytest.param({"origin": "http://localhost:3000"}, id="another port"),
        pytest.param(
            {"origin": "http://localhost:3000", "sec-fetch-site": "same-site"}, id="same site"
        ),
        pytest.param({"origin": "http://localhost:8000", **CROSS}, id="its name without TLS"),
        pytest.param({"origin": "null"}, id="a page without origin"),
        pytest.param({"origin": "file://"}, id="a file"),
        pytest.param({"origin": "capacitor://localhost:8000"}, id="an app with a name of its own"),
        pytest.param({"origin": "http", "host": ""}, id="a scheme, and no host"),
        pytest.param({"origin": "https", "host": ""}, id="a scheme with TLS, and no host"),
        pytest.param({"origin": "http://", "host": ""}, id="an empty authority, and no host"),
        pytest.param({"origin": f"{CHAT}.evil.example"}, id="a prefix"),
        pytest.param({"origin": "https://evil.example", **CROSS}, id="cross-site"),
        pytest.param(CROSS, id="cross-site without an origin"),
    ],
)
async def test_who_may_not(headers: dict[str, str], content_type: str) -> None:
    sent = {**headers, **({"content-type": content_type} if content_type else {})}
    answer = await ask(sent, CHAT)
    assert answer.status_code == 403
    assert answer.json()["error"]["code"] == "origin_not_allowed"


@pytest.mark.parametrize(
    ("method", "headers", "status"),
    [
        pytest.param("GET", {**CROSS, **LINK}, 200, id="a link"),
        pytest.param("HEAD", {**CROSS, **LINK}, 200, id="a link's head"),
        pytest.param("POST", {**CROSS, **LINK}, 403, id="a form"),
        pytest.param("GET", {**CROSS, **LINK, "sec-fetch-dest": "iframe"}, 403, id="a frame"),
        pytest.param("GET", {**CROSS, "sec-fetch-mode": "no-cors"}, 403, id="an image"),
        pytest.param("GET", {"origin": CHAT}, 403, id="a script that reads"),
        pytest.param("GET", {"sec-fetch-site": "same-site"}, 200, id="an image of the site"),
        pytest.param(
            "OPTIONS",
            {"origin": CHAT, "access-control-request-method": "POST"},
            200,
            id="preflight",
        ),
        pytest.param("OPTIONS", {"origin": CHAT}, 403, id="no preflight"),
        pytest.param(
            "POST", {"origin": CHAT, "access-control-request-method": "POST"}, 403, id="a request"
        ),
    ],
)
async def test_what_pages_may_do_without_a_grant(
    method: str, headers: dict[str, str], status: int
) -> None:
    assert (await ask(headers, method=method)).status_code == status


# Hosts


@pytest.mark.parametrize(
    "host",
    [
        "localhost",
        "localhost:8000",
        "127.0.0.1:1",
        "[::1]",
        "[::1]:8000",
        "chat.localhost:8000",
        "a.b.localhost",
        "LocalHost",
        "gateway",
        "gateway:8000",
        "exact:1",
        "a.pool.example",
        "a.b.pool.example:1",
        "a.port.example:1",
        "192.0.2.7:8000",
    ],
)
async def test_which_hosts_it_answers_for(host: str) -> None:
    names = ("Gateway", "exact:1", "*.Pool.example", "*.port.example:1")
    answer = await ask({"host": host}, names=names, url="http://192.0.2.7/")
    assert answer.status_code == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:8000",
        "localhost.evil.example",
        "evillocalhost",
        "exact:2",
        "pool.example",
        "a.port.example",
        "a.port.example:2",
        "192.0.2.8",
        "[::2]:80",
        "[::1",
        "gateway:x",
        "",
        ":8000",
    ],
)
async def test_which_it_does_not(host: str) -> None:
    names = ("gateway", "exact:1", "*.pool.example", "*.port.example:1")
    answer = await ask({"host": host}, names=names, url="http://192.0.2.7/")
    assert answer.status_code == 421
    assert answer.json()["error"]["code"] == "host_not_allowed"


async def test_a_host_of_many_labels_is_looked_up_as_any_other() -> None:
    """To look each of its domains up took three quarters of a minute of the event loop."""

    class Names(frozenset[str]):
        def __contains__(self, name: object) -> bool:
            looked_up.append(name)
            return super().__contains__(name)

    looked_up: list[object] = []
    origins = Origins(app, (), ())
    origins._names = Names(["localhost"])
    statuses: list[int] = []
    scope = {"type": "http", "headers": [(b"host", b"a." * 1000)]}
    await origins(scope, _nothing, _statuses(statuses))
    assert statuses == [421]
    assert len(looked_up) <= 2


async def test_every_host_is_served_where_all_are_or_a_key_is_needed() -> None:
    for names in (("*",), None):
        assert (await ask({"host": "any.example"}, names=names)).status_code == 200


async def test_a_page_that_pretends_to_be_of_this_server_is_refused_by_its_host() -> None:
    """By DNS rebinding it is of the same origin, and no browser says that it is cross-site."""
    headers = {"host": "evil.example:8000", "origin": "http://evil.example:8000"}
    assert (await ask(headers, names=())).status_code == 421


@pytest.mark.parametrize(
    ("server", "status"),
    [(("::ffff:192.0.2.7", 8000), 200), (("192.0.2.8", 8000), 421), (("/socket", None), 421)],
)
async def test_the_address_of_the_connection_is_a_name(server: Any, status: int) -> None:
    statuses: list[int] = []
    scope = {"type": "http", "headers": [(b"host", b"192.0.2.7")], "server": server}
    await Origins(app, (), ())(scope, _nothing, _statuses(statuses))
    assert statuses == [status]


@pytest.mark.parametrize("server", [None, ("127.0.0.1", 8000)])
async def test_a_client_of_http_1_0_may_name_none(server: Any) -> None:
    statuses: list[int] = []
    scope = {"type": "http", "headers": [], "server": server}
    await Origins(app, (), ())(scope, _nothing, _statuses(statuses))
    assert statuses == [200]


async def test_a_websocket_of_another_page_is_denied() -> None:
    statuses: list[int] = []
    headers = [(b"host", b"localhost"), (b"origin", b"https://evil.example")]
    scope = {"type": "websocket", "headers": headers}
    await Origins(app, (), ())(
        scope, _nothing, _statuses(statuses, "websocket.http.response.start")
    )
    assert statuses == [403]


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ([(b"host", b"evil.example")], "host_not_allowed"),
        ([(b"host", b"localhost"), (b"origin", b"https://evil.example")], "origin_not_allowed"),
    ],
)
async def test_a_refusal_counts_as_an_error(headers: list[Any], code: str) -> None:
    scope: Scope = {"type": "http", "headers": headers}
    await Origins(app, (), ())(scope, _nothing, _statuses([]))
    assert state_of(scope).error_code == code


async def test_the_lifespan_passes() -> None:
    seen = []

    async def started(scope: Scope, receive: Receive, send: Send) -> None:
        seen.append(scope["type"])

    await Origins(started, (), ())({"type": "lifespan"}, _nothing, _statuses([]))
    assert seen == ["lifespan"]


async def _nothing() -> Any:
    raise AssertionError("nothing is read")


def _statuses(statuses: list[int], start: str = "http.response.start") -> Send:
    async def send(message: Any) -> None:
        if message["type"] == start:
            statuses.append(message["status"])

    return send
