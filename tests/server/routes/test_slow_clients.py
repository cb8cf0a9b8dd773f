"""Clients that do not read their streams, through the whole application."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from starlette.types import Message

from server.store.responses.base import Store

WORDS = "".join(f" {number}" for number in range(200))
LONG = {"completion": f"<|channel|>final<|message|>{WORDS}<|return|>"}
MAX_UNREAD = 4000
MESSAGES = [{"role": "user", "content": "hi"}]


class Client:
    """An ASGI client that accepts one body, and the others once `reads` is set."""

    def __init__(self, app: Any, path: str, body: dict[str, Any] | None = None) -> None:
        self.reads = asyncio.Event()
        self.got_body = asyncio.Event()
        self.body = b""
        path, _, query = path.partition("?")
        scope = {
            "type": "http",
            "method": "GET" if body is None else "POST",
            "path": path,
            "raw_path": path.encode(),
            "query_string": query.encode(),
            "headers": [(b"content-type", b"application/json")],
        }
        self._request = [{"type": "http.request", "body": json.dumps(body).encode()}]
        self.task = asyncio.ensure_future(app.app(scope, self._receive, self._send))

    async def _receive(self) -> Message:
        if self._request:
            return self._request.pop()
        await asyncio.Event().wait()
        raise AssertionError

    async def _send(self, message: Message) -> None:
        if message.get("body"):
            self.body += message["body"]
            self.got_body.set()
            await self.reads.wait()

    async def events(self) -> list[dict[str, Any]]:
        """All events, once the client reads on and to the end."""
        self.reads.set()
        await self.task
        *received, done, rest = self.body.split(b"\n\n")
        assert (done, rest) == (b"data: [DONE]", b"")
        return [json.loads(event.partition(b"data: ")[2]) for event in received]


@asynccontextmanager
async def stalled(app: Any, path: str, body: dict[str, Any] | None = None) -> AsyncIterator[Client]:
    client = Client(app, path, body)
    await client.got_body.wait()
    yield client
    client.task.cancel()
    await asyncio.wait([client.task])


def numbered(events: list[dict[str, Any]]) -> bool:
    return [event["sequence_number"] for event in events] == list(range(len(events)))


def text(events: list[dict[str, Any]]) -> str:
    return "".join(e["delta"] for e in events if e["type"] == "response.output_text.delta")


async def test_a_stored_response_is_read_back(open_app: Any, store: Store) -> None:
    request = {"input": "hi", "stream": True}
    async with (
        open_app(LONG, store=store, max_unread=MAX_UNREAD) as app,
        stalled(app, "/v1/responses", request) as client,
    ):
        await app.until_idle()
        assert len(client.body) < MAX_UNREAD
        events = await client.events()
        response_id = events[-1]["response"]["id"]
        streamed = await app.client.get(f"/v1/responses/{response_id}?stream=true")
    assert events[-1]["type"] == "response.completed"
    assert numbered(events)
    assert text(events) == WORDS
    assert client.body == streamed.content


async def test_a_response_that_is_not_stored_ends_with_an_error(open_app: Any) -> None:
    request = {"input": "hi", "stream": True, "store": False}
    slow = LONG | {"delay_ms": 1}
    async with (
        open_app(slow, max_unread=MAX_UNREAD) as app,
        stalled(app, "/v1/responses", request) as client,
    ):
        await app.until_idle()
        events = await client.events()
    assert numbered(events)
    *_, error, failed = events
    assert (error["type"], error["code"]) == ("error", "client_too_slow")
    assert failed["response"]["error"]["code"] == "server_error"
    assert 0 < len(text(events)) < len(WORDS)


@pytest.mark.parametrize(
    ("path", "request_"),
    [
        ("/v1/chat/completions", {"model": "scripted", "messages": MESSAGES}),
        ("/v1/chat/completions", {"model": "scripted", "messages": MESSAGES, "n": 2}),
        ("/v1/chat/completions", {"model": "scripted", "messages": MESSAGES, "store": True}),
        ("/v1/completions", {"model": "scripted", "prompt": "hi", "max_tokens": 300}),
    ],
)
async def test_chunks_end_with_an_error(open_app: Any, path: str, request_: dict[str, Any]) -> None:
    slow = LONG | {"delay_ms": 1}
    async with (
        open_app(slow, max_unread=MAX_UNREAD) as app,
        stalled(app, path, request_ | {"stream": True}) as client,
    ):
        await app.until_idle()
        *chunks, error = await client.events()
        listed = (await app.client.get("/v1/chat/completions")).json()
    assert error["error"]["code"] == "client_too_slow"
    assert all(chunk["choices"] for chunk in chunks)
    assert len(client.body) < 2 * MAX_UNREAD
    assert listed["data"] == []


async def test_a_slow_follower_reads_stored_events(open_app: Any, store: Store) -> None:
    async with open_app(LONG | {"delay_ms": 1}, store=store, max_unread=MAX_UNREAD) as app:
        created = await app.post("/v1/responses", {"input": "hi", "background": True})
        url = f"/v1/responses/{created.json()['id']}?stream=true"
        async with stalled(app, url) as client:
            await app.until_idle()
            events = await client.events()
    assert numbered(events)
    assert text(events) == WORDS
