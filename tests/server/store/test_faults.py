"""A store that is full, broken or gone: a clear 503, while what needs no store is served."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from adapters.base import BackendConfig
from adapters.scripted import ScriptedBackend
from harmony.tokenizer import decode, encode_with_control
from server.app import create_app
from server.auth import ANYONE
from server.settings import Settings
from server.store.base import Event, Ledger, Store, StoredResponse, StoreUnavailable
from server.store.memory import MemoryStore
from server.store.sql import SqlStore
from tests.postgres import Postgres
from tests.server.store.test_sql import limit_pages

ANSWER = "<|channel|>final<|message|>Hello!<|return|>"
REASONING = {"type": "reasoning", "id": "rs_1", "summary": [], "content": []}
STATELESS: list[dict[str, Any]] = [
    {"input": "hi", "store": False},
    {"input": [{"role": "user", "content": "hi", "id": "msg_1"}, REASONING], "store": False},
]
STATEFUL: list[dict[str, Any]] = [
    {"input": "hi"},
    {"input": "hi", "background": True},
    {"input": "hi", "previous_response_id": "resp_1", "store": False},
    {"input": [{"type": "item_reference", "id": "msg_1"}], "store": False},
]


@asynccontextmanager
async def serving(store: Store, folder: Path) -> AsyncIterator[httpx.AsyncClient]:
    script = folder / "script.jsonl"
    script.write_text(json.dumps({"completion": ANSWER}), encoding="utf-8")
    config = BackendConfig(None, {"script": str(script)}, encode_with_control, decode, list)
    backend = ScriptedBackend(config)
    await backend.start()
    app = create_app(Settings(backend="scripted", script=str(script)), backend, store)
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://test/v1") as client:
        yield client
    await app.state.context.gateway.runs.close()
    await backend.stop()


async def assert_only_stateless_is_served(client: httpx.AsyncClient, *, reads: bool) -> None:
    """reads: what is stored can still be read."""
    for stream in (False, True):
        for body in STATEFUL:
            answer = await client.post("/responses", json=body | {"stream": stream})
            if reads and "background" not in body and body != STATEFUL[0]:
                assert answer.status_code == 404
                continue
            assert answer.status_code == 503, answer.text
            error = answer.json()["error"]
            assert (error["type"], error["code"]) == ("server_error", "store_unavailable")
            assert "store: false" in error["message"]
        for body in STATELESS:
            answer = await client.post("/responses", json=body | {"stream": stream})
            assert answer.status_code == 200, answer.text
            assert "Hello!" in answer.text
    chat = {"model": "scripted", "messages": [{"role": "user", "content": "hi"}]}
    assert (await client.post("/chat/completions", json=chat)).status_code == 200
    assert (await client.get("/responses/resp_1")).status_code == (404 if reads else 503)


async def test_a_lost_server(start_postgres: Callable[[], Postgres], tmp_path: Path) -> None:
    server = await asyncio.to_thread(start_postgres)
    store = SqlStore(await asyncio.to_thread(server.new_database))
    await store.start()
    async with serving(store, tmp_path) as client:
        made = await client.post("/responses", json={"input": "hi"})
        await asyncio.to_thread(server.kill)
        await assert_only_stateless_is_served(client, reads=False)
        await asyncio.to_thread(server.start)
        url = f"/responses/{made.json()['id']}"
        assert (await client.get(url)).json() == made.json()
        assert (await client.post("/responses", json={"input": "hi"})).status_code == 200
    await store.stop()


class Followed(SqlStore):
    """Says when it has been asked for what comes after the first events."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.followed = asyncio.Event()

    async def ledger(
        self, owner: str, response_id: str, start: int = 0, *, most: int | None = None
    ) -> Ledger | None:
        ledger = await super().ledger(owner, response_id, start, most=most)
        if start:
            self.followed.set()
        return ledger


