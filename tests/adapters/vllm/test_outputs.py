"""vLLM's outputs on their way to a generator; runs where vLLM is installed (`make test-vllm`)."""

import asyncio
import os
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("vllm", reason="vLLM is not installed")

import zmq
import zmq.asyncio
from vllm.v1.engine import EngineCoreOutput, EngineCoreOutputs, FinishReason
from vllm.v1.engine.core import EngineCoreProc
from vllm.v1.engine.core_client import AsyncMPClient, BackgroundResources
from vllm.v1.engine.exceptions import EngineDeadError
from vllm.v1.metrics.stats import IterationStats, RequestStateStats, SchedulerStats
from vllm.v1.serial_utils import MsgpackDecoder, MsgpackEncoder

from adapters.errors import BackendFailed, EngineFault
from adapters.vllm.outputs import (
    DirectDelivery,
    OutputInbox,
    OutputSocket,
    TokenOutputs,
    deliver_directly,
)
from tests.waiting import settle


def output(*ids: int, request: str = "r", reason: FinishReason | None = None) -> EngineCoreOutput:
    return EngineCoreOutput(request, list(ids), finish_reason=reason)


@pytest.fixture
def outputs() -> TokenOutputs:
    return TokenOutputs(None, log_stats=False)


def add(outputs: TokenOutputs, request: str) -> OutputInbox:
    inbox = OutputInbox()
    state: Any = SimpleNamespace(
        request_id=request,
        external_req_id=request,
        queue=inbox,
        is_prefilling=True,
        parent_req=None,
        stats=RequestStateStats(),
        lora_name=None,
    )
    outputs.request_states[request] = state
    outputs.external_req_ids[request].append(request)
    return inbox


async def test_each_request_gets_its_own_outputs(outputs: TokenOutputs) -> None:
    inboxes = {name: add(outputs, name) for name in ("a", "b")}
    outputs.process_outputs([output(1, request="a"), output(2, request="b")])
    outputs.process_outputs([output(3, request="a")])
    taken = {name: await inbox.take() for name, inbox in inboxes.items()}
    assert [one.new_token_ids for one in taken["a"]] == [[1], [3]]
    assert [one.new_token_ids for one in taken["b"]] == [[2]]


async def test_a_request_that_has_ended_is_forgotten(outputs: TokenOutputs) -> None:
    add(outputs, "r")
    outputs.process_outputs([output(1, reason=FinishReason.STOP)])
    assert not outputs.has_unfinished_requests()


async def test_outputs_of_a_request_that_is_gone_are_passed_over(outputs: TokenOutputs) -> None:
    inbox = add(outputs, "r")
    outputs.process_outputs([output(1, request="gone"), output(2)])
    (one,) = await inbox.take()
    assert one.new_token_ids == [2]


@pytest.mark.parametrize(
    ("put", "raised"),
    [
        (EngineDeadError(), EngineDeadError),
        (BackendFailed("stopped"), BackendFailed),
        (ValueError("odd"), EngineFault),
        ("aborted", EngineFault),
    ],
)
async def test_what_ends_a_request_early_is_raised(put: object, raised: type[Exception]) -> None:
    inbox = OutputInbox()
    inbox.put(output(1))
    inbox.put(put)
    assert len(await inbox.take()) == 1
    with pytest.raises(raised):
        await inbox.take()


# DirectDelivery


class Loggers:
    """Remembers what it is to log."""

    def __init__(self) -> None:
        self.recorded: list[tuple[SchedulerStats | None, IterationStats, int]] = []

    def record(
        self, scheduler: SchedulerStats | None, counts: IterationStats, engine_idx: int
    ) -> None:
        self.recorded.append((scheduler, counts, engine_idx))


def delivery(outputs: TokenOutputs, loggers: Loggers | None = None) -> tuple[DirectDelivery, Any]:
    """What takes outputs, and the engine's resources."""
    resources = SimpleNamespace(engine_dead=False)
    engine: Any = SimpleNamespace(
        output_processor=outputs,
        logger_manager=loggers,
        engine_core=SimpleNamespace(resources=resources),
    )
    return DirectDelivery(engine), resources


