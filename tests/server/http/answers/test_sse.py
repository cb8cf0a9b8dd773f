import asyncio
import gc
import weakref
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from typing import Any

import orjson
import pytest
from sse_starlette import EventSourceResponse
from starlette.types import Message

from server.encoding.json_pieces import EncodedArray
from server.errors import ClientTooSlow, InvalidRequest
from server.generation.runs import Emit, Run, WireEvent
from server.http.answers import sse
from server.http.answers.backlog import Feed, Stored
from server.http.answers.sse import RunStream, stream_batches
from server.http.request_state import state_of
from server.outbound.event_bytes import named, unnamed
from tests.waiting import settle

EVENT = {"type": "response.created", "text": "é\n"}
ONE, TWO, THREE = (b'data: {"n":%d}\n\n' % number for number in (1, 2, 3))
DONE = b"data: [DONE]\n\n"
PING = b": ping\n\n"
LARGE = 1_000_000
"""A limit that no test reaches."""
START = "http.response.start"


def saying(*numbers: int, then: Exception | None = None) -> Callable[[Emit], Awaitable[None]]:
    """Once it is read, emits without a wait between."""

    async def produce(emit: Emit) -> None:
        await asyncio.sleep(0)
        for number in numbers:
            await emit([{"n": number}])
        if then is not None:
            raise then

    return produce


def saying_for_ever(*numbers: int) -> Callable[[Emit], Awaitable[None]]:
    """As `saying`, and then stays."""

    async def produce(emit: Emit) -> None:
        await saying(*numbers)(emit)
        await asyncio.Event().wait()

    return produce


two = saying(1, 2)
forever = saying_for_ever(1)


class Client:
    """What an ASGI server is to a response.

    reads: until it is set the socket is full: it takes a body, and says so later. breaks: asked
    for each message, once it is taken; true where the connection broke meanwhile.
    """

    def __init__(self) -> None:
        self.sent: list[Message] = []
        self.left = asyncio.Event()
        self.got_body = asyncio.Event()
        self.reads = asyncio.Event()
        self.reads.set()
        self.breaks: Callable[[Message], bool] = lambda _: False
        self.waiting = 0
        self.scope: dict[str, Any] = {
            "type": "http",
            "method": "POST",
            "asgi": {"spec_version": "2.4"},
        }
        self._requests: list[Message] = [{"type": "http.request", "body": b""}]

    async def receive(self) -> Message:
        if self._requests:
            return self._requests.pop()
        await self.left.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        self.sent.append(message)
        if message.get("body"):
            self.got_body.set()
            self.waiting += 1
            try:
                await self.reads.wait()
            finally:
                self.waiting -= 1
        if self.breaks(message):
            raise OSError("broken")

    async def get(
        self, run: Run, start: int = 0, *, limit: int = LARGE, stored: Stored | None = None
    ) -> None:
        feed = Feed(run, unnamed, limit, start, stored)
        await RunStream(feed)(self.scope, self.receive, self.send)

    async def until(self, condition: Callable[[], bool]) -> None:
        """Return when the condition holds, which it may after a body."""
        while not condition():
            self.got_body.clear()
            await self.got_body.wait()

    @property
    def bodies(self) -> list[bytes]:
        """What was written, a write each."""
        return [message["body"] for message in self.sent if message.get("body")]

    @property
    def body(self) -> bytes:
        return b"".join(self.bodies)


@pytest.fixture
async def client() -> Client:
    return Client()


@pytest.fixture
async def full() -> Client:
    """A client that does not read yet."""
    client = Client()
    client.reads.clear()
    return client


async def end(*streaming: "asyncio.Task[None]") -> None:
    for task in streaming:
        task.cancel()
    await asyncio.wait(streaming)


async def pinged(client: Client, times: int = 3) -> None:
    """Return when a client that reads has got so many more pings than it has now."""
    before = client.bodies.count(PING)
    await client.until(lambda: client.bodies.count(PING) >= before + times)


