"""The way of sampled ids from vLLM's engine process to the generators that wait for them.

vLLM's own processor detokenizes and, for each step of each request, makes anew what its APIs tell
of the whole request; here ids are handed on as they come, in the step that reads them from the
engine's socket. vLLM has a queue and a task of its own between the two.
"""

import asyncio
import logging
import os
from typing import Any

import zmq
from vllm.v1.engine import EngineCoreOutput, EngineCoreOutputs
from vllm.v1.engine.async_llm import AsyncLLM
from vllm.v1.engine.exceptions import EngineDeadError
from vllm.v1.engine.output_processor import OutputProcessor, OutputProcessorOutput
from vllm.v1.metrics.stats import IterationStats

from adapters.errors import BackendError, EngineFault
from adapters.inbox import Inbox

logger = logging.getLogger(__name__)

# An int: `&` with the enumeration takes twenty times as long.
_READABLE = int(zmq.POLLIN)

OutputInbox = Inbox[Any]
"""One request's outputs, and what ends it: an error, or vLLM's word that it was aborted."""


def sampled(items: list[Any]) -> list[EngineCoreOutput]:
    """What was taken from an `OutputInbox`. Raises what was put as an error."""
    for item in items:
        if not isinstance(item, EngineCoreOutput):
            if isinstance(item, BackendError | EngineDeadError):
                raise item
            raise EngineFault(f"vLLM ended the request: {item}")
    return items


class TokenOutputs(OutputProcessor):  # type: ignore[misc]  # vLLM is installed elsewhere
    """Takes the place of AsyncLLM's output processor; the requests' queues are `OutputInbox`es."""

    @classmethod
    def instead_of(cls, other: OutputProcessor) -> "TokenOutputs":
        """For the same engine. No request is known to either yet."""
        return cls(
            None,
            log_stats=other.log_stats,
            tracing_enabled=other.tracing_enabled,
            admission_stats=other.admission_stats,
        )

    def process_outputs(
        self,
        engine_core_outputs: list[EngineCoreOutput],
        engine_core_timestamp: float | None = None,
        iteration_stats: IterationStats | None = None,
        weight_version: str | None = None,
    ) -> OutputProcessorOutput:
        """Hand each output to its request; keep the statistics where vLLM logs them."""
        for output in engine_core_outputs:
            state = self.request_states.get(output.request_id)
            if state is None:  # it was aborted
                continue
            if iteration_stats is not None:
                self._update_stats_from_output(
                    state, output, engine_core_timestamp, iteration_stats
                )
            state.is_prefilling = False
            if output.prefill_stats is not None:
                state.num_cached_tokens = output.prefill_stats.num_cached_tokens
            state.queue.put(output)
            if output.finish_reason is not None:
                self._finish_request(state)
                self._update_stats_from_finished(state, output.finish_reason, iteration_stats)
                if self.tracing_enabled:
                    self.do_tracing(output, state, iteration_stats)
        return OutputProcessorOutput(request_outputs=[], reqs_to_abort=[])


class Delivery:
    """Takes the place of the queue that AsyncLLM's output handler reads: nothing waits in it."""

    def __init__(self, engine: AsyncLLM) -> None:
        self._processor = engine.output_processor
        self._loggers = engine.logger_manager
        self._resources = engine.engine_core.resources

    def put_nowait(self, outputs: EngineCoreOutputs | Exception) -> None:
        """Hand on what the engine said; where nothing more can be read from it, who waits fails."""
        if isinstance(outputs, Exception):
            if not isinstance(outputs, EngineDeadError):
                logger.error("what vLLM's engine said cannot be read", exc_info=outputs)
            self._resources.engine_dead = True
            self._processor.propagate_error(EngineDeadError())
            return
        counts = IterationStats() if self._loggers is not None and outputs.outputs else None
        self._processor.process_outputs(outputs.outputs, outputs.timestamp, counts)
        if self._loggers is not None:
            self._processor.update_scheduler_stats(outputs.scheduler_stats)
            self._loggers.record(outputs.scheduler_stats, counts, engine_idx=outputs.engine_index)


class OutputSocket:
    """Reads the engine's messages from `socket`, with none of what pyzmq's asyncio does for each.

    To be closed; the socket, which may be closed before, is left alone.
    """

    def __init__(self, socket: zmq.Socket) -> None:
        self._socket = zmq.Socket.shadow(socket)
        # A descriptor of our own, since the engine's end closes the socket before it ends the task.
        self._descriptor = os.dup(socket.getsockopt(zmq.FD))
        self._loop = asyncio.get_running_loop()
        self._reader: asyncio.Future[None] | None = None
        self._woken = False
        self._loop.add_reader(self._descriptor, self._wake)

    async def recv_multipart(self, copy: bool = True) -> list[Any]:
        """The frames of the next message."""
        while True:
            # Asked, not tried, unless it has just been woken: what is tried in vain, as it would
            # be after each message, costs an exception.
            if self._woken or self._socket.getsockopt(zmq.EVENTS) & _READABLE:
                self._woken = False
                try:
                    frames: list[Any] = self._socket.recv_multipart(zmq.NOBLOCK, copy=copy)
                    return frames
                except zmq.Again:
                    continue
            else:
                self._reader = self._loop.create_future()
                await self._reader

    def close(self) -> None:
        """Read no more. What came and was not read would else wake the event loop for ever."""
        self._loop.remove_reader(self._descriptor)
        os.close(self._descriptor)

    def _wake(self) -> None:
        self._woken = True
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)


def take_over(engine: AsyncLLM) -> None:
    """Have what the engine samples handed on by a `TokenOutputs`.

    To be called on the event loop before anything else is asked of the engine.
    """
    engine.output_processor = TokenOutputs.instead_of(engine.output_processor)
    core = engine.engine_core
    core.outputs_queue = Delivery(engine)
    resources = core.resources
    socket, reader = resources.output_socket, OutputSocket(resources.output_socket)
    resources.output_socket = reader
    try:
        core._ensure_output_queue_task()
    finally:
        resources.output_socket = socket
    resources.output_queue_task.add_done_callback(lambda _: reader.close())