async def test_outputs_reach_their_request_at_once(outputs: TokenOutputs) -> None:
    inbox = add(outputs, "r")
    delivered, _ = delivery(outputs)
    delivered.put_nowait(EngineCoreOutputs(outputs=[output(1), output(2)]))
    taking = inbox.take()
    with pytest.raises(StopIteration) as taken:
        taking.send(None)
    assert [one.new_token_ids for one in taken.value.value] == [[1], [2]]


async def test_what_ends_the_engine_fails_all_who_wait(outputs: TokenOutputs) -> None:
    waiting = [asyncio.ensure_future(add(outputs, name).take()) for name in ("a", "b")]
    await asyncio.sleep(0)
    delivered, resources = delivery(outputs)
    delivered.put_nowait(ValueError("odd"))
    for each in waiting:
        with pytest.raises(EngineDeadError):
            await each
    assert resources.engine_dead


async def test_statistics_are_recorded_where_they_are_logged(outputs: TokenOutputs) -> None:
    add(outputs, "r")
    loggers = Loggers()
    delivered, _ = delivery(outputs, loggers)
    scheduler = SchedulerStats()
    delivered.put_nowait(EngineCoreOutputs(2, [output(1, 2)], scheduler))
    ((stats, counts, engine),) = loggers.recorded
    assert (stats, counts.num_generation_tokens, engine) == (scheduler, 2, 2)


async def test_statistics_without_outputs_are_recorded_too(outputs: TokenOutputs) -> None:
    loggers = Loggers()
    delivered, _ = delivery(outputs, loggers)
    scheduler = SchedulerStats()
    delivered.put_nowait(EngineCoreOutputs(0, [], scheduler))
    assert loggers.recorded == [(scheduler, None, 0)]


# The socket


class Pair:
    """A socket as vLLM reads from, and the engine's end of it."""

    def __init__(self) -> None:
        context = zmq.asyncio.Context()
        self.context = context
        self.pull = context.socket(zmq.PULL)
        self.pull.bind("inproc://outputs")
        self.push = zmq.Context(context).socket(zmq.PUSH)
        self.push.connect("inproc://outputs")

    def close(self) -> None:
        self.pull.close(linger=0)
        self.push.close(linger=0)
        self.context.term()


@pytest.fixture
async def pair() -> AsyncIterator[Pair]:
    pair = Pair()
    yield pair
    pair.close()


@pytest.fixture
async def reader(pair: Pair) -> AsyncIterator[OutputSocket]:
    reader = OutputSocket(pair.pull)
    yield reader
    reader.close()


async def read(reader: OutputSocket, count: int = 1) -> list[list[bytes]]:
    return [await reader.recv_multipart() for _ in range(count)]


async def test_messages_that_are_there_are_read_in_order(pair: Pair, reader: OutputSocket) -> None:
    for number in range(100):
        pair.push.send(b"%d" % number)
    assert await read(reader, 100) == [[b"%d" % number] for number in range(100)]


async def test_who_reads_waits_for_each_message(pair: Pair, reader: OutputSocket) -> None:
    for number in range(3):
        reading = asyncio.ensure_future(read(reader))
        await settle()
        assert not reading.done()
        pair.push.send(b"%d" % number)
        assert await reading == [[b"%d" % number]]


async def test_messages_that_come_while_they_are_read_are_in_order(
    pair: Pair, reader: OutputSocket
) -> None:
    def send() -> None:
        for number in range(1000):
            pair.push.send(b"%d" % number)

    reading = asyncio.ensure_future(read(reader, 1000))
    await asyncio.to_thread(send)
    assert await reading == [[b"%d" % number] for number in range(1000)]


@pytest.mark.parametrize("copy", [True, False])
async def test_a_message_may_have_several_frames(
    pair: Pair, reader: OutputSocket, copy: bool
) -> None:
    pair.push.send_multipart([b"one", b"two"])
    frames = await reader.recv_multipart(copy=copy)
    assert [bytes(frame if copy else frame.buffer) for frame in frames] == [b"one", b"two"]


async def test_who_is_cancelled_while_it_reads_loses_nothing(
    pair: Pair, reader: OutputSocket
) -> None:
    reading = asyncio.ensure_future(read(reader))
    await settle()
    pair.push.send(b"one")
    reading.cancel()
    await asyncio.wait([reading])
    assert await read(reader) == [[b"one"]]


