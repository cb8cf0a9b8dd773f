"""The `transformers` backend: any gpt-oss checkpoint, on the hardware at hand."""

import asyncio
import threading
from collections.abc import AsyncGenerator

from adapters.base import (
    FEATURES,
    BackendConfig,
    BackendInfo,
    GenerationChunk,
    GenerationRequest,
    TokenLogprobs,
)
from adapters.bounds import bounded, check_length
from adapters.daemon_thread import run_in_daemon_thread
from adapters.download import download
from adapters.errors import BackendFailed, Rejected
from adapters.freed_memory import release_freed
from adapters.grammars import GrammarCompiler
from adapters.local.device import pick_device
from adapters.local.engine.engine import Engine
from adapters.local.memory import IdleRelease, allocate_in_one_arena, keep_freed
from adapters.local.model.loading import load
from adapters.local.model.weights import check_size
from adapters.local.options import parse_options
from adapters.local.steps.row import Row, Sampled


class LocalBackend:
    """Implements `adapters.base.Backend`. The options are `options.Options`."""

    def __init__(self, config: BackendConfig) -> None:
        allocate_in_one_arena()  # before there are threads
        self._config = config
        self._options = parse_options(config.options)
        self._info: BackendInfo | None = None
        self._engine: Engine | None = None
        self._stopped = False
        # A start goes on on its thread after it was cancelled.
        self._ownership = threading.Lock()
        self._grammars: GrammarCompiler | None = None
        self._idle_release = IdleRelease(self._is_idle, self._free)

    @property
    def info(self) -> BackendInfo:
        if self._info is None:
            raise BackendFailed("the transformers backend has not been started")
        return self._info

    async def start(self) -> None:
        name = self._config.model
        if name is None:
            raise BackendFailed("the transformers backend needs a model")
        loop = asyncio.get_running_loop()
        # Building the tokenizer takes a second, which would otherwise delay the first requests.
        tokenizer = asyncio.ensure_future(run_in_daemon_thread(self._config.mask_tokenizer))
        try:
            self._info = await run_in_daemon_thread(lambda: self._load(name, loop))
            await asyncio.wait([tokenizer])
        finally:
            if not tokenizer.cancel():
                tokenizer.exception()  # mark it as retrieved; a request with a grammar gets it
        self._running()  # raises if it was stopped meanwhile
        self._grammars = GrammarCompiler(self._config.mask_tokenizer, self._info.vocab_size)
        release_freed()  # what loading needed

    def _load(self, name: str, loop: asyncio.AbstractEventLoop) -> BackendInfo:
        def progress(stage: str, done: float) -> None:
            loop.call_soon_threadsafe(self._config.progress, stage, done)

        def check(size: int) -> None:
            device = pick_device(self._options.device)
            check_size(size, device, self._options, "the checkpoint has")

        download(name, progress, check=check)
        model = load(name, self._options, progress)
        progress("warming up", 0.0)
        try:
            engine = Engine(model, self._options, loop)
        except BackendFailed:
            raise
        except Exception as error:  # torch and transformers raise errors of any type
            raise BackendFailed(f"cannot set up the cache: {error}") from error
        if model.device.type == "cpu":
            keep_freed()
        with self._ownership:
            stopped = self._stopped
            self._engine = None if stopped else engine
        if stopped:
            engine.stop()
            raise BackendFailed("the transformers backend was stopped while it started")
        progress("ready", 1.0)
        return BackendInfo(
            "transformers",
            name,
            engine.context_length,
            model.config.vocab_size,
            FEATURES,
            # Measured by benchmarks/masks.py, on a CPU only.
            masks_are_cheap=model.device.type == "cpu",
            max_requests=engine.max_requests,
        )

    def _is_idle(self) -> bool:
        return self._engine is not None and self._engine.is_idle

    def _free(self) -> None:
        if self._engine is not None:
            self._engine.free_buffers()

    async def stop(self) -> None:
        self._idle_release.cancel()
        with self._ownership:
            self._stopped = True
            engine, self._engine = self._engine, None
        grammars, self._grammars = self._grammars, None
        if grammars is not None:
            grammars.close()
        if engine is not None:
            await asyncio.to_thread(engine.stop)

    async def check(self) -> None:
        self._running().check()

    async def generate(self, request: GenerationRequest) -> AsyncGenerator[GenerationChunk, None]:
        engine = self._running()
        self._check_request(request)
        request = bounded(request, self.info.vocab_size)
        mask = None
        if request.grammar is not None and self._grammars is not None:
            mask = await self._grammars.compile(request.grammar)
        row = engine.submit(request, mask)
        first = True
        try:
            while True:
                items = await row.inbox.take()
                yield _chunk(row, items, first)
                first = False
                if items[-1].finish_reason is not None:
                    return
        finally:
            engine.release(row)
            self._idle_release.note_end()

    def _running(self) -> Engine:
        if self._engine is None:
            raise BackendFailed("the transformers backend is not running")
        return self._engine

    def _check_request(self, request: GenerationRequest) -> None:
        """Raise for requests that would make a step fail, and with it all requests of the batch."""
        check_length(request, self.info.context_length)
        if not request.prompt_token_ids or request.max_tokens < 1:
            raise Rejected("a request needs a prompt and at least one token to sample")
        params = [request.sampling, *(phase.params for phase in request.phases)]
        for token_ids in (request.prompt_token_ids, *(one.logit_bias for one in params)):
            if token_ids and not 0 <= min(token_ids) <= max(token_ids) < self.info.vocab_size:
                raise Rejected("a token id is not in the vocabulary")


def _chunk(row: Row, items: list[Sampled], first: bool) -> GenerationChunk:
    """One chunk of all items."""
    logprobs: tuple[TokenLogprobs, ...] | None = None
    if row.request.logprobs is not None:
        logprobs = tuple(item.logprobs for item in items if item.logprobs is not None)
    return GenerationChunk(
        tuple(item.token_id for item in items if item.token_id is not None),
        logprobs,
        items[-1].finish_reason,
        row.cached_tokens if first else None,
    )