@pytest.fixture
def no_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every event is written at once."""
    monkeypatch.setattr(sse, "WRITE_INTERVAL", 0.0)


@pytest.fixture
def long_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    """The interval ends after the test."""
    monkeypatch.setattr(sse, "WRITE_INTERVAL", 3600.0)


def test_a_named_event_repeats_its_type() -> None:
    assert named(EVENT) == (
        b'event: response.created\ndata: {"type":"response.created","text":"\xc3\xa9\\n"}\n\n',
    )


def test_an_unnamed_event_is_data_alone() -> None:
    assert unnamed(EVENT) == (b'data: {"type":"response.created","text":"\xc3\xa9\\n"}\n\n',)


async def test_a_stream_ends_with_done(client: Client) -> None:
    await client.get(Run(two))
    assert client.body == ONE + TWO + DONE
    assert [message.get("more_body", False) for message in client.sent[1:]] == [True, True, False]


async def test_a_stream_is_not_to_be_buffered_or_cached(client: Client) -> None:
    await client.get(Run(two))
    assert (client.sent[0]["type"], client.sent[0]["status"]) == (START, 200)
    headers = dict(client.sent[0]["headers"])
    assert headers[b"content-type"].startswith(b"text/event-stream")
    assert headers[b"cache-control"] == b"no-store"
    assert headers[b"x-accel-buffering"] == b"no"


async def test_a_stream_does_not_say_whether_its_connection_stays(client: Client) -> None:
    """The HTTP server does. Both would contradict each other where it closes the connection."""
    await client.get(Run(two))
    response = stream_batches(Batches()(stays=False), unnamed)
    await response(client.scope, client.receive, client.send)
    heads = [dict(message["headers"]) for message in client.sent if message["type"] == START]
    assert [b"connection" in head for head in heads] == [False, False]


async def test_the_headers_of_one_stream_are_not_those_of_another(client: Client) -> None:
    stream = RunStream(Feed(Run(two), unnamed, LARGE))
    stream.headers["x-request-id"] = "r"
    await stream(client.scope, client.receive, client.send)
    await client.get(Run(two))
    first, other = (message for message in client.sent if message["type"] == START)
    assert (b"x-request-id", b"r") in first["headers"]
    assert b"x-request-id" not in dict(other["headers"])


async def test_a_stream_of_a_run_that_failed_ends_with_done(client: Client) -> None:
    await client.get(Run(saying(1, then=InvalidRequest("No."))))
    assert client.body == ONE + DONE


async def test_what_has_piled_up_goes_out_in_one_write(client: Client) -> None:
    run = Run(two)
    await run.wait()
    await client.get(run)
    assert client.bodies == [ONE + TWO, DONE]


@pytest.mark.parametrize(("start", "body"), [(0, ONE + TWO), (1, TWO), (2, b""), (9, b"")])
@pytest.mark.parametrize("late", [False, True])
async def test_a_stream_may_start_at_any_event(
    client: Client, start: int, body: bytes, late: bool
) -> None:
    run = Run(two)
    if late:
        await run.wait()
    await client.get(run, start)
    assert client.body == body + DONE


@pytest.mark.usefixtures("no_interval")
async def test_an_event_is_with_the_client_before_the_run_goes_on(client: Client) -> None:
    had: list[bytes] = []

    async def produce(emit: Emit) -> None:
        for number in (1, 2):
            await emit([{"n": number}])
            had.append(client.body)

    await client.get(Run(produce))
    assert had == [ONE, ONE + TWO]


async def test_a_run_drops_what_is_written(client: Client) -> None:
    run = Run(two)
    await client.get(run)
    assert client.body == ONE + TWO + DONE
    assert run.events == []


async def test_each_of_a_runs_clients_gets_all_events(client: Client) -> None:
    other = Client()
    run = Run(two)
    await asyncio.gather(client.get(run), other.get(run))
    assert client.body == other.body == ONE + TWO + DONE


async def test_what_looks_at_bodies_gets_them_in_place_of_who_sends_heads(client: Client) -> None:
    looking = Client()
    state_of(client.scope).send_body = looking.send
    await client.get(Run(two))
    assert client.sent[0]["type"] == START
    assert looking.bodies == [ONE, TWO]


# Events soon after a write


async def test_events_soon_after_a_write_share_the_next_write(client: Client) -> None:
    run = Run(saying_for_ever(1, 2, 3))
    streaming = asyncio.create_task(client.get(run))
    await client.until(lambda: client.body == ONE + TWO + THREE)
    assert client.bodies == [ONE, TWO + THREE]
    await end(streaming)


@pytest.mark.usefixtures("long_interval")
async def test_the_end_of_a_run_ends_the_interval(client: Client) -> None:
    await client.get(Run(saying(1, 2, 3)))
    assert client.bodies == [ONE, TWO + THREE, DONE]


@pytest.mark.usefixtures("long_interval", "pings")
async def test_a_ping_ends_the_interval(client: Client) -> None:
    streaming = asyncio.create_task(client.get(Run(saying_for_ever(1, 2))))
    await client.until(lambda: b"".join(client.bodies).replace(PING, b"") == ONE + TWO)
    assert any(body.endswith(TWO + PING) for body in client.bodies)
    await end(streaming)


@pytest.mark.usefixtures("long_interval")
async def test_a_client_that_leaves_within_the_interval_gets_no_more(client: Client) -> None:
    run = Run(saying_for_ever(1, 2))
    streaming = asyncio.create_task(client.get(run))
    await client.got_body.wait()
    await settle()
    client.left.set()
    await streaming
    await run.wait()
    assert client.bodies == [ONE]


@pytest.mark.usefixtures("long_interval")
async def test_a_client_that_does_not_read_buffers_events_within_the_interval(
    full: Client,
) -> None:
    answer = Answer(stays=True)
    streaming = asyncio.create_task(full.get(answer.run, limit=SMALL, stored=answer.stored))
    await full.got_body.wait()
    for _ in range(3 * MANY):
        await asyncio.sleep(0)
    full.reads.set()
    await full.until(lambda: len(full.body) == len(written(*range(MANY))))
    assert answer.reads == [1]
    await end(streaming)


# Clients that do not read


async def test_who_takes_a_write_late_gets_the_rest_in_one(full: Client) -> None:
    run = Run(saying(1, 2, 3))
    streaming = asyncio.create_task(full.get(run))
    await run.wait()
    assert full.bodies == [ONE]
    full.reads.set()
    await streaming
    assert full.bodies == [ONE, TWO + THREE, DONE]


@pytest.mark.usefixtures("no_interval")
async def test_who_went_on_to_read_is_written_to_by_the_run_again(full: Client) -> None:
    numbers: asyncio.Queue[int] = asyncio.Queue()

    async def produce(emit: Emit) -> None:
        for _ in range(2):
            number = await numbers.get()
            await emit([{"n": number}])
            had.append(full.body)

    had: list[bytes] = []
    streaming = asyncio.create_task(full.get(Run(produce)))
    await settle()
    numbers.put_nowait(1)
    await full.got_body.wait()
    full.reads.set()
    await settle()
    numbers.put_nowait(2)
    await streaming
    assert had == [ONE, ONE + TWO]
    assert full.bodies == [ONE, TWO, DONE]


async def test_a_client_that_does_not_read_keeps_no_other_waiting(
    client: Client, full: Client
) -> None:
    run = Run(saying(1, 2))
    slow = asyncio.create_task(full.get(run))
    await client.get(run)
    assert client.body == ONE + TWO + DONE
    assert full.bodies == [ONE]
    await end(slow)


async def test_a_client_that_does_not_take_the_head_gets_the_rest_in_one(client: Client) -> None:
    taken = asyncio.Event()

    async def send(message: Message) -> None:
        await client.send(message)
        await taken.wait()

    run = Run(saying(1, 2))
    stream = RunStream(Feed(run, unnamed, LARGE))
    streaming = asyncio.create_task(stream(client.scope, client.receive, send))
    await run.wait()
    assert [message["type"] for message in client.sent] == [START]
    taken.set()
    await streaming
    assert client.bodies == [ONE + TWO, DONE]


# Clients that read too slowly


MANY = 100
SMALL = 10 * len(ONE)
"""A limit that ten events reach."""


class Answer:
    """A producer of many events that can be failed, and the same events in a store.

    failed: with what it was asked to end. reads: how often the stored events were read.
    """

    def __init__(self, *, stays: bool = False) -> None:
        self.run = Run(self)
        self.stays = stays
        self.reads: list[int] = []

    async def __call__(self, emit: Emit) -> None:
        try:
            for number in range(MANY):
                await asyncio.sleep(0)
                await emit([{"n": number}])
            if self.stays:
                await asyncio.Event().wait()
        except asyncio.CancelledError:
            if self.run.reason is not None:
                await emit([self.run.reason.body()])
                raise self.run.reason from None
            raise

    async def stored(self, start: int) -> AsyncGenerator[Sequence[WireEvent], None]:
        self.reads.append(start)
        for number in range(start, MANY):
            yield [{"n": number}]
        if self.stays:
            await asyncio.Event().wait()


def written(*numbers: int) -> bytes:
    return b"".join(b'data: {"n":%d}\n\n' % number for number in numbers)


async def test_an_answer_that_is_not_stored_ends_with_an_error(full: Client) -> None:
    answer = Answer()
    streaming = asyncio.create_task(full.get(answer.run, limit=SMALL))
    await answer.run.wait()
    full.reads.set()
    await streaming
    events = full.body.removesuffix(DONE).split(b"\n\n")[:-1]
    *others, last = (orjson.loads(event.removeprefix(b"data: ")) for event in events)
    assert others == [{"n": number} for number in range(len(others))]
    assert 10 <= len(others) < 15
    assert last["error"]["code"] == "client_too_slow"
    assert isinstance(answer.run.error, ClientTooSlow)


async def test_an_answer_that_is_stored_is_read_back(full: Client) -> None:
    answer = Answer()
    streaming = asyncio.create_task(full.get(answer.run, limit=SMALL, stored=answer.stored))
    await answer.run.wait()
    await settle()
    assert answer.run.events == []
    full.reads.set()
    await streaming
    assert full.body == written(*range(MANY)) + DONE
    assert answer.reads == [1]
    assert answer.run.error is None
    assert full.sent[-1].get("more_body", False) is False
    assert [message["type"] for message in full.sent].count(START) == 1


async def test_what_is_read_back_is_a_subscription_too(full: Client) -> None:
    answer = Answer(stays=True)
    streaming = asyncio.create_task(full.get(answer.run, limit=SMALL, stored=answer.stored))
    await full.got_body.wait()
    for _ in range(3 * MANY):
        await asyncio.sleep(0)
    full.reads.set()
    await full.until(lambda: len(full.body) == len(written(*range(MANY))))
    assert not answer.run.done
    full.left.set()
    await streaming
    await answer.run.wait()


async def test_who_leaves_what_waits_for_it_leaves_the_run(full: Client) -> None:
    answer = Answer(stays=True)
    streaming = asyncio.create_task(full.get(answer.run, limit=SMALL, stored=answer.stored))
    await full.got_body.wait()
    for _ in range(3 * MANY):
        await asyncio.sleep(0)
    full.left.set()
    await streaming
    await answer.run.wait()
    assert answer.reads == []


async def test_a_slow_client_takes_nothing_from_a_fast_one(client: Client, full: Client) -> None:
    answer = Answer()
    slow, fast = (
        asyncio.create_task(each.get(answer.run, limit=SMALL, stored=answer.stored))
        for each in (full, client)
    )
    await fast
    assert client.body == written(*range(MANY)) + DONE
    assert full.body == written(0)
    full.reads.set()
    await slow
    assert full.body == client.body
    assert answer.reads == [1]


async def test_what_waits_within_the_limit_is_written_in_parts(
    full: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("server.http.answers.backlog.BYTES_AT_ONCE", 50 * len(ONE))
    answer = Answer()
    streaming = asyncio.create_task(full.get(answer.run))
    await answer.run.wait()
    full.reads.set()
    await streaming
    assert full.body == written(*range(MANY)) + DONE
    assert max(map(len, full.bodies)) < 60 * len(ONE)
    assert len(full.bodies) == 5


@pytest.mark.parametrize("late", [False, True])
async def test_who_joins_late_gets_the_events_in_parts(
    client: Client, late: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("server.http.answers.backlog.EVENTS_AT_ONCE", 30)
    answer = Answer(stays=not late)
    for _ in range(3 * MANY):
        await asyncio.sleep(0)
    streaming = asyncio.create_task(client.get(answer.run))
    await client.until(lambda: len(client.bodies) >= 4)
    assert client.body.startswith(written(*range(MANY)))
    assert [body.count(b"data") for body in client.bodies[:4]] == [30, 30, 30, 10]
    client.left.set()
    await streaming


async def test_who_joins_a_run_that_has_dropped_its_events_reads_them_back(
    client: Client, full: Client
) -> None:
    answer = Answer()
    slow = asyncio.create_task(full.get(answer.run))
    await answer.run.wait()
    await settle()
    await client.get(answer.run, stored=answer.stored)
    assert client.body == written(*range(MANY)) + DONE
    assert answer.reads == [0]
    await end(slow)


# Clients that leave


@pytest.mark.parametrize("reads", [True, False])
async def test_a_client_that_leaves_cancels_the_run(client: Client, reads: bool) -> None:
    if not reads:
        client.reads.clear()
    run = Run(forever)
    streaming = asyncio.create_task(client.get(run))
    await client.got_body.wait()
    client.left.set()
    await streaming
    await run.wait()


async def test_who_left_is_written_nothing_more(full: Client) -> None:
    run = Run(saying_for_ever(1, 2))
    streaming = asyncio.create_task(full.get(run))
    await full.got_body.wait()
    full.left.set()
    await streaming
    await run.wait()
    await settle()
    assert full.bodies == [ONE]
    assert full.waiting == 0
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_a_client_that_left_before_the_first_byte_cancels_the_run(client: Client) -> None:
    run = Run(forever)
    client.left.set()
    await client.get(run)
    await run.wait()


async def test_a_client_that_leaves_does_not_end_a_background_run(client: Client) -> None:
    run = Run(forever, background=True)
    client.left.set()
    await client.get(run)
    assert not run.done
    run.cancel()
    await run.wait()


async def test_a_stream_that_is_torn_down_cancels_the_run(client: Client) -> None:
    run = Run(forever)
    streaming = asyncio.create_task(client.get(run))
    await client.got_body.wait()
    await end(streaming)
    await run.wait()


@pytest.mark.parametrize("settled", [True, False])
async def test_a_stream_that_is_torn_down_gives_up_what_it_writes(
    full: Client, settled: bool
) -> None:
    run = Run(forever)
    streaming = asyncio.create_task(full.get(run))
    await full.got_body.wait()
    if settled:
        await settle()
    assert full.waiting == 1
    await end(streaming)
    await run.wait()
    await settle()
    assert full.waiting == 0
    assert asyncio.all_tasks() == {asyncio.current_task()}


# What fails


@pytest.mark.parametrize(
    "breaks",
    [
        lambda message: message["type"] == START,
        lambda message: message.get("body") == ONE,
        lambda message: message.get("body") == TWO,
    ],
)
@pytest.mark.usefixtures("no_interval")
@pytest.mark.parametrize("reads", [True, False])
async def test_a_write_that_fails_ends_the_stream_and_the_run(
    client: Client, breaks: Callable[[Message], bool], reads: bool
) -> None:
    client.breaks = breaks
    if not reads:
        client.reads.clear()
    run = Run(saying_for_ever(1, 2))
    streaming = asyncio.create_task(client.get(run))
    await settle()
    client.reads.set()
    with pytest.raises(OSError, match="broken"):
        await streaming
    await run.wait()
    assert run.error is None
    assert breaks(client.sent[-1])


@pytest.mark.parametrize("last", [TWO, DONE])
async def test_the_last_write_may_fail_as_any_other(client: Client, last: bytes) -> None:
    client.breaks = lambda message: message.get("body") == last
    run = Run(saying(1, 2))
    with pytest.raises(OSError, match="broken"):
        await client.get(run)
    assert (run.done, run.error) == (True, None)
    assert client.bodies[-1] == last


async def test_a_write_that_fails_for_one_client_fails_for_no_other(client: Client) -> None:
    broken = Client()
    broken.breaks = lambda message: message.get("body") == ONE
    run = Run(two)
    failed, _ = await asyncio.gather(broken.get(run), client.get(run), return_exceptions=True)
    assert isinstance(failed, OSError)
    assert client.body == ONE + TWO + DONE


async def test_a_write_that_is_cancelled_ends_one_stream_and_not_the_run(client: Client) -> None:
    def cancelled(message: Message) -> bool:
        if message.get("body"):
            raise asyncio.CancelledError
        return False

    other = Client()
    run = Run(two)
    reading = asyncio.create_task(other.get(run))
    client.breaks = cancelled
    with pytest.raises(asyncio.CancelledError):
        await client.get(run)
    await reading
    assert other.body == ONE + TWO + DONE


@pytest.mark.parametrize("leaves", [False, True])
async def test_a_run_that_was_streamed_needs_no_garbage_collection(
    client: Client, leaves: bool
) -> None:
    gc.collect()
    gc.disable()
    try:
        run = Run(forever if leaves else two)
        alive = weakref.ref(run)
        streaming = asyncio.create_task(client.get(run))
        await client.got_body.wait()
        client.left.set()
        await streaming
        await run.wait()
        del run, streaming
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert alive() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("late", [False, True])
async def test_an_event_that_cannot_be_written_ends_the_stream_and_the_run(
    client: Client, late: bool
) -> None:
    def refuse(event: WireEvent) -> Sequence[bytes]:
        if event["n"] == 2:
            raise ValueError("no JSON")
        return unnamed(event)

    run = Run(saying_for_ever(1, 2, 3))
    if late:
        await settle()
    stream = RunStream(Feed(run, refuse, LARGE))
    with pytest.raises(ValueError, match="no JSON"):
        await stream(client.scope, client.receive, client.send)
    await run.wait()
    assert run.error is None
    assert client.bodies == ([] if late else [ONE])


# Pings


@pytest.fixture
def pings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse, "PING_SECONDS", 0.001)


@pytest.mark.usefixtures("pings")
async def test_an_idle_stream_pings(client: Client) -> None:
    streaming = asyncio.create_task(client.get(Run(forever)))
    await pinged(client)
    assert b"".join(client.bodies).replace(PING, b"") == ONE
    await end(streaming)


@pytest.mark.usefixtures("pings")
async def test_a_stream_that_has_ended_pings_no_more(client: Client) -> None:
    await client.get(Run(two))
    other = Client()
    streaming = asyncio.create_task(other.get(Run(forever)))
    await pinged(other)
    assert client.bodies[-1] == DONE
    await end(streaming)


@pytest.mark.usefixtures("pings")
async def test_a_client_that_does_not_read_gets_no_pings_until_it_does(
    client: Client, full: Client
) -> None:
    run = Run(forever)
    streaming = [asyncio.create_task(each.get(run)) for each in (full, client)]
    await pinged(client)
    assert len(full.bodies) == 1  # the event; a ping, where the machine was slow to sample it
    full.reads.set()
    await pinged(full)
    await end(*streaming)


async def test_no_ping_is_within_a_large_event(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sse, "PING_SECONDS", 0.0)
    values = EncodedArray()
    values.add(range(200_000))

    async def produce(emit: Emit) -> None:
        await emit([{"type": "large", "values": values}])
        await asyncio.Event().wait()

    stream = RunStream(Feed(Run(produce), named, LARGE))
    streaming = asyncio.create_task(stream(client.scope, client.receive, client.send))
    await pinged(client)
    event = b"event: large\ndata: %b\n\n" % orjson.dumps({"type": "large", "values": values})
    assert event in client.body
    assert len(client.bodies) > 10
    await end(streaming)


# What is stored


class Batches:
    """Batches of events; whether they were closed."""

    def __init__(self) -> None:
        self.closed = False

    async def __call__(self, *, stays: bool) -> AsyncGenerator[Sequence[WireEvent], None]:
        try:
            yield [{"n": 1}]
            yield [{"n": 2}, {"n": 3}]
            if stays:
                await asyncio.Event().wait()
        finally:
            for _ in range(3):  # as a database's client, which ends a query
                await asyncio.sleep(0)
            self.closed = True


async def test_stored_events_are_written_a_batch_at_a_time(client: Client) -> None:
    batches = Batches()
    response = stream_batches(batches(stays=False), unnamed)
    await response(client.scope, client.receive, client.send)
    assert client.bodies == [ONE, TWO + THREE, DONE]
    assert batches.closed


async def test_leaving_stored_events_closes_them(client: Client) -> None:
    batches = Batches()
    response = stream_batches(batches(stays=True), unnamed)
    streaming = asyncio.create_task(response(client.scope, client.receive, client.send))
    await client.until(lambda: len(client.bodies) == 2)
    client.left.set()
    await streaming
    assert batches.closed


async def test_a_stream_of_stored_events_is_pinged_while_it_waits(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sse, "PING_SECONDS", 0.001)
    batches = Batches()
    response = stream_batches(batches(stays=True), unnamed)
    streaming = asyncio.create_task(response(client.scope, client.receive, client.send))
    await pinged(client)
    client.left.set()
    await streaming
    assert client.body.replace(PING, b"") == ONE + TWO + THREE
    assert batches.closed


async def test_no_ping_is_within_a_large_stored_event(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sse, "PING_SECONDS", 1e-9)
    monkeypatch.setattr(EventSourceResponse, "DEFAULT_PING_INTERVAL", 1e-9)
    values = EncodedArray()
    values.add(range(200_000))

    async def batches() -> AsyncGenerator[Sequence[WireEvent], None]:
        yield [{"type": "large", "values": values}]

    async def send(message: Message) -> None:
        await settle()
        await client.send(message)

    await stream_batches(batches(), named)(client.scope, client.receive, send)
    event = b"event: large\ndata: %b\n\n" % orjson.dumps({"type": "large", "values": values})
    assert event in client.body
    assert len(client.bodies) > 10
