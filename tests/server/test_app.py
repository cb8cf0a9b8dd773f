"""The whole application over ASGI: what every request meets, whatever its route."""

import asyncio
import gzip
import json
import logging
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import httpx
import pytest
from fastapi.routing import APIRoute
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Message

from adapters.errors import BackendFailed
from server.app import create_app
from server.context import Context
from server.errors import InvalidRequest
from server.http.authentication import ANYONE
from server.replay.sealing import Sealer
from server.settings import Settings
from server.store.approvals.base import KEEP_SECONDS
from server.store.containers.base import Container
from server.store.files.library import FileLibrary
from server.store.responses.memory import MemoryStore
from server.tools import registry
from server.tools.base import HostedTool
from server.tools.mcp.approvals import Approvals, ProposedCall
from server.tools.registry import ToolSetup
from tests.waiting import until

ANSWER = "<|channel|>final<|message|>Hello<|return|>"
MESSAGES = [{"role": "user", "content": "A secret question"}]
CHAT: dict[str, Any] = {"model": "m", "messages": MESSAGES}

StartEngine = Callable[..., Awaitable[Any]]


def settings(**options: Any) -> Settings:
    return Settings(backend="scripted", script="unused", served_model_name=("m",), **options)


@asynccontextmanager
async def client(engine: Any, **options: Any) -> AsyncIterator[httpx.AsyncClient]:
    app = create_app(settings(**options), engine)

    async def crash(_: Request) -> Response:
        raise ValueError("a bug")

    async def leave(_: Request) -> Response:
        raise ClientDisconnect

    app.add_route("/crash", crash)
    app.add_route("/leave", leave)
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://test") as connected:
        yield connected


def context(http: httpx.AsyncClient) -> Context:
    transport: Any = http._transport
    return cast(Context, transport.app.state.context)


def error(response: httpx.Response) -> dict[str, Any]:
    body = response.json()
    assert set(body) == {"error"}
    assert set(body["error"]) == {"message", "type", "param", "code"}
    return body["error"]  # type: ignore[no-any-return]


METHODS = frozenset({"DELETE", "GET", "HEAD", "PATCH", "POST", "PUT"})


def served(http: httpx.AsyncClient, path: str) -> set[str]:
    """The methods of all routes whose pattern matches the path, read off the routing table."""
    transport: Any = http._transport
    return {
        method
        for route in transport.app.routes
        if isinstance(route, APIRoute) and route.path_regex.match(path)
        for method in route.methods
    }


async def test_a_wrong_method_is_answered_with_those_of_all_routes_of_its_path(
    start_engine: StartEngine,
) -> None:
    async with client(await start_engine(ANSWER)) as http:
        transport: Any = http._transport
        paths = [route.path for route in transport.app.routes if isinstance(route, APIRoute)]
        assert "/v1/responses/compact" in paths
        for pattern in paths:
            path = re.sub(r"\{[^}]*\}", "x", pattern)
            for method in METHODS - served(http, path):
                answer = await http.request(method, path)
                allowed = set(answer.headers["allow"].split(", "))
                assert (answer.status_code, allowed) == (405, served(http, path)), (method, path)


async def test_every_answer_has_a_request_id_and_every_error_openais_body(
    start_engine: StartEngine,
) -> None:
    engine = await start_engine(ANSWER)
    async with client(engine, max_body_bytes=200) as http:
        answers = {
            200: await http.post("/v1/chat/completions", json=CHAT),
            400: await http.post("/v1/chat/completions", content=b"{"),
            404: await http.get("/unknown"),
            405: await http.delete("/v1/models"),
            413: await http.post("/v1/chat/completions", content=b"x" * 201),
            500: await http.get("/crash"),
        }
        engine.failure = BackendFailed("gone")
        answers[503] = await http.get("/health")
    for status, answer in answers.items():
        assert answer.status_code == status
        assert re.fullmatch("req_[0-9a-f]{32}", answer.headers["x-request-id"])
        if status != 200:
            error(answer)


