"""Grammars: compiled off the event loop, followed token by token beside the engine's thread."""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np
from llguidance import LLExecutor, LLMatcher, LLParserLimits, LLTokenizer
from llguidance.numpy import (
    allocate_token_bitmask,
    fill_next_token_bitmask,
    fill_next_token_bitmask_par,
)
from numpy.typing import NDArray

from adapters.errors import BackendError, BackendFailed, DeadEnd, InvalidGrammar

_COMPILE_SECONDS = 10.0
_KEPT_GRAMMARS = 256
_KEPT_CHARACTERS = 4_000_000
# A step waits for its slowest mask: these take 5 to 40 ms, and ordinary schemas need a tenth of it.
# Objects of many optional properties end sooner, at llguidance's default of 2,000 items in a row.
_LIMITS = LLParserLimits(step_max_items=5_000, step_lexer_fuel=100_000, verbose_errors=False)
_NO_TOKEN = "NoExtension"  # what llguidance calls it
_FEW_WORDS = 1024  # of 6,284; a token or more in each


class TokenMask:
    """Which tokens may come next after those sampled so far.

    bits: [words]; bit i of the whole says whether token i is allowed.
    few: their ids, ascending, where they are so few that to look at them alone is cheapest, else
    None.
    error: set once the grammar cannot go on: InvalidGrammar where it is too complex to be followed,
    DeadEnd where it allows no token. complete: once it allows nothing but the end.
    """

    def __init__(self, matcher: LLMatcher, bits: NDArray[np.int32]) -> None:
        self.matcher = matcher
        self.error: BackendError | None = None
        self.complete = False
        self.renew(bits)

    def renew(self, bits: NDArray[np.int32]) -> None:
        self.bits = bits
        self._words = np.flatnonzero(bits)
        self.few = self.allowed() if len(self._words) <= _FEW_WORDS else None

    def copy(self) -> "TokenMask":
        return TokenMask(self.matcher.deep_copy(), self.bits)

    def allows(self, token_id: int) -> bool:
        return bool(self.bits[token_id >> 5] >> (token_id & 31) & 1)

    def allowed(self) -> NDArray[np.int64]:
        """The ids that may come next, ascending."""
        octets = self.bits[self._words].view(np.uint8)
        places = np.flatnonzero(np.unpackbits(octets, bitorder="little").view(bool))
        ids: NDArray[np.int64] = self._words[places >> 5] * 32 + (places & 31)
        return ids


class GrammarCompiler:
    """Compiles grammars on threads of its own; equal texts are compiled once, and kept a while."""

    def __init__(self, mask_tokenizer: Callable[[], LLTokenizer], vocab_size: int) -> None:
        self._vocab_size = vocab_size
        self._pool = ThreadPoolExecutor(2, "grammar")
        # Building it takes seconds, so it begins before the first grammar asks for it.
        self._tokenizer: Future[LLTokenizer] = self._pool.submit(mask_tokenizer)
        self._compiled: OrderedDict[str, asyncio.Task[TokenMask]] = OrderedDict()

    async def compile(self, grammar: str) -> TokenMask:
        """The grammar at its beginning.

        Raises InvalidGrammar with the compiler's reason, DeadEnd where nothing can be said by it,
        BackendFailed when there is no tokenizer or `close` came first.
        """
        task = self._compiled.get(grammar)
        if task is None:
            task = asyncio.create_task(self._begin(grammar))
            task.add_done_callback(lambda done: self._forget_failure(grammar, done))
            self._compiled[grammar] = task
            self._evict()
        self._compiled.move_to_end(grammar)
        try:
            # Others may wait for the same grammar when this request is cancelled.
            return (await asyncio.shield(task)).copy()
        except asyncio.CancelledError:
            if task.cancelled():
                raise BackendFailed("the backend was stopped") from None
            raise

    def close(self) -> None:
        for task in list(self._compiled.values()):
            task.cancel()
        self._pool.shutdown(wait=False, cancel_futures=True)

    async def _begin(self, grammar: str) -> TokenMask:
        try:
            tokenizer = await asyncio.wrap_future(self._tokenizer)
        except Exception as error:
            raise BackendFailed(f"there is no tokenizer for grammars: {error}") from error
        job = asyncio.get_running_loop().run_in_executor(
            self._pool, _compile, tokenizer, grammar, self._vocab_size
        )
        try:
            return await asyncio.wait_for(job, _COMPILE_SECONDS)
        except TimeoutError as error:
            raise InvalidGrammar("it takes too long to compile") from error

    def _evict(self) -> None:
        """Drop what was not used for longest; a matcher takes some 200 times its text's memory."""
        while len(self._compiled) > _KEPT_GRAMMARS or (
            len(self._compiled) > 1 and sum(map(len, self._compiled)) > _KEPT_CHARACTERS
        ):
            self._compiled.popitem(last=False)

    def _forget_failure(self, grammar: str, done: asyncio.Task[TokenMask]) -> None:
        if done.cancelled() or done.exception() is not None:
            self._compiled.pop(grammar, None)


def _compile(tokenizer: LLTokenizer, grammar: str, vocab_size: int) -> TokenMask:
    matcher = LLMatcher(tokenizer, grammar, log_level=0, limits=_LIMITS)
    if matcher.is_error():
        raise InvalidGrammar(_reason(matcher))
    bits = allocate_token_bitmask(1, vocab_size)
    fill_next_token_bitmask(matcher, bits)
    if matcher.is_error():
        raise _stuck(matcher)
    return TokenMask(matcher, bits[0])


def _reason(matcher: LLMatcher) -> str:
    """What comes first; the rest shows the parser's state."""
    return str(matcher.get_error()).partition("\n<")[0]


def _stuck(matcher: LLMatcher) -> BackendError:
    reason = _reason(matcher)
    if reason.startswith(_NO_TOKEN):
        return DeadEnd()
    return InvalidGrammar(f"the grammar is too complex to be followed: {reason}")


class MaskWorker:
    """Advances masks on other threads while the engine computes its next step."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(1, "masks")
        self._executor = LLExecutor()
        self._pending: Future[None] | None = None

    def advance(self, sampled: Sequence[tuple[TokenMask, int]]) -> None:
        """Begin to move each mask past its token; `wait` before looking at any mask."""
        if sampled:
            self._pending = self._pool.submit(self._advance, sampled)

    def wait(self) -> None:
        pending, self._pending = self._pending, None
        if pending is not None:
            pending.result()

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _advance(self, sampled: Sequence[tuple[TokenMask, int]]) -> None:
        for mask, token_id in sampled:
            if not mask.allows(token_id):
                mask.error = BackendFailed(f"the grammar forbids the token {token_id}")
            mask.matcher.consume_token(token_id)
        bank = np.zeros((len(sampled), len(sampled[0][0].bits)), np.int32)
        matchers = [(mask.matcher, place) for place, (mask, _) in enumerate(sampled)]
        fill_next_token_bitmask_par(self._executor, matchers, bank)
        for (mask, _), bits in zip(sampled, bank, strict=True):
            mask.renew(bits)
            if mask.error is None and mask.matcher.is_error():
                mask.error = _stuck(mask.matcher)
            # A matcher that failed says that it has stopped, too.
            mask.complete = mask.error is None and mask.matcher.is_stopped()
