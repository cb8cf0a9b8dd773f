import asyncio
from typing import Any

import pytest
from starlette.types import Message

from server.runs import Emit, Run, WireEvent
from server.sse import named, stream, unnamed

EVENT = {"type": "response.created", "text": "é\n"}


async def two(emit: Emit) -> None:
    await emit([{"n": 1}])
    await asyncio.sleep(0)
    await emit([{"n": 2}])


async def forever(emit: Emit) -> None:
    await emit([{"n": 1}])
    await asyncio.Event().wait()


class Client:
    """What an ASGI server is to a response; `reads` False stands for a socket that is full."""

    def __init__(self, *, reads: bool = True) -> None:
        self.sent: list[Message] = []
        self.left = asyncio.Event()
        self.got_body = asyncio.Event()
        self._reads = reads

    async def receive(self) -> Message:
        await self.left.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        self.sent.append(message)
        if message.get("body"):
            self.got_body.set()
            if not self._reads:
                await asyncio.Event().wait()

    async def get(self, run: Run, **options: Any) -> None:
        response = stream(run, unnamed, **options)
        scope = {"type": "http", "method": "POST", "asgi": {"spec_version": "2.4"}}
        await response(scope, self.receive, self.send)

    @property
    def body(self) -> bytes:
        return b"".join(message.get("body", b"") for message in self.sent)


@pytest.fixture
async def client() -> Client:
    return Client()


def test_a_named_event_repeats_its_type() -> None:
    assert named(EVENT) == (
        b'event: response.created\ndata: {"type":"response.created","text":"\xc3\xa9\\n"}\n\n'
    )


def test_an_unnamed_event_is_data_alone() -> None:
    assert unnamed(EVENT) == b'data: {"type":"response.created","text":"\xc3\xa9\\n"}\n\n'


async def test_a_stream_ends_with_done(client: Client) -> None:
    await client.get(Run(two))
    assert client.body == b'data: {"n":1}\n\ndata: {"n":2}\n\ndata: [DONE]\n\n'


async def test_a_stream_is_not_to_be_buffered_or_kept(client: Client) -> None:
    await client.get(Run(two))
    headers = dict(client.sent[0]["headers"])
    assert headers[b"content-type"].startswith(b"text/event-stream")
    assert headers[b"cache-control"] == b"no-store"
    assert headers[b"x-accel-buffering"] == b"no"


async def test_what_has_piled_up_goes_out_in_one_write(client: Client) -> None:
    run = Run(two)
    await run.wait()
    await client.get(run)
    assert [message["body"] for message in client.sent[1:3]] == [
        b'data: {"n":1}\n\ndata: {"n":2}\n\n',
        b"data: [DONE]\n\n",
    ]


async def test_a_write_is_sent_without_more_ado(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("a cancel scope")

    monkeypatch.setattr("sse_starlette.sse.anyio.move_on_after", refuse)
    await client.get(Run(two))
    assert client.body.endswith(b"[DONE]\n\n")


@pytest.mark.parametrize("reads", [True, False])
async def test_a_client_that_leaves_cancels_the_run(reads: bool) -> None:
    client = Client(reads=reads)
    run = Run(forever)
    streaming = asyncio.create_task(client.get(run))
    await client.got_body.wait()
    client.left.set()
    await streaming
    await run.wait()


async def test_a_client_that_left_before_the_first_byte_cancels_the_run(client: Client) -> None:
    run = Run(forever)
    client.left.set()
    await client.get(run)
    await run.wait()


async def test_a_stream_that_is_torn_down_cancels_the_run(client: Client) -> None:
    run = Run(forever)
    streaming = asyncio.create_task(client.get(run))
    await client.got_body.wait()
    streaming.cancel()
    await asyncio.wait([streaming])
    await run.wait()


async def test_an_event_that_cannot_be_written_ends_the_stream_and_the_run(
    client: Client,
) -> None:
    def refuse(_: WireEvent) -> bytes:
        raise ValueError("no JSON")

    run = Run(forever)
    scope = {"type": "http", "method": "POST", "asgi": {"spec_version": "2.4"}}
    with pytest.raises(ValueError, match="no JSON"):
        await stream(run, refuse)(scope, client.receive, client.send)
    await run.wait()
