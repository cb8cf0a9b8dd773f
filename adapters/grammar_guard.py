"""Checks answers against their grammars, for engines that do not always enforce them.

llama.cpp lets structural tokens into text. vLLM, where a grammar cannot be followed, allows the end
of the answer; its limits on how complex a grammar may be are far above those of this server, so
that one grammar can stall an engine.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

import numpy as np
from llguidance import LLTokenizer

from adapters.base import Backend, BackendInfo, GenerationChunk, GenerationRequest
from adapters.errors import BackendError, BackendFailed, GenerationFailed
from adapters.grammars import GrammarCompiler, TokenMask

# The engine computes each mask. To compute all of them here again takes a third of this process's
# time for an answer, and only shows earlier that the grammar is too complex.
_CHECK_EVERY = 32
# A step of the engine that takes longer may be one whose mask is complex. With its own limits, vLLM
# takes up to 0.2 s for a mask.
_STEP_SECONDS = 0.05
# All steps of a busy engine may take as long. A slow one takes at least this multiple of the usual.
_TIMES_USUAL = 2
# A mask takes some microseconds as a rule, and up to 40 ms within the limits: too long for the
# event loop. A thread would take longer than an ordinary mask.
_QUICK_SECONDS = 0.001


class GrammarGuard:
    """Implements `adapters.base.Backend` around another backend, and checks its tokens.

    `generate` raises InvalidGrammar before sampling if a grammar does not compile, and while the
    engine samples, at most `_CHECK_EVERY` tokens late, if the grammar becomes too complex. At a
    token that the grammar forbids it raises InvalidGrammar for the same reason, DeadEnd if no token
    is allowed there, else BackendFailed.
    """

    def __init__(self, backend: Backend, mask_tokenizer: Callable[[], LLTokenizer]) -> None:
        self._backend = backend
        self._mask_tokenizer = mask_tokenizer
        self._grammars: GrammarCompiler | None = None

    @property
    def info(self) -> BackendInfo:
        return self._backend.info

    async def start(self) -> None:
        await self._backend.start()
        if "grammar" in self.info.features:
            self._grammars = GrammarCompiler(self._mask_tokenizer, self.info.vocab_size)

    async def stop(self) -> None:
        grammars, self._grammars = self._grammars, None
        if grammars is not None:
            grammars.close()
        await self._backend.stop()

    def generate(self, request: GenerationRequest) -> AsyncGenerator[GenerationChunk, None]:
        if request.grammar is None or self._grammars is None:
            return self._backend.generate(request)
        return self._generate_checked(request, request.grammar, self._grammars)

    async def _generate_checked(
        self, request: GenerationRequest, grammar: str, grammars: GrammarCompiler
    ) -> AsyncGenerator[GenerationChunk, None]:
        mask = await grammars.compile(grammar)
        check = _MaskCheck(mask)
        async with aclosing(self._backend.generate(request)) as chunks:
            try:
                async for chunk in chunks:
                    allowed = mask.consume_allowed(chunk.token_ids)
                    if allowed < len(chunk.token_ids):
                        if allowed:
                            yield chunk.split(allowed)[0]
                        raise _violation(mask)
                    yield chunk
                    if chunk.finish_reason is None:
                        await check(len(chunk.token_ids))
            except GenerationFailed:
                if (error := await asyncio.to_thread(mask.error_after_next)) is not None:
                    raise error from None
                raise

    async def check(self) -> None:
        await self._backend.check()


class _MaskCheck:
    """Computes some of the masks that the engine computes. Only that finds all errors.

    These are the first one, one of every `_CHECK_EVERY` tokens, and the next one after a slow mask
    or step. A step is slow if it takes `_STEP_SECONDS`, and `_TIMES_USUAL` times as long as the
    mean of those before a mask that was found to be quick: single ones are short where chunks that
    were late arrive together.
    """

    def __init__(self, mask: TokenMask) -> None:
        self._mask = mask
        self._bits = np.empty((1, mask.words), np.int32)
        self._unchecked = 0
        self._is_slow = False
        self._usual_step = 0.0
        self._steps = 0  # since the last check
        self._last_check = 0.0
        self._last_chunk: float | None = None

    async def __call__(self, tokens: int) -> None:
        """Called after each chunk, of `tokens` tokens.

        Raises InvalidGrammar or DeadEnd if the grammar is found not to continue.
        """
        now = time.perf_counter()
        step = None if self._last_chunk is None else now - self._last_chunk
        self._last_chunk = now
        self._unchecked += tokens
        self._steps += 1
        if not self._is_due(step) or not self._mask.is_open:
            return
        self._unchecked = 0
        if self._is_slow:
            await asyncio.to_thread(self._compute)
        else:
            self._compute()
        if self._mask.error is not None:
            raise self._mask.error
        if step is not None and not self._is_slow:
            mean = (now - self._last_check) / self._steps
            self._usual_step = min(mean, self._usual_step or mean)
        self._last_check, self._steps = now, 0

    def _is_due(self, step: float | None) -> bool:
        """step: the seconds since the chunk before; None for the first one."""
        if step is None or self._is_slow or self._unchecked >= _CHECK_EVERY:
            return True
        return step >= max(_STEP_SECONDS, _TIMES_USUAL * self._usual_step)

    def _compute(self) -> None:
        start = time.thread_time()
        self._mask.check(self._bits)
        self._is_slow = time.thread_time() - start > _QUICK_SECONDS


def _violation(mask: TokenMask) -> BackendError:
    mask.bits()
    return mask.error or BackendFailed("the engine did not keep to the request's grammar")