@pytest.mark.parametrize("before", [True, False])
async def test_a_socket_that_is_closed_before_or_after_its_reader(pair: Pair, before: bool) -> None:
    reader = OutputSocket(pair.pull)
    reading = asyncio.ensure_future(read(reader))
    await settle()
    if before:
        pair.pull.close(linger=0)
    reading.cancel()
    await asyncio.wait([reading])
    assert reading.cancelled()
    reader.close()
    assert pair.pull.closed is before


# The engine's client


class Core:
    """vLLM's client of an engine, so far as it reads outputs."""

    _ensure_output_queue_task = AsyncMPClient._ensure_output_queue_task

    def __init__(self, pair: Pair) -> None:
        self.resources = BackgroundResources(ctx=pair.context, output_socket=pair.pull)
        self.decoder = MsgpackDecoder(EngineCoreOutputs)
        self.utility_results: dict[int, Any] = {}
        self.outputs_queue: Any = asyncio.Queue()


class Descriptors:
    """The descriptors that were made for reading, and which of them are given back."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.made: list[int] = []
        self.read: list[int] = []
        self._dup = os.dup
        monkeypatch.setattr(os, "dup", self.dup)
        loop = asyncio.get_running_loop()
        self._remove_reader = loop.remove_reader
        monkeypatch.setattr(loop, "remove_reader", self.remove_reader)

    def dup(self, descriptor: int) -> int:
        self.made.append(self._dup(descriptor))
        return self.made[-1]

    def remove_reader(self, descriptor: Any) -> bool:
        self.read.append(descriptor)
        return self._remove_reader(descriptor)

    def assert_given_back(self) -> None:
        (descriptor,) = self.made
        assert descriptor in self.read
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(descriptor)


@pytest.fixture
async def descriptors(monkeypatch: pytest.MonkeyPatch) -> Descriptors:
    return Descriptors(monkeypatch)


@pytest.fixture
async def engine(pair: Pair, outputs: TokenOutputs, descriptors: Descriptors) -> AsyncIterator[Any]:
    """An engine whose outputs are taken over."""
    engine: Any = SimpleNamespace(
        output_processor=outputs, logger_manager=None, engine_core=Core(pair)
    )
    deliver_directly(engine)
    yield engine
    engine.engine_core.resources()
    await asyncio.wait([engine.engine_core.resources.output_queue_task])


def send(pair: Pair, *outputs: EngineCoreOutput) -> None:
    pair.push.send_multipart(MsgpackEncoder().encode(EngineCoreOutputs(outputs=list(outputs))))


async def test_what_the_engine_samples_reaches_the_requests(pair: Pair, engine: Any) -> None:
    inbox = add(engine.output_processor, "r")
    for number in range(3):
        send(pair, output(number))
        (one,) = await inbox.take()
        assert one.new_token_ids == [number]


async def test_who_takes_gets_all_that_is_read_by_then(pair: Pair, engine: Any) -> None:
    inbox = add(engine.output_processor, "r")
    await settle()
    for number in range(3):
        send(pair, output(number))
    assert [one.new_token_ids for one in await inbox.take()] == [[0], [1], [2]]


@pytest.mark.parametrize("message", [EngineCoreProc.ENGINE_CORE_DEAD, b"odd"])
async def test_an_engine_that_is_dead_or_odd_fails_who_waits(
    pair: Pair, engine: Any, descriptors: Descriptors, message: bytes
) -> None:
    waiting = asyncio.ensure_future(add(engine.output_processor, "r").take())
    pair.push.send(message)
    with pytest.raises(EngineDeadError):
        await waiting
    assert engine.engine_core.resources.engine_dead
    await settle()
    descriptors.assert_given_back()


async def test_the_clients_end_fails_who_waits(
    pair: Pair, engine: Any, descriptors: Descriptors
) -> None:
    waiting = asyncio.ensure_future(add(engine.output_processor, "r").take())
    await settle()
    engine.engine_core.resources()
    assert pair.pull.closed
    with pytest.raises(EngineDeadError):
        await waiting
    await settle()
    descriptors.assert_given_back()


async def test_an_engine_that_was_never_asked_can_be_shut_down(
    engine: Any, descriptors: Descriptors
) -> None:
    engine.engine_core.resources()
    await asyncio.wait([engine.engine_core.resources.output_queue_task])
    await settle()
    descriptors.assert_given_back()
