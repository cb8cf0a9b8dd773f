from collections.abc import AsyncIterator

import httpx
import pytest

from adapters.base import CONTEXT_LENGTH, BackendConfig
from adapters.scripted import ScriptedBackend
from server.app import create_app
from server.settings import Settings


@pytest.fixture
async def http() -> AsyncIterator[httpx.AsyncClient]:
    backend = ScriptedBackend(BackendConfig(None, {}, lambda _: [], lambda _: "", lambda: None))
    names = ("big/one", "second")
    settings = Settings(backend="scripted", script="unused", served_model_name=names)
    transport = httpx.ASGITransport(create_app(settings, backend))
    async with httpx.AsyncClient(transport=transport, base_url="http://test/v1") as client:
        yield client


async def test_all_names_are_listed_the_default_first(http: httpx.AsyncClient) -> None:
    listed = (await http.get("/models")).json()
    assert listed["object"] == "list"
    assert [model["id"] for model in listed["data"]] == ["big/one", "second"]


@pytest.mark.parametrize("path", ["/models/big/one", "/models/big%2Fone"])
async def test_a_name_may_hold_a_slash(http: httpx.AsyncClient, path: str) -> None:
    model = (await http.get(path)).json()
    assert (model["id"], model["object"]) == ("big/one", "model")
    assert model["max_model_len"] == CONTEXT_LENGTH
    assert isinstance(model["created"], int)


async def test_any_other_name_is_a_404(http: httpx.AsyncClient) -> None:
    answer = await http.get("/models/third")
    assert answer.status_code == 404
    assert answer.json()["error"]["code"] == "model_not_found"


@pytest.mark.parametrize("path", ["/models", "/models/second"])
async def test_head_requests_are_answered(http: httpx.AsyncClient, path: str) -> None:
    assert (await http.head(path)).status_code == 200


async def test_only_the_demo_model_is_described_as_tiny(http: httpx.AsyncClient) -> None:
    assert "description" not in (await http.get("/models/second")).json()
    backend = ScriptedBackend(BackendConfig(None, {}, lambda _: [], lambda _: "", lambda: None))
    transport = httpx.ASGITransport(create_app(Settings(), backend))
    async with httpx.AsyncClient(transport=transport, base_url="http://test/v1") as demo:
        [model] = (await demo.get("/models")).json()["data"]
    assert "tiny" in model["description"]
