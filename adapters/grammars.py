"""Compiles grammars on threads, once for equal texts, and tracks which tokens they allow."""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Collection
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import takewhile

import numpy as np
from llguidance import LLMatcher, LLParserLimits, LLTokenizer
from llguidance.numpy import allocate_token_bitmask, fill_next_token_bitmask
from numpy.typing import NDArray

from adapters.errors import BackendError, BackendFailed, DeadEnd, InvalidGrammar, Overloaded

_COMPILE_SECONDS = 10.0
_THREADS = 2
_KEPT_GRAMMARS = 256
_KEPT_CHARACTERS = 4_000_000
# A step waits for its slowest mask: these take 5 to 40 ms, and ordinary schemas need a tenth of it.
# Objects of many optional properties end sooner, at llguidance's default of 2,000 items in a row.
_LIMITS = LLParserLimits(step_max_items=5_000, step_lexer_fuel=100_000, verbose_errors=False)
_NO_TOKEN = "NoExtension"  # what llguidance calls it
_FORBIDDEN = "doesn't satisfy the grammar"
_MOST_UNLISTED = 16
_FEW_WORDS = 1024  # of 6,284; a token or more in each


class TokenMask:
    """Which tokens may come next after those sampled so far.

    ahead: whether what may come is to be known before a token is chosen. Where the last choice was
    among all tokens and none was forbidden, the next likely is so too: then it is cheapest to ask
    the matcher about the one that was chosen.
    due: whether it is to be known all the same: only where the matcher lists all that may come does
    it mind its limits.
    few: the ids that may come, ascending, where they are known and so few that to look at them
    alone is cheapest, else None.
    error: set once the grammar cannot go on: InvalidGrammar where it is too complex to be followed,
    DeadEnd where it allows no token. complete: once it allows nothing but the end.
    """

    def __init__(self, matcher: LLMatcher, bits: NDArray[np.int32]) -> None:
        """bits: [words]; bit i of the whole says whether token i may come next."""
        self.matcher = matcher
        self.words = len(bits)
        self.error: BackendError | None = None
        self.complete = False
        self.ahead = True
        self._unlisted = 0
        self.few: NDArray[np.int64] | None
        self._bits: NDArray[np.int32] | None
        self._keep(bits)

    def copy(self) -> "TokenMask":
        """Apart from this one, at the same place, which is the grammar's beginning."""
        assert self._bits is not None
        return TokenMask(self.matcher.deep_copy(), self._bits)

    @property
    def is_open(self) -> bool:
        """True while a token may come."""
        return self.error is None and not self.complete

    @property
    def due(self) -> bool:
        """True once in a while."""
        return self._unlisted >= _MOST_UNLISTED

    def know(self, bits: NDArray[np.int32]) -> None:
        """What the matcher has said may come next; its array is for others after this."""
        if self.matcher.is_error():
            self.error = _stuck(self.matcher)
        else:
            self._keep(bits)

    def allows(self, token_id: int) -> bool:
        """Whether the token may come next."""
        return bool(self.matcher.validate_tokens([token_id]))

    def bits(self) -> NDArray[np.int32] | None:
        """[words]; bit i of the whole is set where token i may come next.

        None where asking the matcher finds `error`. Sets `few`.
        """
        if self._bits is None:
            bits = np.zeros((1, self.words), np.int32)
            fill_next_token_bitmask(self.matcher, bits)
            self.know(bits[0])
        return self._bits

    def allowed(self) -> NDArray[np.int64]:
        """The ids that may come next, ascending; none where asking finds `error`."""
        bits = self.bits()
        if bits is None:
            return np.empty(0, np.int64)
        return _ids(bits) if self.few is None else self.few

    def take(self, token_id: int) -> None:
        """Go on past the token that was chosen. Sets `error` and `complete`."""
        self._bits = self.few = None
        self._unlisted += 1
        self.matcher.consume_token(token_id)
        if self.matcher.is_error():
            self.error = _stuck(self.matcher)
        else:
            # A matcher that failed says that it has stopped, too.
            self.complete = self.matcher.is_stopped()

    def take_forced(self, most: int, stops: Collection[int]) -> tuple[int, ...]:
        """Go on past the tokens that have to come next, and return them.

        Their number is at most `most`, and they end before the first token in `stops`.
        """
        forced = self.matcher.compute_ff_tokens() if most > 0 else []
        run = tuple(takewhile(lambda token_id: token_id not in stops, forced[:most]))
        for token_id in run:
            self.take(token_id)
        return run

    def _keep(self, bits: NDArray[np.int32]) -> None:
        self._unlisted = 0
        self.few = _ids(bits) if np.count_nonzero(bits) <= _FEW_WORDS else None
        self._bits = bits.copy()


