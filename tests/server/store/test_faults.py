"""A store that is full, broken or gone: a clear 503, while what needs no store is served."""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from adapters.base import BackendConfig
from adapters.scripted import ScriptedBackend
from harmony.tokenizer import decode, encode_with_control
from server.app import create_app
from server.http.authentication import ANYONE
from server.settings import Settings
from server.store.errors import StoreUnavailable
from server.store.responses.base import Event, Ledger, Store, StoredResponse
from server.store.responses.memory import MemoryStore
from server.store.responses.sql import SqlStore
from tests.postgres import Postgres
from tests.server.store.responses.test_sql import limit_pages

ANSWER = "<|channel|>final<|message|>Hello!<|return|>"
SLOW = "at length"
SCRIPT = [
    {
        "prompt_contains": SLOW,
        "completion": f"<|channel|>final<|message|>{'word ' * 100}<|return|>",
        "delay_ms": 20,
    },
    {"prompt_contains": None, "completion": ANSWER},
]
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
async def serving(
    store: Store, folder: Path, patience: float = 0
) -> AsyncIterator[httpx.AsyncClient]:
    """patience: seconds that answers wait for the store."""
    script = folder / "script.jsonl"
    script.write_text("".join(json.dumps(line) + "\n" for line in SCRIPT), encoding="utf-8")
    config = BackendConfig(None, {"script": str(script)}, encode_with_control, decode, list)
    backend = ScriptedBackend(config)
    await backend.start()
    settings = Settings(backend="scripted", script=str(script), store_patience=patience)
    app = create_app(settings, backend, store)
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
                assert answer.status_code == (400 if "previous_response_id" in body else 404)
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
    monkeypatch.setattr("server.store.responses.sql._POSTGRES_POLL_SECONDS", 0.05)
    server = await asyncio.to_thread(start_postgres)
    store = Followed(await asyncio.to_thread(server.new_database))
    await store.start()
    async with serving(store, tmp_path) as client:
        response = {"id": "resp_1", "status": "in_progress", "output": []}
        await store.begin(StoredResponse(ANYONE, response, "2026-01-31", (), (), ()))
        created = {"type": "response.created", "response": response, "sequence_number": 0}
        await store.append("resp_1", [created])
        following = asyncio.ensure_future(client.get("/responses/resp_1?stream=true"))
        await store.followed.wait()
        await asyncio.to_thread(server.kill)
        answer = await following
    await store.stop()
    events = _events(answer.text)
    assert events[0] == created
    assert [(event["type"], event["sequence_number"]) for event in events[1:]] == [("error", 0)]
    assert answer.text.endswith("data: [DONE]\n\n")


class Failing(SqlStore):
    """Says how often each of its runs has failed to write."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.failures: Counter[str] = Counter()
        self.changed = asyncio.Condition()

    async def begin(self, stored: StoredResponse) -> None:
        await super().begin(stored)
        async with self.changed:
            self.failures[stored.id] = 0
            self.changed.notify_all()

    async def append(self, response_id: str, events: Sequence[Event]) -> None:
        async with self._counted(response_id):
            await super().append(response_id, events)

    async def end(self, stored: StoredResponse, events: Sequence[Event]) -> None:
        async with self._counted(stored.id):
            await super().end(stored, events)

    @asynccontextmanager
    async def _counted(self, response_id: str) -> AsyncIterator[None]:
        try:
            yield
        except StoreUnavailable:
            async with self.changed:
                self.failures[response_id] += 1
                self.changed.notify_all()
            raise


async def test_no_answer_is_lost_where_a_server_goes_and_comes_back(
    start_postgres: Callable[[], Postgres], tmp_path: Path
) -> None:
    server = await asyncio.to_thread(start_postgres)
    store = Failing(await asyncio.to_thread(server.new_database))
    await store.start()
    async with serving(store, tmp_path, patience=600) as client:
        background = [
            (await client.post("/responses", json={"input": SLOW, "background": True})).json()["id"]
            for _ in range(8)
        ]
        waiting = [
            asyncio.ensure_future(client.post("/responses", json={"input": SLOW} | more))
            for more in ({}, {"stream": True})
        ]
        chat = {"model": "scripted", "messages": [{"role": "user", "content": SLOW}], "store": True}
        waiting.append(asyncio.ensure_future(client.post("/chat/completions", json=chat)))
        async with store.changed:
            await store.changed.wait_for(lambda: len(store.failures) == 10)
        await asyncio.to_thread(server.kill)
        async with store.changed:
            await store.changed.wait_for(lambda: min(store.failures.values()) >= 4)
        await asyncio.to_thread(server.start)
        whole, stream, completion = await asyncio.gather(*waiting)
        ids = [*background, whole.json()["id"], _events(stream.text)[0]["response"]["id"]]
        for response_id in ids:
            replay = await client.get(f"/responses/{response_id}?stream=true")
            events = _events(replay.text)
            assert events[-1]["type"] == "response.completed"
            assert [event["sequence_number"] for event in events] == list(range(len(events)))
            assert events[-1]["response"]["output"][0]["content"][0]["text"] == "word " * 100
        stored = await client.get(f"/chat/completions/{completion.json()['id']}")
        assert stored.json()["choices"][0]["message"]["content"] == "word " * 100
    await store.stop()


async def test_a_full_disk(tmp_path: Path) -> None:
    store = SqlStore(f"sqlite:///{tmp_path}/store.db")
    await store.start()
    await limit_pages(store)
    async with serving(store, tmp_path) as client:
        # A little may still fit into the pages that are there.
        while (await client.post("/responses", json={"input": "hi " * 3000})).status_code == 200:
            continue
        for body in STATEFUL[:2]:
            while (await client.post("/responses", json=body)).status_code == 200:
                continue
        await assert_only_stateless_is_served(client, reads=True)
    await store.stop()


@pytest.fixture
async def read_only(tmp_path: Path) -> AsyncIterator[SqlStore]:
    """A store, not started, on a file that can only be read."""
    first = SqlStore(f"sqlite:///{tmp_path}/store.db")
    await first.start()
    await first.stop()
    # Root may write to any file: SQLite is told instead.
    store = SqlStore(f"sqlite:///file:{tmp_path}/store.db?mode=ro&uri=true")
    yield store
    await store.stop()


async def test_a_file_that_can_only_be_read(read_only: SqlStore, tmp_path: Path) -> None:
    async with serving(read_only, tmp_path) as client:
        await assert_only_stateless_is_served(client, reads=True)


async def test_a_file_that_can_only_be_read_ends_the_start(read_only: SqlStore) -> None:
    with pytest.raises(StoreUnavailable):
        await read_only.start()


class FailsLater(MemoryStore):
    """Has room for how a response began, and none for how it ends."""

    async def append(self, response_id: str, events: Any) -> None:
        raise StoreUnavailable("No room.")

    async def end(self, stored: StoredResponse, events: Any) -> None:
        raise StoreUnavailable("No room.")


async def test_an_answer_that_cannot_be_stored_is_not_sent(tmp_path: Path) -> None:
    async with serving(FailsLater(), tmp_path) as client:
        answer = await client.post("/responses", json={"input": "hi"})
    assert answer.status_code == 503
    assert answer.json()["error"]["code"] == "store_unavailable"


@pytest.mark.parametrize("background", [False, True])
async def test_a_stream_whose_end_cannot_be_stored_fails(tmp_path: Path, background: bool) -> None:
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
