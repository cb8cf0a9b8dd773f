"""The `vllm` backend: vLLM's AsyncLLM in this process, with its engine in other processes."""

import asyncio
import logging
import os
import re
import signal
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import contextmanager
from multiprocessing import resource_tracker

from vllm import SamplingParams, envs
from vllm.exceptions import GracefulHTTPError, VLLMClientError
from vllm.inputs.engine import tokens_input
from vllm.platforms import current_platform
from vllm.sampling_params import RequestOutputKind, StructuredOutputsParams
from vllm.usage.usage_lib import UsageContext
from vllm.v1.engine import EngineCoreOutput
from vllm.v1.engine.async_llm import AsyncLLM
from vllm.v1.engine.exceptions import EngineDeadError
from vllm.v1.outputs import LogprobsLists

from adapters.base import (
    FEATURES,
    LEAST_LOGPROB,
    BackendConfig,
    BackendInfo,
    GenerationChunk,
    GenerationRequest,
    Progress,
    TokenLogprobs,
)
from adapters.bounds import bounded, check_length
from adapters.daemon_thread import run_in_daemon_thread
from adapters.download import download
from adapters.errors import (
    BackendError,
    BackendFailed,
    EngineDied,
    EngineFault,
    Overloaded,
    Rejected,
    Unsupported,
)
from adapters.grammar_guard import GrammarGuard
from adapters.phases import split_by_phase
from adapters.reasons import finish_reason
from adapters.vllm.arguments import engine_arguments
from adapters.vllm.environment import prepare_environment
from adapters.vllm.flags import python_names
from adapters.vllm.outputs import OutputInbox, deliver_directly
from adapters.vllm.ranks import rank_for
from adapters.vllm.sampling import sampling_fields

logger = logging.getLogger(__name__)

_NAME = "vllm"
_OTHER_SOURCES = {"download_dir", "load_format", "model_weights"}
_STOP_SECONDS = 30.0
# Rules with a maximum of tokens, or with a text that ends them. llguidance cannot go back in such a
# grammar, as it has to after a rejected draft. Budgets of reasoning make such a rule.
_LIMITED_RULE = re.compile(
    r"""^[ \t]*[?!]?[\w.]+[ \t]*\[(?:[^"\]\n]|"(?:[^"\\\n]|\\.)*")*\b(?:max_tokens|stop)\s*=""",
    re.MULTILINE,
)
_LIMITS = "reasoning.max_tokens"


def open_vllm(config: BackendConfig) -> GrammarGuard:
    """A `BackendFactory`. The options are the arguments of vLLM's engine."""
    return GrammarGuard(VLLMBackend(config), config.mask_tokenizer)