def _ids(bits: NDArray[np.int32]) -> NDArray[np.int64]:
    if len(bits) % 2:
        bits = np.append(bits, np.int32(0))
    doubles = bits.view(np.int64)  # half as many to look through
    words = np.flatnonzero(doubles != 0)
    octets = doubles[words].view(np.uint8)
    places = np.flatnonzero(np.unpackbits(octets, bitorder="little").view(bool))
    ids: NDArray[np.int64] = words[places >> 6] * 64 + (places & 63)
    return ids


class GrammarCompiler:
    """Compiles grammars on threads of its own; equal texts are compiled once, and kept a while."""

    def __init__(self, mask_tokenizer: Callable[[], LLTokenizer], vocab_size: int) -> None:
        self._vocab_size = vocab_size
        self._pool = ThreadPoolExecutor(_THREADS, "grammar")
        self._free = asyncio.Semaphore(_THREADS)
        # Building it takes seconds, so it begins before the first grammar asks for it.
        self._tokenizer: Future[LLTokenizer] = self._pool.submit(mask_tokenizer)
        self._compiled: OrderedDict[str, asyncio.Task[TokenMask]] = OrderedDict()
        self._closed = False

    async def compile(self, grammar: str) -> TokenMask:
        """The grammar at its beginning.

        Raises InvalidGrammar with the compiler's reason, DeadEnd where nothing can be said by it,
        Overloaded while others keep the compiler busy, BackendFailed when there is no tokenizer or
        `close` came first.
        """
        return (await self._shared(grammar)).copy()

    async def check(self, grammar: str) -> None:
        """Raises as `compile` does."""
        await self._shared(grammar)

    async def _shared(self, grammar: str) -> TokenMask:
        if self._closed:
            raise BackendFailed("the backend was stopped")
        task = self._compiled.get(grammar)
        if task is None:
            task = asyncio.create_task(self._begin(grammar))
            task.add_done_callback(lambda done: self._forget_failure(grammar, done))
            self._compiled[grammar] = task
            self._evict()
        self._compiled.move_to_end(grammar)
        try:
            # Others may wait for the same grammar when this request is cancelled.
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if task.cancelled():
                raise BackendFailed("the backend was stopped") from None
            raise

    def close(self) -> None:
        self._closed = True
        for task in list(self._compiled.values()):
            task.cancel()
        self._pool.shutdown(wait=False, cancel_futures=True)

    async def _begin(self, grammar: str) -> TokenMask:
        try:
            tokenizer = await asyncio.wrap_future(self._tokenizer)
        except Exception as error:
            raise BackendFailed(f"there is no tokenizer for grammars: {error}") from error
        await self._thread()
        job = asyncio.get_running_loop().run_in_executor(
            self._pool, _compile, tokenizer, grammar, self._vocab_size
        )
        job.add_done_callback(self._give_back)
        try:
            # A thread cannot be stopped: it is taken until the grammar compiles after all.
            return await asyncio.wait_for(asyncio.shield(job), _COMPILE_SECONDS)
        except TimeoutError as error:
            raise InvalidGrammar("it takes too long to compile") from error

    async def _thread(self) -> None:
        """Wait for a thread: what others' grammars take is not this one's fault."""
        try:
            await asyncio.wait_for(self._free.acquire(), _COMPILE_SECONDS)
        except TimeoutError as error:
            raise Overloaded("too many grammars are compiled at once") from error

    def _give_back(self, job: asyncio.Future[TokenMask]) -> None:
        self._free.release()
        # Asked for, since nobody else does where the grammar was given up.
        job.cancelled() or job.exception()

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
    if _FORBIDDEN in reason:
        return BackendFailed("a token was chosen that the grammar forbids")
    return InvalidGrammar(f"the grammar is too complex to be followed: {reason}")
