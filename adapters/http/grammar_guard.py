"""Checks answers against their grammars, for engines that do not always enforce them."""

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

from llguidance import LLTokenizer

from adapters.base import Backend, BackendInfo, GenerationChunk, GenerationRequest
from adapters.errors import BackendError, BackendFailed, InvalidGrammar
from adapters.grammars import GrammarCompiler, TokenMask


class GrammarGuard:
    """Implements `adapters.base.Backend` around another backend, and checks its tokens.

    Raises InvalidGrammar before sampling if a grammar does not compile. At the first forbidden
    token it raises InvalidGrammar if the grammar is too complex, else BackendFailed.
    """

    def __init__(
        self, backend: Backend, mask_tokenizer: Callable[[], LLTokenizer], vocab_size: int
    ) -> None:
        self._backend = backend
        self._mask_tokenizer = mask_tokenizer
        self._vocab_size = vocab_size
        self._grammars: GrammarCompiler | None = None

    @property
    def info(self) -> BackendInfo:
        return self._backend.info

    async def start(self) -> None:
        await self._backend.start()
        if "grammar" in self.info.features:
            self._grammars = GrammarCompiler(self._mask_tokenizer, self._vocab_size)

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
        async with aclosing(self._backend.generate(request)) as chunks:
            async for chunk in chunks:
                allowed = mask.consume_allowed(chunk.token_ids)
                if allowed == len(chunk.token_ids):
                    yield chunk
                    continue
                if allowed:
                    yield chunk.split(allowed)[0]
                raise _violation(mask)

    async def check(self) -> None:
        await self._backend.check()


def _violation(mask: TokenMask) -> BackendError:
    mask.bits()
    if mask.error is not None:
        return InvalidGrammar("the grammar is too complex to be followed, or ends nowhere")
    return BackendFailed("the engine did not keep to the request's grammar")
