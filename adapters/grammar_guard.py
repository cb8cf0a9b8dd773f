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

# A mask takes some microseconds as a rule, and up to 40 ms within the limits: too long for the
# event loop. A thread would take longer than an ordinary mask.
_QUICK_SECONDS = 0.001


class GrammarGuard:
    """Implements `adapters.base.Backend` around another backend, and checks its tokens.

    Raises InvalidGrammar before sampling if a grammar does not compile, and InvalidGrammar or
    DeadEnd as soon as it cannot be followed. Raises BackendFailed at a token that it forbids.
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
                        await check()
            except GenerationFailed:
                if (error := await asyncio.to_thread(mask.error_after_next)) is not None:
                    raise error from None
                raise

    async def check(self) -> None:
        await self._backend.check()


class _MaskCheck:
    """Computes the mask for the next token, as the engine does. Only that finds all errors."""

    def __init__(self, mask: TokenMask) -> None:
        self._mask = mask
        self._bits = np.empty((1, mask.words), np.int32)
        self._is_slow = False

    async def __call__(self) -> None:
        """Raises InvalidGrammar or DeadEnd if the grammar cannot continue."""
        if not self._mask.is_open:
            return
        if self._is_slow:
            await asyncio.to_thread(self._mask.check, self._bits)
        else:
            start = time.perf_counter()
            self._mask.check(self._bits)
            self._is_slow = time.perf_counter() - start > _QUICK_SECONDS
        if self._mask.error is not None:
            raise self._mask.error


def _violation(mask: TokenMask) -> BackendError:
    mask.bits()
    return mask.error or BackendFailed("the engine did not keep to the request's grammar")
