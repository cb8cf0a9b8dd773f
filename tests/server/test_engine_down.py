"""Requests to a gateway whose engine is down, through the whole application."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import httpx
import pytest

from adapters import pool
from adapters.base import Backend, BackendConfig
from adapters.errors import BackendFailed
from adapters.registry import create
from harmony.tokenizer import decode, encode_with_control
from server.app import create_app
from server.settings import Settings
from tests.adapters.fake_engine import FakeEngine, breaks_off, running, status

GENERATE = "/inference/v1/generate"
HIDDEN = ("127.0.0.1", "http:")
REQUESTS = [
    ("/v1/chat/completions", {"messages": [{"role": "user", "content": "hi"}]}),
    ("/v1/chat/completions", {"messages": [{"role": "user", "content": "hi"}], "n": 2}),
    ("/v1/responses", {"input": "hi"}),
    ("/v1/completions", {"prompt": "hi", "max_tokens": 5}),
]


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Engines that cannot be reached are tried again without a pause."""
    monkeypatch.setattr(pool, "_PAUSES", (0.0, 0.0))


@pytest.fixture
async def engine() -> AsyncIterator[FakeEngine]:
    engine = FakeEngine("vllm.json")
    engine.will("/v1/models", engine.recorded("models"))
    engine.will(GENERATE, engine.recorded("empty"), engine.recorded("length"))
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(running(engine))
        engine.stop = stack.aclose  # type: ignore[attr-defined]
        yield engine


@asynccontextmanager
async def opened(engine: FakeEngine) -> AsyncIterator[tuple[httpx.AsyncClient, Backend]]:
    options = {"url": engine.url}
    backend = create(
        "vllm-http", BackendConfig(None, options, encode_with_control, decode, lambda: None)
    )
    await backend.start()
    app = create_app(Settings(backend="vllm-http", served_model_name=("demo",)), backend)
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
        yield client, backend
    await app.state.context.gateway.runs.close()
    await backend.stop()


def refused(answer: httpx.Response) -> None:
    assert answer.status_code == 503, answer.text
    assert int(answer.headers["retry-after"]) >= 1
    error = answer.json()["error"]
    assert (error["type"], error["code"]) == ("server_error", "engine_unavailable")
    assert not any(word in error["message"] for word in HIDDEN)


@pytest.mark.parametrize(("path", "body"), REQUESTS)
async def test_an_engine_that_went_away_unnoticed(
    engine: FakeEngine, path: str, body: dict[str, Any]
) -> None:
    async with opened(engine) as (client, _):
        await engine.stop()  # type: ignore[attr-defined]
        refused(await client.post(path, json={"model": "demo", **body}))


@pytest.mark.parametrize(("path", "body"), REQUESTS)
async def test_an_engine_that_is_known_to_be_down(
    engine: FakeEngine, path: str, body: dict[str, Any]
) -> None:
    async with opened(engine) as (client, backend):
        await engine.stop()  # type: ignore[attr-defined]
        guard: Any = backend
        await guard._backend.probe()
        with pytest.raises(BackendFailed):
            await backend.check()
        refused(await client.post(path, json={"model": "demo", **body}))
        health = await client.get("/health")
    assert health.status_code == 503
    assert health.headers["retry-after"] == "5"


async def test_an_engine_that_starts(engine: FakeEngine) -> None:
    engine.will(GENERATE, engine.recorded("empty"), status(503, "loading", retry_after="7"))
    async with opened(engine) as (client, _):
        answer = await client.post("/v1/responses", json={"input": "hi"})
    refused(answer)
    assert answer.headers["retry-after"] == "7"


async def test_an_engine_that_breaks_after_a_token_has_failed(engine: FakeEngine) -> None:
    lines = engine.lines("length")
    engine.will(GENERATE, engine.recorded("empty"), breaks_off(*lines[:2]))
    async with opened(engine) as (client, _):
        answer = await client.post("/v1/responses", json={"input": "hi"})
    assert answer.status_code == 500
    assert answer.json()["error"]["code"] == "server_error"