class VLLMBackend:
    """Implements `adapters.base.Backend`, but vLLM does not follow all grammars to their end."""

    def __init__(self, config: BackendConfig) -> None:
        self._config = config
        self._engine: AsyncLLM | None = None
        self._info: BackendInfo | None = None
        self._tasks: tuple[str, ...] = ()
        self._speculates = False
        self._statistics: asyncio.Task[None] | None = None

    @property
    def info(self) -> BackendInfo:
        if self._info is None:
            raise BackendFailed("the vllm backend has not been started")
        return self._info

    async def start(self) -> None:
        name = self._config.model
        if name is None:
            raise BackendFailed("the vllm backend needs a model")
        loop, report = asyncio.get_running_loop(), self._config.progress

        def progress(stage: str, done: float) -> None:
            loop.call_soon_threadsafe(report, stage, done)

        self._engine = engine = await run_in_daemon_thread(lambda: self._load(name, progress))
        deliver_directly(engine)
        if engine.log_stats:
            self._statistics = asyncio.create_task(_log_statistics(engine))
        self._tasks = await engine.get_supported_tasks()
        self._speculates = engine.vllm_config.speculative_config is not None
        model = engine.model_config
        self._info = BackendInfo(
            _NAME,
            name,
            model.max_model_len,
            model.get_vocab_size(),
            _features(speculates=self._speculates),
            max_requests=_max_requests(engine),
        )
        self._config.progress("starting vLLM", 1.0)

    def _load(self, model: str, progress: Progress) -> AsyncLLM:
        prepare_environment(os.environ)
        _download(model, self._config.options, progress)
        progress("starting vLLM", 0.0)
        try:
            with _interrupts_blocked():
                engine = AsyncLLM.from_engine_args(
                    engine_arguments(model, self._config.options),
                    # The batch sizes of `vllm serve`; those for libraries are smaller.
                    usage_context=UsageContext.OPENAI_API_SERVER,
                )
        except (OSError, RuntimeError, ValueError, ImportError, AssertionError) as error:
            raise BackendFailed(f"vLLM cannot serve {model}: {error}") from error
        return engine

    async def stop(self) -> None:
        engine, self._engine = self._engine, None
        statistics, self._statistics = self._statistics, None
        if statistics is not None:
            statistics.cancel()
            await asyncio.wait({statistics})
        if engine is None:
            return
        # vLLM does not report its end to waiting requests, which would wait for ever.
        engine.output_processor.propagate_error(BackendFailed("the vllm backend was stopped"))
        await asyncio.to_thread(engine.shutdown, _STOP_SECONDS)

    async def check(self) -> None:
        if self._running().errored:
            raise EngineDied("the vLLM engine is dead")

    def generate(self, request: GenerationRequest) -> AsyncGenerator[GenerationChunk, None]:
        return split_by_phase(self._generate, bounded(request, self.info.vocab_size), _NAME)

    async def _generate(self, request: GenerationRequest) -> AsyncGenerator[GenerationChunk, None]:
        engine = self._running()
        check_length(request, self.info.context_length)
        most = engine.model_config.max_logprobs
        if request.logprobs is not None and 0 <= most < request.logprobs:
            raise Unsupported("top_logprobs", f"{_NAME} (with max_logprobs={most})")
        grammar = request.grammar
        if grammar is not None and self._speculates and _LIMITED_RULE.search(grammar):
            raise Unsupported(_LIMITS, f"{_NAME} (with speculative decoding)")
        with _errors_converted():
            inbox = OutputInbox()
            key = await self._add(engine, request, inbox)
            finished = False
            try:
                while not finished:
                    for chunk in _chunks(await inbox.take(), request):
                        finished = chunk.finish_reason is not None
                        yield chunk
            finally:
                if not finished and not engine.errored:
                    await engine.abort(key, internal=True)

    async def _add(self, engine: AsyncLLM, request: GenerationRequest, inbox: OutputInbox) -> str:
        """Submit a request to the engine. Returns its id there.

        AsyncLLM's own `add_request` would compile the grammar again, on the event loop.
        """
        if engine.errored:
            raise EngineDeadError
        core_request = engine.input_processor.process_inputs(
            request.request_id,
            tokens_input(list(request.prompt_token_ids), cache_salt=request.cache_salt),
            SamplingParams(**sampling_fields(request), output_kind=RequestOutputKind.DELTA),
            supported_tasks=self._tasks,
            priority=request.priority,
            data_parallel_rank=rank_for(request, engine.engine_core),
        )
        if request.grammar is not None:
            grammar = StructuredOutputsParams(grammar=request.grammar)
            grammar._backend = "guidance"
            core_request.sampling_params.structured_outputs = grammar
        core_request.reasoning_ended = True
        engine.input_processor.assign_request_id(core_request)
        key = str(core_request.request_id)
        try:
            await engine._add_request(core_request, None, None, 0, inbox)
        except BaseException:
            await engine.abort(key, internal=True)
            raise
        return key

    def _running(self) -> AsyncLLM:
        if self._engine is None:
            raise BackendFailed("the vllm backend is not running")
        return self._engine