async def test_a_stream_has_a_request_id(start_engine: StartEngine) -> None:
    async with client(await start_engine(ANSWER)) as http:
        answer = await http.post("/v1/chat/completions", json={**CHAT, "stream": True})
    assert answer.text.endswith("data: [DONE]\n\n")
    assert answer.headers["x-request-id"].startswith("req_")


async def test_an_unknown_model_is_a_404(start_engine: StartEngine) -> None:
    async with client(await start_engine(ANSWER)) as http:
        answer = await http.post("/v1/chat/completions", json={**CHAT, "model": "x"})
    assert answer.status_code == 404
    assert (error(answer)["param"], error(answer)["code"]) == ("model", "model_not_found")


@pytest.mark.parametrize(
    ("options", "computed", "running"),
    [({}, 1024, 1024), ({}, None, 64), ({"max_running": 2}, 1024, 2)],
)
async def test_as_many_requests_sample_as_the_engine_computes_unless_it_is_set(
    start_engine: StartEngine, options: dict[str, int], computed: int | None, running: int
) -> None:
    engine = await start_engine(ANSWER)
    engine.changes["max_requests"] = computed
    async with client(engine, max_waiting=0, **options) as http:
        assert context(http).gateway.admission.limit == running


async def test_a_full_queue_has_a_retry_after(start_engine: StartEngine) -> None:
    async with client(await start_engine(ANSWER), max_running=1, max_waiting=0) as http:
        context(http).gateway.admission.enter()
        answer = await http.post("/v1/chat/completions", json=CHAT)
    assert (answer.status_code, answer.headers["retry-after"]) == (429, "1")
    assert error(answer)["code"] == "rate_limit_exceeded"


@pytest.mark.parametrize(
    "path", ["/v1/models", "/v1/models/m", "/v1/responses/resp_1", "/v1/responses"]
)
async def test_the_api_asks_for_a_key(start_engine: StartEngine, path: str) -> None:
    method = "POST" if path == "/v1/responses" else "GET"
    async with client(await start_engine(ANSWER), api_key=("k",)) as http:
        answer = await http.request(method, path)
    assert answer.status_code == 401
    assert error(answer)["code"] == "invalid_api_key"
    assert answer.headers["www-authenticate"] == "Bearer"


@pytest.mark.parametrize("path", ["/health", "/ready", "/version"])
async def test_health_and_version_ask_for_none(start_engine: StartEngine, path: str) -> None:
    async with client(await start_engine(ANSWER), api_key=("k",)) as http:
        assert (await http.get(path)).status_code == 200


async def test_browsers_may_call_from_the_origins_that_are_named(
    start_engine: StartEngine,
) -> None:
    origin = "https://chat.example"
    asked = {
        "origin": origin,
        "access-control-request-method": "POST",
        "access-control-request-headers": "authorization,content-type",
    }
    async with client(await start_engine(ANSWER), cors_origin=(origin,)) as http:
        preflight = await http.options("/v1/responses", headers=asked)
        answer = await http.get("/version", headers={"origin": origin})
        other = await http.get("/version", headers={"origin": "https://evil.example"})
    assert preflight.status_code == 200
    assert "authorization" in preflight.headers["access-control-allow-headers"]
    assert answer.headers["access-control-allow-origin"] == origin
    exposed = answer.headers["access-control-expose-headers"].split(", ")
    assert exposed == ["x-request-id", "retry-after", "idempotent-replayed"]
    assert "access-control-allow-origin" not in other.headers


