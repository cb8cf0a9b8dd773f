import asyncio
import threading
from collections.abc import Callable, Sequence
from typing import Any

import orjson
import pytest
from starlette.requests import Request
from starlette.types import Message

from server.encoding.json_pieces import PIECE, EncodedArray
from server.errors import InvalidRequest
from server.generation.runs import Emit, Run, Show, WireEvent
from server.http.answers.answer import json_response, respond
from server.http.answers.backlog import EVENTS_AT_ONCE, Feed
from server.outbound.event_bytes import unnamed
from tests.waiting import settle, until


class Connection:
    """A client whose request is sent, until it leaves."""

    def __init__(self) -> None:
        self.left = asyncio.Event()
        self._sent = [{"type": "http.request", "body": b""}]

    async def receive(self) -> Message:
        if self._sent:
            return self._sent.pop()
        await self.left.wait()
        return {"type": "http.disconnect"}

    @property
    def request(self) -> Request:
        return Request({"type": "http"}, self.receive)


class Keeping:
    """A journal that shows events at once."""

    async def begin(self) -> None:
        pass

    async def write(self, events: Sequence[WireEvent], show: Show) -> None:
        show(events)


@pytest.fixture
async def connection() -> Connection:
    return Connection()


def saying(*events: WireEvent, then: Exception | None = None) -> Callable[[Emit], Any]:
    async def produce(emit: Emit) -> None:
        for event in events:
            await asyncio.sleep(0)
            await emit([event])
        if then is not None:
            raise then

    return produce


async def forever(_: Emit) -> None:
    await asyncio.Event().wait()


def feed(run: Run) -> Feed:
    return Feed(run, unnamed, limit=1_000_000)


def whole(run: Run, connection: Connection) -> Any:
    return respond(feed(run), connection.request, stream=False, fold=count)


def count(events: Sequence[WireEvent]) -> dict[str, Any]:
    return {"events": len(events)}


def test_json_is_compact_utf8() -> None:
    response = json_response({"text": "é"}, 201)
    assert response.body == '{"text":"é"}'.encode()
    assert (response.status_code, response.media_type) == (201, "application/json")


async def test_a_whole_answer_is_the_fold_of_all_events(connection: Connection) -> None:
    response = await whole(Run(saying({"a": 1}, {"b": 2})), connection)
    assert (response.status_code, response.body) == (200, b'{"events":2}')


async def test_a_stream_of_the_same_run_takes_nothing_from_a_whole_answer(
    connection: Connection,
) -> None:
    number = 3 * EVENTS_AT_ONCE
    over, folding, streamed = asyncio.Event(), asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    async def produce(emit: Emit) -> None:
        await emit([{"n": n} for n in range(number)])
        await over.wait()

    async def send(message: Message) -> None:
        await folding.wait()

    def fold(events: Sequence[WireEvent]) -> dict[str, Any]:
        loop.call_soon_threadsafe(folding.set)
        assert streamed.wait(60)
        return count(events)

    run = Run(produce, journal=Keeping())
    answer = asyncio.create_task(
        respond(feed(run), connection.request, stream=False, fold=fold, reads_history=True)
    )
    await until(lambda: len(run.events) == number)
    stream = await respond(feed(run), connection.request, stream=True, fold=count)
    streaming = asyncio.create_task(stream({"type": "http"}, connection.receive, send))
    await asyncio.sleep(0)
    over.set()
    await streaming
    streamed.set()
    assert (await answer).body == b'{"events":%d}' % number


@pytest.mark.parametrize("reads_history", [False, True])
async def test_what_reads_a_history_is_folded_beside_the_event_loop(
    connection: Connection, reads_history: bool
) -> None:
    threads: list[int] = []

    def fold(_: Sequence[WireEvent]) -> dict[str, Any]:
        threads.append(threading.get_ident())
        return {}

    await respond(
        feed(Run(saying({"a": 1}))),
        connection.request,
        stream=False,
        fold=fold,
        reads_history=reads_history,
    )
    assert [one != threading.get_ident() for one in threads] == [reads_history]


async def test_a_failed_run_is_its_error(connection: Connection) -> None:
    with pytest.raises(InvalidRequest, match=r"No\."):
        await whole(Run(saying({"a": 1}, then=InvalidRequest("No."))), connection)


async def test_a_client_that_leaves_takes_its_run_with_it(connection: Connection) -> None:
    run = Run(forever)
    answer = asyncio.create_task(whole(run, connection))
    connection.left.set()
    assert (await answer).status_code == 499
    await run.wait()


async def test_a_client_that_leaves_does_not_end_a_background_run(connection: Connection) -> None:
    run = Run(forever, background=True)
    connection.left.set()
    assert (await whole(run, connection)).status_code == 499
    assert not run.done
    run.cancel()
    await run.wait()


async def test_a_server_that_stops_takes_the_run_with_it(connection: Connection) -> None:
    run = Run(forever)
    answer = asyncio.create_task(whole(run, connection))
    await asyncio.sleep(0)
    answer.cancel()
    await asyncio.wait([answer])
    assert answer.cancelled()
    await run.wait()


async def test_a_streamed_answer_is_a_stream_of_events(connection: Connection) -> None:
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    run = Run(saying({"a": 1}))
    response = await respond(feed(run), connection.request, stream=True, fold=count)
    await response({"type": "http"}, connection.receive, send)
    assert sent[0]["status"] == 200
    assert dict(sent[0]["headers"])[b"content-type"].startswith(b"text/event-stream")
    assert [message["body"] for message in sent[1:]] == [
        b'data: {"a":1}\n\n',
        b"data: [DONE]\n\n",
    ]


@pytest.mark.parametrize("journal", [None, Keeping()])
async def test_only_a_run_that_others_may_join_keeps_what_is_streamed(
    connection: Connection, journal: Keeping | None
) -> None:
    async def send(message: Message) -> None:
        pass

    over = asyncio.Event()

    async def produce(emit: Emit) -> None:
        await emit([{"a": 1}])
        await over.wait()

    run = Run(produce, journal=journal)
    response = await respond(feed(run), connection.request, stream=True, fold=count)
    streaming = asyncio.create_task(response({"type": "http"}, connection.receive, send))
    await settle()
    assert run.events == ([] if journal is None else [{"a": 1}])
    over.set()
    await streaming
    assert run.events == []


async def test_a_large_answer_is_sent_in_parts(connection: Connection) -> None:
    values = EncodedArray()
    values.add(range(100_000))
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    run = Run(saying({"a": 1}))
    response = await respond(
        feed(run), connection.request, stream=False, fold=lambda _: {"values": values}
    )
    await response({"type": "http"}, connection.receive, send)
    head, *bodies = sent
    whole_body = b"".join(message["body"] for message in bodies)
    assert orjson.loads(whole_body) == {"values": [*range(100_000)]}
    assert dict(head["headers"]) == {
        b"content-length": str(len(whole_body)).encode(),
        b"content-type": b"application/json",
    }
    assert [message.get("more_body", False) for message in bodies] == [True] * (len(bodies) - 1) + [
        False
    ]
    assert max(len(message["body"]) for message in bodies) < 3 * PIECE
    assert len(bodies) > 5