async def test_a_server_that_is_lost_while_a_response_is_followed(
    start_postgres: Callable[[], Postgres], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("server.store.sql._PATIENCE_SECONDS", 0.05)
    server = await asyncio.to_thread(start_postgres)
    store = Followed(await asyncio.to_thread(server.new_database))
    await store.start()
    async with serving(store, tmp_path) as client:
        response = {"id": "resp_1", "status": "in_progress", "output": []}
        await store.begin(StoredResponse(ANYONE.id, response, "2026-01-31", (), (), ()))
        created = {"type": "response.created", "response": response, "sequence_number": 0}
        await store.append("resp_1", [created])
        following = asyncio.ensure_future(client.get("/responses/resp_1?stream=true"))
        await store.followed.wait()
        await asyncio.to_thread(server.kill)
        answer = await following
    await store.stop()
    told = _events(answer.text)
    assert told[0] == created
    assert [(event["type"], event["sequence_number"]) for event in told[1:]] == [("error", 1)]
    assert answer.text.endswith("data: [DONE]\n\n")


async def test_a_full_disk(tmp_path: Path) -> None:
    store = SqlStore(f"sqlite:///{tmp_path}/store.db")
    await store.start()
    await limit_pages(store)
    async with serving(store, tmp_path) as client:
        # A little may still fit into the pages that are there.
        while (await client.post("/responses", json={"input": "hi " * 3000})).status_code == 200:
            continue
        while (await client.post("/responses", json={"input": "hi"})).status_code == 200:
            continue
        await assert_only_stateless_is_served(client, reads=True)
    await store.stop()


async def test_a_file_that_can_only_be_read(tmp_path: Path) -> None:
    first = SqlStore(f"sqlite:///{tmp_path}/store.db")
    await first.start()
    await first.stop()
    # Root may write to any file: SQLite is told instead.
    store = SqlStore(f"sqlite:///file:{tmp_path}/store.db?mode=ro&uri=true")
    async with serving(store, tmp_path) as client:
        await assert_only_stateless_is_served(client, reads=True)
    await store.stop()


class FailsLater(MemoryStore):
    """Has room for how a response began, and none for how it ends."""

    async def append(self, response_id: str, events: Any) -> None:
        raise StoreUnavailable("No room.")

    async def end(self, stored: StoredResponse, events: Any) -> None:
        raise StoreUnavailable("No room.")


async def test_an_answer_that_cannot_be_kept_is_not_given(tmp_path: Path) -> None:
    async with serving(FailsLater(), tmp_path) as client:
        answer = await client.post("/responses", json={"input": "hi"})
    assert answer.status_code == 503
    assert answer.json()["error"]["code"] == "store_unavailable"


@pytest.mark.parametrize("background", [False, True])
async def test_a_stream_whose_end_cannot_be_kept_fails(tmp_path: Path, background: bool) -> None:
    body = {"input": "hi", "stream": True, "background": background}
    async with serving(FailsLater(), tmp_path) as client:
        answer = await client.post("/responses", json=body)
    events = _events(answer.text)
    kinds = [event["type"] for event in events]
    assert kinds[-2:] == ["error", "response.failed"]
    assert "response.completed" not in kinds
    assert events[-2]["code"] == "store_unavailable"
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    assert answer.text.endswith("data: [DONE]\n\n")


async def test_a_stream_that_failed_is_made_anew_for_a_retry(tmp_path: Path) -> None:
    body, headers = {"input": "hi", "stream": True}, {"idempotency-key": "k"}
    async with serving(FailsLater(), tmp_path) as client:
        answers = [await client.post("/responses", json=body, headers=headers) for _ in range(2)]
    assert ["response.failed" in answer.text for answer in answers] == [True, True]
    assert "idempotent-replayed" not in answers[1].headers


def _events(stream: str) -> list[Event]:
    return [
        json.loads(line.removeprefix("data: "))
        for line in stream.splitlines()
        if line.startswith("data: {")
    ]
