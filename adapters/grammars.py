"""Compiles grammars on threads, and tracks which tokens they allow.

Equal grammars share a compilation. The copies of an llguidance matcher share one lexer, whose
states accumulate over all their tokens; at a limit it fails for all of them, for good. A
compilation is therefore replaced when its lexer has failed, and after `_MAX_MASKS` requests, so
that it rarely does.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import takewhile

import numpy as np
from llguidance import LLMatcher, LLTokenizer
from llguidance.numpy import allocate_token_bitmask, fill_next_token_bitmask
from numpy.typing import NDArray

from adapters.errors import BackendError, BackendFailed, DeadEnd, InvalidGrammar, Overloaded
from adapters.mask_limits import LIMITS

_COMPILE_SECONDS = 10.0
_THREADS = 2
# The lexer of a grammar grows while it is used, to 100 MB if somebody intends it (`LIMITS`).
_MAX_CACHED_GRAMMARS = 64
# Before it is used, a matcher takes 200 times the memory of its text.
_MAX_CACHED_CHARACTERS = 4_000_000
_MAX_MASKS = 100
_NO_TOKEN = "NoExtension"  # llguidance's name for a grammar that allows no token
_FORBIDDEN = "doesn't satisfy the grammar"
_MAX_STEPS_WITHOUT_MASK = 16
_MAX_TRIED_IDS = 256
_MAX_LISTED_WORDS = 1024  # of 6,284 words of 32 bits, each with at least one allowed token


class TokenMask:
    """The tokens that a grammar allows after those sampled so far.

    precompute: whether to compute the mask before the next token is chosen. If the last token was
    chosen from the whole vocabulary and the grammar allowed it, the same is likely for the next
    one. It is then cheaper to choose first and to ask the matcher about the chosen token only.
    mask_is_due: whether to compute the mask nevertheless. The matcher checks its limits only when
    it computes a mask.
    few_ids: the allowed ids, ascending, if they are known and so few that sampling among them alone
    is the cheapest way; else None.
    error: set when the grammar cannot continue: InvalidGrammar if it is too complex, DeadEnd if it
    allows no token. complete: True when the grammar allows only the end.
    """

    def __init__(
        self,
        matcher: LLMatcher,
        bits: NDArray[np.int32],
        compilation: "Compilation | None" = None,
    ) -> None:
        """bits: [words], 32 tokens in each; bit i is set if the grammar allows token i.

        compilation: the one that `matcher` was copied from.
        """
        self.matcher = matcher
        self._compilation = compilation
        self.words = len(bits)
        self.error: BackendError | None = None
        self.complete = False
        self.precompute = True
        self._steps_without_mask = 0
        self.few_ids: NDArray[np.int64] | None
        self._bits: NDArray[np.int32] | None
        self._store(bits)

    @property
    def is_open(self) -> bool:
        """Whether the grammar may allow further tokens: it has no error and is not complete."""
        return self.error is None and not self.complete

    @property
    def needs_computing(self) -> bool:
        """Whether to compute the mask before the next token is chosen."""
        return self.is_open and (self.precompute or self.mask_is_due)

    @property
    def mask_is_due(self) -> bool:
        """Whether the mask was not computed for `_MAX_STEPS_WITHOUT_MASK` tokens."""
        return self._steps_without_mask >= _MAX_STEPS_WITHOUT_MASK

    def set_bits(self, bits: NDArray[np.int32]) -> None:
        """Set the mask that the matcher computed. `bits` is copied."""
        if not self._fails():
            self._store(bits)

    def allows(self, token_id: int) -> bool:
        """Whether the grammar allows `token_id` next."""
        return bool(self.matcher.validate_tokens([token_id]))

    def bits(self) -> NDArray[np.int32] | None:
        """The mask, [words]; bit i is set if the grammar allows token i. Sets `few_ids`.

        Returns None, and sets `error`, if the matcher fails.
        """
        if self._bits is None:
            bits = np.zeros((1, self.words), np.int32)
            fill_next_token_bitmask(self.matcher, bits)
            self.set_bits(bits[0])
        return self._bits

    def check(self, scratch: NDArray[np.int32]) -> None:
        """Compute the mask into `scratch`, [1, words], only to set `error` if the matcher fails.

        It takes half the time of `bits`.
        """
        fill_next_token_bitmask(self.matcher, scratch)
        self._fails()

    def error_after_next(self) -> BackendError | None:
        """The error of the grammar: `error`, or that after one of few tokens that it allows next.

        An object with many optional properties fails only when its first token is consumed.
        """
        for token_id in self.allowed()[:_MAX_TRIED_IDS]:
            matcher = self.matcher.deep_copy()
            matcher.consume_token(int(token_id))
            if matcher.is_error():
                return _matcher_error(matcher)
        return self.error

    def allowed(self) -> NDArray[np.int64]:
        """The allowed ids, ascending; no ids, and `error` is set, if the matcher fails."""
        bits = self.bits()
        if bits is None:
            return np.empty(0, np.int64)
        return _ids(bits) if self.few_ids is None else self.few_ids

    def consume(self, token_id: int) -> None:
        """Advance the grammar past the chosen token. Sets `error` and `complete`."""
        self._bits = self.few_ids = None
        self._steps_without_mask += 1
        self.matcher.consume_token(token_id)
        # A matcher that failed also reports that it has stopped.
        self.complete = not self._fails() and self.matcher.is_stopped()

    def consume_allowed(self, token_ids: Sequence[int]) -> int:
        """Advance the grammar to the first of `token_ids` that it forbids. Returns its place."""
        self._bits = self.few_ids = None
        allowed = self.matcher.try_consume_tokens(list(token_ids))
        self.complete = not self._fails() and self.matcher.is_stopped()
        return int(allowed)

    def consume_forced(self, most: int, stops: Collection[int]) -> tuple[int, ...]:
        """Advance the grammar past the tokens that have to come next, and return them.

        Their number is at most `most`, and they end before the first token in `stops`.
        """
        forced = self.matcher.compute_ff_tokens() if most > 0 else []
        run = tuple(takewhile(lambda token_id: token_id not in stops, forced[:most]))
        for token_id in run:
            self.consume(token_id)
        return run

    def _fails(self) -> bool:
        """Whether the matcher has failed. Sets `error`."""
        if not self.matcher.is_error():
            return False
        self.error = _matcher_error(self.matcher)
        if self._compilation is not None and isinstance(self.error, InvalidGrammar):
            self._compilation.failed = True
        return True

    def _store(self, bits: NDArray[np.int32]) -> None:
        self._steps_without_mask = 0
        self.few_ids = _ids(bits) if np.count_nonzero(bits) <= _MAX_LISTED_WORDS else None
        self._bits = bits.copy()


def _ids(bits: NDArray[np.int32]) -> NDArray[np.int64]:
    if len(bits) % 2:
        bits = np.append(bits, np.int32(0))
    doubles = bits.view(np.int64)  # half as many words to search
    words = np.flatnonzero(doubles != 0)
    octets = doubles[words].view(np.uint8)
    places = np.flatnonzero(np.unpackbits(octets, bitorder="little").view(bool))
    ids: NDArray[np.int64] = words[places >> 6] * 64 + (places & 63)
    return ids


class Compilation:
    """A compiled grammar, for several requests.

    bits: as in `TokenMask`. failed: whether one of its masks became too complex. That may have been
    the lexer, which they share.
    """

    def __init__(self, matcher: LLMatcher, bits: NDArray[np.int32]) -> None:
        self._matcher = matcher
        self._bits = bits
        self._masks = 0
        self.failed = False

    @property
    def is_worn(self) -> bool:
        """Whether the next request should have a compilation of its own."""
        return self.failed or self._masks >= _MAX_MASKS

    def mask(self) -> TokenMask:
        """A mask at the beginning of the grammar."""
        self._masks += 1
        return TokenMask(self._matcher.deep_copy(), self._bits, self)


class GrammarCompiler:
    """Compiles grammars on its own threads, and caches them by their text."""

    def __init__(self, mask_tokenizer: Callable[[], LLTokenizer], vocab_size: int) -> None:
        self._vocab_size = vocab_size
        self._pool = ThreadPoolExecutor(_THREADS, "grammar")
        self._free_threads = asyncio.Semaphore(_THREADS)
        # Building it takes a second, so it starts before the first grammar needs it.
        self._tokenizer: Future[LLTokenizer] = self._pool.submit(mask_tokenizer)
        self._compiled: OrderedDict[str, asyncio.Task[Compilation]] = OrderedDict()
        self._closed = False

    async def compile(self, grammar: str) -> TokenMask:
        """A mask at the beginning of `grammar` (llguidance Lark text).

        Raises InvalidGrammar with the compiler's reason, DeadEnd if the grammar allows no first
        token, Overloaded if the machine is too busy to compile it in time, and BackendFailed if
        there is no tokenizer or after `close`.
        """
        return (await self._shared(grammar)).mask()

    async def _shared(self, grammar: str) -> Compilation:
        if self._closed:
            raise BackendFailed("the backend was stopped")
        task = self._compiled.get(grammar)
        if task is None or _is_worn(task):
            task = asyncio.create_task(self._compile_on_thread(grammar))
            task.add_done_callback(lambda done: self._remove_failure(grammar, done))
            self._compiled[grammar] = task
            self._evict_oldest()
        self._compiled.move_to_end(grammar)
        try:
            # Other requests may wait for the same grammar when this one is cancelled.
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if task.cancelled():
                raise BackendFailed("the backend was stopped") from None
            raise

    def close(self) -> None:
        """Cancel all compilations. A thread that compiles is not waited for."""
        self._closed = True
        for task in list(self._compiled.values()):
            task.cancel()
        self._pool.shutdown(wait=False)

    async def _compile_on_thread(self, grammar: str) -> Compilation:
        try:
            tokenizer = await asyncio.wrap_future(self._tokenizer)
        except Exception as error:
            raise BackendFailed(f"there is no tokenizer for grammars: {error}") from error
        await self._acquire_thread()
        job = asyncio.get_running_loop().run_in_executor(
            self._pool, _compile, tokenizer, grammar, self._vocab_size
        )
        job.add_done_callback(self._release_thread)
        try:
            # A thread cannot be stopped: it stays occupied until the compilation ends.
            return await asyncio.wait_for(asyncio.shield(job), _COMPILE_SECONDS)
        except TimeoutError as error:
            # Whoever accepted the grammar knows that it compiles in less time on an idle machine.
            raise Overloaded("a grammar takes too long to compile") from error

    async def _acquire_thread(self) -> None:
        """Wait for a free thread. Raises Overloaded after `_COMPILE_SECONDS`."""
        try:
            await asyncio.wait_for(self._free_threads.acquire(), _COMPILE_SECONDS)
        except TimeoutError as error:
            raise Overloaded("too many grammars are compiled at once") from error

    def _release_thread(self, job: asyncio.Future[Compilation]) -> None:
        self._free_threads.release()
        # After a timeout nothing else retrieves the exception, and asyncio would log it.
        job.cancelled() or job.exception()

    def _evict_oldest(self) -> None:
        """Remove the least recently used compilations."""
        while len(self._compiled) > _MAX_CACHED_GRAMMARS or (
            len(self._compiled) > 1 and sum(map(len, self._compiled)) > _MAX_CACHED_CHARACTERS
        ):
            self._compiled.popitem(last=False)

    def _remove_failure(self, grammar: str, done: asyncio.Task[Compilation]) -> None:
        if done.cancelled() or done.exception() is not None:
            self._compiled.pop(grammar, None)


def _is_worn(task: asyncio.Task[Compilation]) -> bool:
    succeeded = task.done() and not task.cancelled() and task.exception() is None
    return succeeded and task.result().is_worn


def _compile(tokenizer: LLTokenizer, grammar: str, vocab_size: int) -> Compilation:
    matcher = LLMatcher(tokenizer, grammar, log_level=0, limits=LIMITS)
    if matcher.is_error():
        raise InvalidGrammar(_reason(matcher))
    bits = allocate_token_bitmask(1, vocab_size)
    fill_next_token_bitmask(matcher, bits)
    if matcher.is_error():
        raise _matcher_error(matcher)
    return Compilation(matcher, bits[0])


def _reason(matcher: LLMatcher) -> str:
    """The error without the dump of the parser's state that follows it."""
    return str(matcher.get_error()).partition("\n<")[0]


def _matcher_error(matcher: LLMatcher) -> BackendError:
    reason = _reason(matcher)
    if reason.startswith(_NO_TOKEN):
        return DeadEnd()
    if _FORBIDDEN in reason:
        return BackendFailed("a token was chosen that the grammar forbids")
    return InvalidGrammar(f"the grammar is too complex to be followed: {reason}")