def _download(model: str, options: Mapping[str, str], progress: Progress) -> None:
    """Download the checkpoint, unless the options make vLLM load it from another source."""
    given = python_names(options)
    if not given.keys() & _OTHER_SOURCES and not envs.VLLM_USE_MODELSCOPE:
        token = given.get("hf_token", "true")
        # vLLM takes `true` for the token that is saved.
        saved = token.lower() == "true"
        download(model, progress, given.get("revision"), None if saved else token)


def _features(*, speculates: bool) -> frozenset[str]:
    """Without those that vLLM 0.32 refuses with speculative decoding, or that end its engine."""
    if not speculates:
        return FEATURES
    fatal = {"top_k"} if current_platform.is_cpu() else set()
    return FEATURES - {"logit_bias", "min_p"} - fatal


async def _log_statistics(engine: AsyncLLM) -> None:
    """Log the statistics periodically, as `vllm serve` does."""
    while True:
        await asyncio.sleep(envs.VLLM_LOG_STATS_INTERVAL)
        try:
            await engine.do_log_stats()
        except Exception:
            logger.exception("the statistics of vLLM could not be logged")


def _max_requests(engine: AsyncLLM) -> int:
    """The number of requests that it computes at once, on all data-parallel ranks of this server.

    With external or hybrid load balancing other servers have the other ranks.
    """
    most: int = engine.vllm_config.scheduler_config.max_num_seqs
    return most * len(engine.engine_core.engine_ranks_managed)


def _chunks(
    outputs: list[EngineCoreOutput], request: GenerationRequest
) -> Iterator[GenerationChunk]:
    """One chunk with the tokens of all outputs.

    Raises BackendFailed after it if the last output ends the generation with an error: its tokens
    are those that vLLM's grammar refused.
    """
    chunk, word = _chunk(outputs, request), outputs[-1].finish_reason
    if word is not None:
        try:
            chunk.finish_reason = finish_reason(str(word), "vLLM")
        except BackendFailed:
            yield chunk
            raise
    yield chunk


def _chunk(outputs: list[EngineCoreOutput], request: GenerationRequest) -> GenerationChunk:
    """The tokens of all outputs, without a finish reason."""
    prefill = outputs[0].prefill_stats
    token_ids: list[int] = []
    for output in outputs:
        token_ids += output.new_token_ids
    logprobs: tuple[TokenLogprobs, ...] | None = None
    if request.logprobs is not None:
        logprobs = tuple(
            entry
            for output in outputs
            if output.new_logprobs is not None
            for entry in _logprobs(output.new_logprobs, request.logprobs)
        )
    return GenerationChunk(
        tuple(token_ids),
        logprobs,
        cached_tokens=None if prefill is None else prefill.num_cached_tokens,
    )


def _logprobs(lists: LogprobsLists, count: int) -> Iterator[TokenLogprobs]:
    """The logprobs of each token. vLLM lists the sampled token first, whatever its rank."""
    for row_ids, row in zip(lists.logprob_token_ids, lists.logprobs, strict=True):
        values = [max(value, LEAST_LOGPROB) for value in row[: count + 1].tolist()]
        by_id = dict(zip(row_ids[: count + 1].tolist(), values, strict=True))
        top = sorted(by_id.items(), key=lambda pair: -pair[1])[:count]
        yield TokenLogprobs(int(row_ids[0]), values[0], tuple(top))


@contextmanager
def _interrupts_blocked() -> Iterator[None]:
    """Start processes that ignore Ctrl-C, so that the engine runs while the server drains.

    A terminal sends SIGINT to all processes of the group. They inherit blocked signals.
    """
    # Otherwise the first new process would start the tracker, which unblocks SIGINT.
    resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def _errors_converted() -> Iterator[None]:
    """Convert the errors of vLLM to those of `adapters.errors`."""
    try:
        yield
    except BackendError:
        raise
    except GracefulHTTPError as error:
        raise Overloaded(str(error)) from error
    except EngineDeadError as error:
        raise EngineDied("the vLLM engine died") from error
    except VLLMClientError as error:
        raise Rejected(f"vLLM refused the request: {error}") from error
    except Exception as error:
        raise EngineFault(f"vLLM failed: {error}") from error
