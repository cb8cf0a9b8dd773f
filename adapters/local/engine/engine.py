"""The thread that runs transformers' continuous batching, its requests and its results."""

import asyncio
import contextlib
import gc
import itertools
import logging
import threading
import time
from typing import Any

import torch
from transformers.generation.configuration_utils import GenerationConfig
from transformers.generation.continuous_batching.continuous_api import (
    ContinuousBatchingManager,
    OutputRouter,
)

from adapters.base import GenerationRequest
from adapters.errors import BackendFailed, EngineDied, EngineFault, one_line
from adapters.grammars import TokenMask
from adapters.local.device import current
from adapters.local.engine import scheduler
from adapters.local.engine.batching import batching
from adapters.local.engine.cache import (
    ReadIndices,
    compute_on_one_stream,
    keep_tokens_on_host,
    longest_request,
    sharing_allocators,
)
from adapters.local.engine.chunks import ChunkSize, measure_steps
from adapters.local.engine.decode_graphs import DecodeGraphs, capture_on, wanted
from adapters.local.engine.forced import append_after_update
from adapters.local.engine.plans import PlannedSteps, are_compiled
from adapters.local.engine.prefix_cache import evict_as_needed, share_prefixes
from adapters.local.engine.recovery import end_batch, fail_in_step
from adapters.local.engine.step_threads import StepThreads
from adapters.local.engine.warmup import explain, run_step, warm_up
from adapters.local.importing.imports import without_compiler
from adapters.local.memory import release_pages
from adapters.local.model.attention import planned_shape
from adapters.local.model.output_layer import keep_needed_logits
from adapters.local.options import Options
from adapters.local.steps.row import Row, Sampled
from adapters.local.steps.step import Step, StepResults

logger = logging.getLogger(__name__)

_STOP_SECONDS = 60.0


