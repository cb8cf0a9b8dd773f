"""Passes sampled ids from vLLM's engine process to the generators of the requests.

vLLM's own output processor detokenizes, and builds an object about the whole request in each step
of each request. This one passes on the ids when they are read from the engine's socket. vLLM has
another queue and another task in between.
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

# An int, since `&` with the enumeration takes twenty times as long.
_READABLE = int(zmq.POLLIN)


class OutputInbox(Inbox[EngineCoreOutput]):
    """The outputs of one request."""

    def put(self, item: Any) -> None:
        """Append an output. vLLM also puts an error that ends the request, or a word for one."""
        if isinstance(item, EngineCoreOutput):
            super().put(item)
        elif isinstance(item, BackendError | EngineDeadError):
            self.fail(item)
        else:
            self.fail(EngineFault(f"vLLM ended the request: {item}"))


class TokenOutputs(OutputProcessor):  # type: ignore[misc]  # vLLM is installed elsewhere
    """Replaces the output processor of AsyncLLM. The queues of requests are `OutputInbox`es."""

    @classmethod
    def replacing(cls, other: OutputProcessor) -> "TokenOutputs":
        """A processor for the engine of `other`, which must have no requests yet."""
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
        """Pass each output to its request, and update the statistics if vLLM logs them."""
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


class DirectDelivery:
    """Replaces the queue of AsyncLLM's output handler; processes outputs at once."""

    def __init__(self, engine: AsyncLLM) -> None:
        self._processor = engine.output_processor
        self._loggers = engine.logger_manager
        self._resources = engine.engine_core.resources

    def put_nowait(self, outputs: EngineCoreOutputs | Exception) -> None:
        """Process a message of the engine. An exception ends all requests with EngineDeadError."""
        if isinstance(outputs, Exception):
            if not isinstance(outputs, EngineDeadError):
                logger.error("a message of vLLM's engine cannot be read", exc_info=outputs)
            self._resources.engine_dead = True
            self._processor.propagate_error(EngineDeadError())
            return
        statistics = IterationStats() if self._loggers is not None and outputs.outputs else None
        self._processor.process_outputs(outputs.outputs, outputs.timestamp, statistics)
        if self._loggers is not None:
            self._processor.update_scheduler_stats(outputs.scheduler_stats)
            self._loggers.record(
                outputs.scheduler_stats, statistics, engine_idx=outputs.engine_index
            )


class OutputSocket:
    """Reads the messages of the engine from `socket`, with less work for each than pyzmq.asyncio.

    `close` does not close the socket, which may already be closed.
    """

    def __init__(self, socket: zmq.Socket) -> None:
        self._socket = zmq.Socket.shadow(socket)
        # A duplicate, since AsyncLLM closes the socket before it ends the task that reads.
        self._descriptor = os.dup(socket.getsockopt(zmq.FD))
        self._loop = asyncio.get_running_loop()
        self._reader: asyncio.Future[None] | None = None
        self._readable = False
        self._loop.add_reader(self._descriptor, self._wake)

    async def recv_multipart(self, copy: bool = True) -> list[Any]:
        """The frames of the next message."""
        while True:
            # Check for a message first, unless the reader was just woken: reading without a
            # message, as after each one, would cost an exception.
            if self._readable or self._socket.getsockopt(zmq.EVENTS) & _READABLE:
                self._readable = False
                try:
                    frames: list[Any] = self._socket.recv_multipart(zmq.NOBLOCK, copy=copy)
                    return frames
                except zmq.Again:
                    continue
            else:
                self._reader = self._loop.create_future()
                await self._reader

    def close(self) -> None:
        """Stop reading. An unread message would otherwise wake the event loop for ever."""
        self._loop.remove_reader(self._descriptor)
        os.close(self._descriptor)

    def _wake(self) -> None:
        self._readable = True
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)


def deliver_directly(engine: AsyncLLM) -> None:
    """Make `engine` pass its outputs to a `TokenOutputs`.

    Call it on the event loop, before any request.
    """
    engine.output_processor = TokenOutputs.replacing(engine.output_processor)
    core = engine.engine_core
    core.outputs_queue = DirectDelivery(engine)
    resources = core.resources
    socket, reader = resources.output_socket, OutputSocket(resources.output_socket)
    resources.output_socket = reader
    try:
        core._ensure_output_queue_task()
    finally:
        resources.output_socket = socket
    resources.output_queue_task.add_done_callback(lambda _: reader.close())
