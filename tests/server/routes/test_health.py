from collections.abc import AsyncIterator
from importlib.metadata import version
from pathlib import Path

import httpx
import pytest

from adapters.base import BackendConfig
from adapters.scripted import ScriptedBackend
from server.app import create_app
from server.settings import Settings
from tests.server.tools.hosted import SEARCH, Tool


@pytest.fixture
def backend(tmp_path: Path) -> ScriptedBackend:
    script = tmp_path / "script.jsonl"
    script.touch()
    options = {"script": str(script)}
    return ScriptedBackend(BackendConfig(None, options, lambda _: [], lambda _: "", lambda: None))


@pytest.fixture
async def http(backend: ScriptedBackend) -> AsyncIterator[httpx.AsyncClient]:
    settings = Settings(backend="scripted", script="unused")
    app = create_app(settings, backend, tools=[Tool(), Tool(SEARCH, "no network")])
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
        yield client


async def test_a_server_whose_engine_runs_is_healthy(
    http: httpx.AsyncClient, backend: ScriptedBackend
) -> None:
    await backend.start()
    answer = await http.get("/health")
    assert (answer.status_code, answer.json()) == (200, {"status": "ok"})


async def test_a_server_whose_engine_is_dead_reports_the_reason(
    http: httpx.AsyncClient, backend: ScriptedBackend
) -> None:
    await backend.start()
    await backend.stop()
    answer = await http.get("/health")
    assert answer.status_code == 503
    assert answer.headers["retry-after"] == "5"
    assert "was stopped" in answer.json()["error"]["message"]


async def test_a_server_whose_engine_and_store_run_is_ready(
    http: httpx.AsyncClient, backend: ScriptedBackend
) -> None:
    await backend.start()
    answer = await http.get("/ready")
    # Without the reason, which may have addresses and files.
    tools = {"python": "on", "browser.search": "off"}
    ready = {"status": "ready", "reasons": [], "tools": tools}
    assert (answer.status_code, answer.json()) == (200, ready)
    assert (await http.head("/ready")).status_code == 200


async def test_a_server_whose_engine_is_dead_is_not_ready(
    http: httpx.AsyncClient, backend: ScriptedBackend
) -> None:
    await backend.start()
    await backend.stop()
    answer = await http.get("/ready")
    assert answer.status_code == 503
    assert answer.json()["status"] == "not ready"
    (reason,) = answer.json()["reasons"]
    assert reason.startswith("engine: ")
    assert (await http.head("/ready")).status_code == 503


async def test_a_server_that_stops_is_not_ready(backend: ScriptedBackend) -> None:
    await backend.start()
    app = create_app(Settings(backend="scripted", script="unused"), backend)
    app.state.context.draining.set()
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(app), base_url="http://test"
    ) as http:
        answer = await http.get("/ready")
    assert (answer.status_code, answer.json()["reasons"]) == (503, ["server: it is stopping"])


async def test_the_version_is_the_packages(http: httpx.AsyncClient) -> None:
    answer = (await http.get("/version")).json()
    assert answer == {"version": version("gpt-oss-server"), "backend": "scripted"}


async def test_a_load_balancer_may_ask_with_head(
    http: httpx.AsyncClient, backend: ScriptedBackend
) -> None:
    assert (await http.head("/health")).status_code == 503
    await backend.start()
    assert (await http.head("/health")).status_code == 200
    assert (await http.head("/version")).status_code == 200