class Engine:
    """Runs requests until it is stopped.

    Create and stop it outside the event loop, and call the other methods on the event loop.
    """

    def __init__(self, model: Any, options: Options, loop: asyncio.AbstractEventLoop) -> None:
        """Allocate the cache and run the first steps.

        Raises torch's errors if the memory does not suffice, and BackendFailed if a step fails.
        """
        self._loop = loop
        self._keys = itertools.count()
        self._rows: dict[str, Row] = {}
        self._ended = False
        self._reason = "the engine was stopped"
        self._reported = False
        self._test_rows: list[Row] = []
        on_cpu = model.device.type == "cpu"
        self._step_threads = StepThreads().step if on_cpu else contextlib.nullcontext
        self._step = Step(self._batch, self._report)
        with current(model.device), without_compiler(model.device.type):
            self._manager = self._make_manager(model, options)
            self._warm_up()
        self.context_length = min(
            model.config.max_position_embeddings,
            longest_request(self._manager.batch_processor.cache),
        )
        io: Any = self._manager.batch_processor.inputs_and_outputs
        self.max_requests: int = io.max_requests_per_batch
        self._thread = threading.Thread(target=self._run, name="engine", daemon=True)
        # `join` and `is_running` of the manager use it.
        self._manager._generation_thread = self._thread
        self._thread.start()

    def _make_manager(self, model: Any, options: Options) -> Any:
        generation = GenerationConfig(do_sample=False, eos_token_id=-1)
        manager: Any
        config = batching(model, options)
        config.scheduler_type = scheduler.NAME
        with sharing_allocators():
            manager = ContinuousBatchingManager(model, generation, config)
            manager.output_router = _FailureRouter(self)
            processor: Any = manager._create_batch_processor()
        # transformers writes zeros to the whole cache, most of which a server may never use.
        release_pages(processor.cache.cache_tensor)
        processor.model_runner._sample = self._step
        compute_on_one_stream(processor)
        keep_tokens_on_host(processor.inputs_and_outputs)
        reads = ReadIndices(processor.cache, processor.inputs_and_outputs)
        if wanted(options.decode_graphs, model):
            DecodeGraphs(processor, model, self._step, capture_on(model.device))
        elif shape := planned_shape(model):
            ios = processor.inputs_and_outputs
            PlannedSteps(ios, reads, shape, pads=are_compiled(model))
        share_prefixes(processor.cache, self._cache_salt, self._set_cached_tokens)
        evict_as_needed(processor.cache)
        append_after_update(processor, self._step.take_runs)
        if model.device.type == "cpu":
            keep_needed_logits(processor.inputs_and_outputs)
            processor.scheduler.chunk_size = chunk_size = ChunkSize()
            measure_steps(processor, chunk_size, time.perf_counter)
        processor.scheduler.priority = self._priority
        fail_in_step(processor)
        manager.batch_processor = processor
        manager._generation_step = self._run_step
        manager._fail_all_remaining_requests = lambda *_: None  # `_run` ends them
        return manager

    def _warm_up(self) -> None:
        model = self._manager.model
        try:
            warm_up(self._manager.batch_processor, model, self._set_test_rows)
        except Exception as error:  # the libraries of kernels raise any type
            hint = explain(error, model.device)
            raise BackendFailed(f"the first step failed{hint}: {one_line(error)}") from error
        finally:
            self._set_test_rows([])

    def submit(self, request: GenerationRequest, mask: TokenMask | None) -> Row:
        """Queue a request. Raises EngineDied if the thread has ended."""
        self.check()
        row = Row(str(next(self._keys)), request, mask)
        self._rows[row.key] = row
        self._manager.add_request(
            list(request.prompt_token_ids),
            row.key,
            request.max_tokens,
            eos_token_id=list(request.stop_token_ids),
        )
        if self._ended:  # the thread may have ended before the row was added
            self._rows.pop(row.key, None)
            self.check()
        return row

    def release(self, row: Row) -> None:
        """Remove a row. If it is running, its slot is free before the next step."""
        self._rows.pop(row.key, None)
        if not row.ended:
            self._manager.cancel_request(row.key)

    @property
    def is_idle(self) -> bool:
        """Whether no request is waiting or running."""
        return not self._rows

    def free_buffers(self) -> None:
        """Free memory that steps reuse. The next step allocates it anew."""
        self._step.free_buffers()

    def check(self) -> None:
        """Raises EngineDied, with the reason, if the thread has ended."""
        if self._ended:
            raise EngineDied(self._reason)

    def stop(self) -> None:
        """End the thread. Running requests fail. Blocks for one step at most. May be repeated."""
        if not self._ended:
            self._manager.stop(block=True, timeout=_STOP_SECONDS, hard_stop=True)
        self._step.close()

    # On the engine's thread

    def _run(self) -> None:
        try:
            self._manager._run_generation_loop()
        finally:
            fatal = self._manager.background_thread_status.fatal_error
            if fatal is not None:
                self._reason = f"the engine died: {one_line(fatal)}"
            self._ended = True
            error = Sampled(error=EngineDied(self._reason))
            # A row that ended has its last result, which may not have been taken yet.
            self._deliver([(row, error) for row in list(self._rows.values()) if not row.ended])

    def _run_step(self) -> None:
        """Compute a batch. A failure ends its requests, and is raised if no step can succeed."""
        processor = self._manager.batch_processor
        self._reported = False
        self._begin(processor.inputs_and_outputs.requests_in_batch)
        try:
            with self._step_threads():
                processor._generation_step(self._manager.model)
            return
        except Exception as error:
            logger.exception("a step failed")
            failure = error.with_traceback(None)  # its frames reference the tensors of the step
        gc.collect()
        if self._manager.model.device.type == "cuda":
            torch.cuda.empty_cache()
        ended = end_batch(processor, all_rows=self._reported)
        self._probe(failure)
        logger.error("%d requests ended with the failed step", len(ended))
        for key in ended:
            self.fail(key, _error_of_step(failure))

    def _begin(self, batch: list[Any]) -> None:
        """Note that the requests of the batch have begun. Cancel those that nobody waits for.

        The manager empties its queue of requests, then that of cancellations. A cancellation of a
        request that comes between the two precedes its request, and has no effect.
        """
        for one in batch:
            row = self._rows.get(one.state.request_id)
            if row is None:
                self._manager.cancel_request(one.state.request_id)
            else:
                row.has_begun = True

    def _probe(self, failure: Exception) -> None:
        """Run a step of one token. Raises `failure` if it fails too: no request can succeed."""
        processor, model = self._manager.batch_processor, self._manager.model
        try:
            run_step(processor, model, self._set_test_rows, rows=1, tokens=1)
        except Exception as error:
            logger.exception("the engine cannot continue")
            raise failure from error
        finally:
            self._set_test_rows([])

    def _set_test_rows(self, rows: list[Row]) -> None:
        """Use `rows`, which belong to no request, in the next step instead of earlier such rows."""
        for row in self._test_rows:
            self._rows.pop(row.key, None)
        self._rows.update({row.key: row for row in rows})
        self._test_rows = rows

    def _batch(self) -> list[Row | None]:
        states = self._manager.batch_processor.inputs_and_outputs.requests_in_batch
        return [self._rows.get(one.state.request_id) for one in states if one.has_new_token]

    def _set_cached_tokens(self, key: str, tokens: int) -> None:
        row = self._rows.get(key)
        # A request that lost its pages finds its own tokens in the cache when it comes back.
        if row is not None and not row.has_begun:
            row.cached_tokens = tokens

    def _cache_salt(self, key: str) -> str | None:
        row = self._rows.get(key)
        # Nobody waits for the request any more, and nobody has its key as a salt.
        return key if row is None else row.request.cache_salt

    def _priority(self, key: str) -> int:
        row = self._rows.get(key)
        return 0 if row is None else row.request.priority

    def _report(self, results: StepResults) -> None:
        self._reported = True
        for row, item in results:
            if row.ended and item.token_id is None:  # the manager would continue it
                self._manager.cancel_request(row.key)
        self._deliver(results)

    def fail(self, key: str, error: BackendFailed) -> None:
        """End the row `key` with `error`, if it is running. Called on the engine's thread."""
        row = self._rows.get(key)
        if row is not None and not row.ended:
            row.ended = True
            self._deliver([(row, Sampled(error=error))])

    def _deliver(self, results: StepResults) -> None:
        # A closed loop has no task that waits.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(_put, results)


def _put(results: StepResults) -> None:
    for row, item in results:
        if item.error is None:
            row.inbox.put(item)
        else:
            row.inbox.fail(item.error)


class _FailureRouter(OutputRouter):
    """Receives outputs of the manager. Only failures are used; `Step` reports the tokens."""

    def __init__(self, engine: Engine) -> None:
        super().__init__()
        self._engine = engine

    def deliver(self, output: Any) -> None:
        if output.error is not None:
            error = EngineFault(f"the engine failed: {output.error}")
            self._engine.fail(output.request_id, error)

    def deliver_batch(self, outputs: list[Any]) -> None:
        for output in outputs:
            self.deliver(output)


def _error_of_step(failure: Exception) -> BackendFailed:
    if isinstance(failure, torch.OutOfMemoryError):
        return BackendFailed("the device ran out of memory: a shorter prompt takes less")
    return EngineFault(f"a step failed: {one_line(failure)}")