async def test_keys_of_a_file_are_required(start_engine: StartEngine, tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text("k1\nk2\n")
    async with client(await start_engine(ANSWER), api_key_file=file) as http:
        for key, status in (("k1", 200), ("k2", 200), ("k3", 401)):
            answer = await http.get("/v1/models", headers={"authorization": f"Bearer {key}"})
            assert answer.status_code == status


async def test_without_origins_no_browser_may(start_engine: StartEngine) -> None:
    async with client(await start_engine(ANSWER)) as http:
        answer = await http.get("/version", headers={"origin": "https://chat.example"})
    assert answer.status_code == 403
    assert "access-control-allow-origin" not in answer.headers


@pytest.mark.parametrize("keys", [(), ("k",)])
async def test_a_page_that_posts_text_reaches_nothing(
    start_engine: StartEngine, keys: tuple[str, ...]
) -> None:
    engine = await start_engine(ANSWER)
    page = {"origin": "https://evil.example", "content-type": "text/plain"}
    async with client(engine, api_key=keys) as http:
        answer = await http.post(
            "/v1/responses",
            content=b'{"input": "hi"}',
            headers={**page, "authorization": "Bearer k"},
        )
    assert answer.status_code == 403
    assert error(answer)["code"] == "origin_not_allowed"
    assert answer.headers["x-request-id"].startswith("req_")
    assert engine.requests == []


async def test_a_client_that_names_no_content_type_is_served(start_engine: StartEngine) -> None:
    async with client(await start_engine(ANSWER)) as http:
        answer = await http.post("/v1/responses", content=b'{"input": "hi"}')
    assert answer.status_code == 200


@pytest.mark.parametrize(
    ("options", "status"),
    [
        ({}, 421),
        ({"allowed_host": ("rebound.example",)}, 200),
        ({"host": "rebound.example"}, 200),
        ({"api_key": ("k",)}, 200),
    ],
)
async def test_without_a_key_the_host_is_one_that_is_named(
    start_engine: StartEngine, options: dict[str, Any], status: int
) -> None:
    async with client(await start_engine(ANSWER), **options) as http:
        answer = await http.get("/version", headers={"host": "rebound.example:8000"})
    assert answer.status_code == status


async def test_a_client_that_leaves_while_it_sends_is_no_error(
    start_engine: StartEngine, caplog: pytest.LogCaptureFixture
) -> None:
    async with client(await start_engine(ANSWER)) as http:
        assert (await http.get("/leave")).status_code == 499
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


async def test_stopping_ends_all_runs(start_engine: StartEngine) -> None:
    app = create_app(settings(), await start_engine(ANSWER))
    run = app.state.context.gateway.runs.start(_forever, "r", background=True)
    messages = iter([{"type": "lifespan.startup"}, {"type": "lifespan.shutdown"}])
    sent: list[str] = []

    async def receive() -> Message:
        return next(messages)

    async def send(message: Message) -> None:
        sent.append(message["type"])

    await app({"type": "lifespan", "app": app}, receive, send)
    assert sent == ["lifespan.startup.complete", "lifespan.shutdown.complete"]
    assert run.done


async def _forever(_: Any) -> None:
    await asyncio.Event().wait()


async def test_objects_and_files_are_deleted_after_the_days_that_are_set(
    start_engine: StartEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    ages: dict[type, float] = {}

    async def sweep(swept: object, age: float) -> int:
        ages[type(swept)] = age
        return 0

    for part in (MemoryStore, FileLibrary):
        monkeypatch.setattr(part, "sweep", sweep)
    app = create_app(settings(store_ttl=2), await start_engine(ANSWER), tools=())
    async with app.router.lifespan_context(app):
        await until(lambda: len(ages) == 2)
    assert ages == {MemoryStore: 172_800, FileLibrary: 172_800}


async def test_files_and_containers_have_the_time_that_gateways_share(
    start_engine: StartEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(MemoryStore, "now", staticmethod(lambda: 5.0))
    async with client(await start_engine(ANSWER)) as http:
        form = {"purpose": "user_data"}
        file = (await http.post("/v1/files", files={"file": b"x"}, data=form)).json()
        containers = context(http).store.containers
        await containers.create(Container(ANYONE, "cntr_1", "x", 0, 0, 1, "1g"))
        listed = (await http.get("/v1/containers")).json()["data"]
    assert file["created_at"] == 5
    assert [each["id"] for each in listed] == ["cntr_1"]


async def test_the_key_that_is_set_seals_and_that_of_the_store_still_opens(
    start_engine: StartEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    given, stored = "g" * 42 + "A=", "s" * 42 + "A="
    monkeypatch.setattr(MemoryStore, "sealing_key", stored)
    async with client(await start_engine(ANSWER), encryption_key=(given,)) as http:
        sealer = context(http).sealer
    assert Sealer([given]).unseal_text("a", sealer.seal_text("a", "text")) == "text"
    assert sealer.unseal_text("a", Sealer([stored]).seal_text("a", "text")) == "text"


async def tool_setup(engine: Any, monkeypatch: pytest.MonkeyPatch, **options: Any) -> ToolSetup:
    """What the application makes its tools from."""
    setups: list[ToolSetup] = []

    def create(_: object, setup: ToolSetup) -> tuple[HostedTool, ...]:
        setups.append(setup)
        return ()

    with monkeypatch.context() as patched:
        patched.setattr(registry, "create", create)
        create_app(settings(**options), engine)
    return setups[0]


@pytest.mark.parametrize(
    ("hosted_tools", "reason"),
    [("python", "it has no sandbox"), ("none", "it is turned off (--hosted-tools)")],
)
async def test_without_containers_the_reason_is_known(
    start_engine: StartEngine, hosted_tools: str, reason: str
) -> None:
    async with client(await start_engine(ANSWER), hosted_tools=hosted_tools) as http:
        assert context(http).containers.problem == reason


async def test_a_sealed_request_for_approval_is_valid_for_a_time(
    start_engine: StartEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    setup = await tool_setup(await start_engine(ANSWER), monkeypatch)
    approvals: Approvals = setup.parts["approvals"]
    proposed = ProposedCall("owner", "address", "docs", "search", "{}")
    request_id = approvals.request_id(proposed, stored=False)
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + KEEP_SECONDS - 60)
    await approvals.check(request_id, proposed, {}, "input.0")
    monkeypatch.setattr(time, "time", lambda: now + KEEP_SECONDS + 60)
    with pytest.raises(InvalidRequest) as refusal:
        await approvals.check(request_id, proposed, {}, "input.0")
    assert refusal.value.code == "approval_request_not_found"


async def test_the_browser_gets_the_options_about_the_web(
    start_engine: StartEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {
        "search": ("tavily",),
        "fetch_allow_private": ("10.1.0.0/16",),
        "fetch_allow_domain": ("wiki.example:8080",),
        "egress_proxy": "http://proxy:3128",
        "robots": False,
    }
    setup = await tool_setup(await start_engine(ANSWER), monkeypatch, **options)
    assert setup.parts["web_options"] == options


async def test_logs_hold_neither_prompts_nor_keys_nor_answers(
    start_engine: StartEngine, caplog: pytest.LogCaptureFixture
) -> None:
    """Debug lines of other packages are turned off in `server.commands.serve`."""
    for package in ("adapters", "harmony", "server"):
        caplog.set_level(logging.DEBUG, package)
    engine = await start_engine(
        {"prompt_contains": "secret", "completion": ANSWER},
    )
    key = {"authorization": "Bearer hunter2"}
    async with client(engine, api_key=("hunter2",)) as http:
        bodies = [CHAT, {**CHAT, "stream": True}, {**CHAT, "n": "secret"}]
        no_match = {**CHAT, "messages": [{"role": "user", "content": "password"}]}
        for body in [*bodies, no_match, {**no_match, "stream": True}]:
            await http.post("/v1/chat/completions", json=body, headers=key)
            answer = {"model": "m", "input": body["messages"][0]["content"]}
            await http.post("/v1/responses", json=answer, headers=key)
        await http.post("/v1/chat/completions", content=json.dumps(CHAT)[:-1], headers=key)
        await http.get("/v1/models", headers={"authorization": "Bearer wrong-hunter"})
    records = [record.getMessage() for record in caplog.records]
    assert len(records) > 12
    for secret in ("secret", "password", "hunter", "Hello"):
        assert not any(secret in record for record in records)


async def test_a_compressed_request_is_answered_once_for_each_key(
    start_engine: StartEngine,
) -> None:
    engine = await start_engine(ANSWER)
    headers = {
        "content-encoding": "gzip",
        "content-type": "application/json",
        "idempotency-key": "k",
    }
    body = gzip.compress(json.dumps({"input": "hi", "stream": True}).encode())
    async with client(engine) as http:
        first, again = [
            await http.post("/v1/responses", content=body, headers=headers) for _ in range(2)
        ]
    assert first.text == again.text
    assert "response.completed" in first.text
    assert len(engine.requests) == 1
