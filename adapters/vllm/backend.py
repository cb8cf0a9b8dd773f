"""The `vllm` backend: vLLM's AsyncLLM in this process, its engine in processes of its own."""

import asyncio
import signal
from collections.abc import AsyncGenerator, Iterator
from contextlib import contextmanager
from multiprocessing import resource_tracker

from vllm import SamplingParams
from vllm.exceptions import GracefulHTTPError, VLLMClientError
from vllm.inputs.engine import tokens_input
from vllm.outputs import CompletionOutput
from vllm.sampling_params import RequestOutputKind, StructuredOutputsParams
from vllm.v1.engine.async_llm import AsyncLLM
from vllm.v1.engine.exceptions import EngineDeadError, EngineGenerateError

from adapters.base import (
    FEATURES,
    BackendConfig,
    BackendInfo,
    GenerationChunk,
    GenerationRequest,
    TokenLogprobs,
)
from adapters.errors import (
    BackendFailed,
    ContextTooLong,
    EngineFault,
    InvalidGrammar,
    Overloaded,
    Rejected,
)
from adapters.phases import split_by_phase
from adapters.reasons import finish_reason
from adapters.vllm.arguments import engine_arguments
from adapters.vllm.sampling import sampling_fields

_NAME = "vllm"
_STOP_SECONDS = 30.0
# JSON has no -inf; vLLM's own servers say this.
_LEAST_LOGPROB = -9999.0


class VLLMBackend:
    """Implements `adapters.base.Backend`. Every option is an argument of vLLM's engine."""

    def __init__(self, config: BackendConfig) -> None:
        self._config = config
        self._engine: AsyncLLM | None = None
        self._info: BackendInfo | None = None

    @property
    def info(self) -> BackendInfo:
        if self._info is None:
            raise BackendFailed("the vllm backend has not been started")
        return self._info

    async def start(self) -> None:
        if self._config.model is None:
            raise BackendFailed("the vllm backend needs a model")
        self._config.progress("starting vLLM", 0.0)
        self._engine = engine = await asyncio.to_thread(self._load, self._config.model)
        model = engine.model_config
        self._info = BackendInfo(
            _NAME, self._config.model, model.max_model_len, model.get_vocab_size(), FEATURES
        )
        self._config.progress("starting vLLM", 1.0)

    def _load(self, model: str) -> AsyncLLM:
        try:
            with _interrupts_kept_out():
                return AsyncLLM.from_engine_args(engine_arguments(model, self._config.options))
        except (OSError, RuntimeError, ValueError, ImportError, AssertionError) as error:
            raise BackendFailed(f"vLLM cannot serve {model}: {error}") from error

    async def stop(self) -> None:
        engine, self._engine = self._engine, None
        if engine is None:
            return
        # Who waits for tokens would wait for ever: the engine's end is not told to them.
        engine.output_processor.propagate_error(BackendFailed("the vllm backend was stopped"))
        if engine.output_handler is not None:
            engine.output_handler.cancel()
        await asyncio.to_thread(engine.shutdown, _STOP_SECONDS)

    async def check(self) -> None:
        if self._running().errored:
            raise BackendFailed("the vLLM engine is dead")

    def generate(self, request: GenerationRequest) -> AsyncGenerator[GenerationChunk, None]:
        if request.phases:
            return split_by_phase(self._generate, request, _NAME)
        return self._generate(request)

    async def _generate(self, request: GenerationRequest) -> AsyncGenerator[GenerationChunk, None]:
        engine = self._running()
        length = len(request.prompt_token_ids)
        if length + request.max_tokens > self.info.context_length:
            raise ContextTooLong(length, self.info.context_length)
        with _reported(request):
            outputs = engine.generate(
                tokens_input(list(request.prompt_token_ids)),
                _sampling(request),
                request.request_id,
                priority=request.priority,
                reasoning_ended=True,
            )
            first = True
            try:
                async for output in outputs:
                    yield _chunk(
                        output.outputs[0], request, output.num_cached_tokens if first else None
                    )
                    first = False
            finally:
                await outputs.aclose()

    def _running(self) -> AsyncLLM:
        if self._engine is None:
            raise BackendFailed("the vllm backend is not running")
        return self._engine


def _sampling(request: GenerationRequest) -> SamplingParams:
    grammar = request.grammar
    return SamplingParams(
        **sampling_fields(request),
        output_kind=RequestOutputKind.DELTA,
        skip_clone=True,
        structured_outputs=None if grammar is None else StructuredOutputsParams(grammar=grammar),
    )


def _chunk(
    output: CompletionOutput, request: GenerationRequest, cached_tokens: int | None
) -> GenerationChunk:
    token_ids = tuple(output.token_ids)
    reason = output.finish_reason
    return GenerationChunk(
        token_ids,
        None if request.logprobs is None else _logprobs(token_ids, output, request.logprobs),
        None if reason is None else finish_reason(reason, "vLLM"),
        cached_tokens,
    )


def _logprobs(
    token_ids: tuple[int, ...], output: CompletionOutput, count: int
) -> tuple[TokenLogprobs, ...]:
    entries = []
    for token_id, place in zip(token_ids, output.logprobs or (), strict=True):
        known = {one: max(value.logprob, _LEAST_LOGPROB) for one, value in place.items()}
        top = sorted(known.items(), key=lambda pair: -pair[1])[:count]
        entries.append(TokenLogprobs(token_id, known[token_id], tuple(top)))
    return tuple(entries)


@contextmanager
def _interrupts_kept_out() -> Iterator[None]:
    """Processes that are started here do not get Ctrl-C: the engine lives while the server drains.

    A terminal sends it to all processes of the group; what is blocked is inherited.
    """
    # Else the first start of a process would start it, and leave interrupts unblocked after that.
    resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def _reported(request: GenerationRequest) -> Iterator[None]:
    """vLLM's errors as this project's."""
    try:
        yield
    except GracefulHTTPError as error:
        raise Overloaded(str(error)) from error
    except (VLLMClientError, ValueError) as error:
        if request.grammar is not None and "grammar" in str(error).lower():
            raise InvalidGrammar(str(error)) from error
        raise Rejected(f"vLLM refused the request: {error}") from error
    except EngineGenerateError as error:
        if isinstance(error.__cause__, BackendFailed):
            raise error.__cause__ from None
        raise EngineFault(f"vLLM failed: {error.__cause__ or error}") from error
    except EngineDeadError as error:
        raise BackendFailed("the vLLM engine died") from error
