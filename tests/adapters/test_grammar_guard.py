import asyncio
import json
import math
import random
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from llguidance import LLParserLimits, LLTokenizer
from numpy.typing import NDArray

from adapters import grammar_guard, grammars
from adapters.base import (
    FEATURES,
    BackendInfo,
    FinishReason,
    GenerationChunk,
    GenerationRequest,
)
from adapters.errors import BackendError, BackendFailed, DeadEnd, GenerationFailed, InvalidGrammar
from adapters.grammar_guard import GrammarGuard
from adapters.grammars import Compilation, TokenMask
from harmony.vocab import RETURN

LETTERS: tuple[int, ...] = (64, 65)  # a, b
C = 66
MUCH = 's: s s s | s s | /[c-z]/ | " " | ""'
NOTHING = "s: s <[1]>"
WIDE = "start: %json " + json.dumps(
    {
        "type": "object",
        "properties": {f"p{number}": {"type": "string"} for number in range(600)},
        "additionalProperties": False,
    }
)
INFO = BackendInfo("engine", None, 2048, 201_088, FEATURES)


class IgnoringEngine:
    """Says `tokens`, whatever the grammar, and then fails with `error`.

    finish_reason: of the last chunk. asked: how often; ended: whether it was let end.
    """

    def __init__(self) -> None:
        self.info = INFO
        self.tokens = LETTERS
        self.asked = 0
        self.at_once = 1
        self.finish_reason: FinishReason | None = None
        self.error: BackendError | None = None
        self.ended = False
        self.started = self.stopped = False

    async def start(self) -> None:
        self.started = True

    async def stop(self) -> None:
        self.stopped = True

    async def check(self) -> None:
        raise BackendFailed("checked")

    async def generate(self, request: GenerationRequest) -> AsyncGenerator[GenerationChunk, None]:
        self.asked += 1
        try:
            for first in range(0, len(self.tokens), self.at_once):
                part = self.tokens[first : first + self.at_once]
                last = first + self.at_once >= len(self.tokens)
                yield GenerationChunk(part, finish_reason=self.finish_reason if last else None)
            if self.error is not None:
                raise self.error
        finally:
            self.ended = True


@pytest.fixture
def engine() -> IgnoringEngine:
    return IgnoringEngine()


@pytest.fixture
async def guard(engine: IgnoringEngine, mask_tokenizer: LLTokenizer) -> AsyncIterator[GrammarGuard]:
    guard = GrammarGuard(engine, lambda: mask_tokenizer)
    await guard.start()
    yield guard
    await guard.stop()


def ask(grammar: str | None) -> GenerationRequest:
    return GenerationRequest("r", (1,), 2, frozenset(), grammar=grammar)


async def sampled_ids(guard: GrammarGuard, grammar: str | None) -> list[int]:
    return [one async for chunk in guard.generate(ask(grammar)) for one in chunk.token_ids]


@pytest.mark.parametrize("grammar", ['start: "a" "b"', None])
async def test_what_is_allowed_passes(guard: GrammarGuard, grammar: str | None) -> None:
    assert await sampled_ids(guard, grammar) == [*LETTERS]


@pytest.mark.parametrize("at_once", [1, 2])
async def test_nothing_follows_a_token_that_the_grammar_forbids(
    guard: GrammarGuard, engine: IgnoringEngine, at_once: int
) -> None:
    engine.at_once = at_once
    chunks = guard.generate(ask('start: "a" "c"'))
    assert (await anext(chunks)).token_ids == (64,)
    with pytest.raises(BackendFailed, match="did not keep to"):
        await anext(chunks)
    assert engine.ended


@pytest.mark.parametrize(
    ("rest", "second", "fault"),
    [
        (MUCH, 65, InvalidGrammar),
        (MUCH, RETURN, InvalidGrammar),
        (NOTHING, 65, DeadEnd),
        (NOTHING, RETURN, DeadEnd),
        (NOTHING, C, DeadEnd),
    ],
)
async def test_where_a_grammar_cannot_be_followed_it_is_at_fault(
    guard: GrammarGuard,
    engine: IgnoringEngine,
    rest: str,
    second: int,
    fault: type[BackendError],
) -> None:
    """Whether the engine then samples text or the end."""
    engine.tokens = (64, second)
    chunks = guard.generate(ask(f'start: "a" s\n{rest}'))
    await anext(chunks)
    with pytest.raises(fault):
        await anext(chunks)
    assert engine.ended


async def tokens_before_the_fault(guard: GrammarGuard, engine: IgnoringEngine) -> int:
    """How many tokens pass of an answer whose grammar is too complex after the first four."""
    engine.tokens = (*[64] * 4, *[C] * 60)
    passed: list[int] = []

    async def read() -> None:
        async for chunk in guard.generate(ask(f'start: "aaaa" s\n{MUCH}')):
            passed.extend(chunk.token_ids)

    with pytest.raises(InvalidGrammar, match="too complex"):
        await read()
    return len(passed)


@pytest.mark.parametrize("at_once", [1, 3])
async def test_what_is_too_complex_is_found_within_some_tokens(
    guard: GrammarGuard, engine: IgnoringEngine, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    monkeypatch.setattr(grammar_guard, "_STEP_SECONDS", math.inf)
    engine.at_once = at_once
    assert 4 < await tokens_before_the_fault(guard, engine) <= 37


async def test_what_is_too_complex_is_found_after_a_slow_step(
    guard: GrammarGuard, engine: IgnoringEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(grammar_guard, "_STEP_SECONDS", 0.0)
    monkeypatch.setattr(grammar_guard, "_TIMES_USUAL", 0)
    assert await tokens_before_the_fault(guard, engine) == 4
    assert engine.ended


async def test_what_is_too_complex_at_once_is_found_after_the_first_token(
    guard: GrammarGuard, engine: IgnoringEngine
) -> None:
    engine.tokens = (64, C, C)
    chunks = guard.generate(ask(f'start: "a" s\n{MUCH}'))
    await anext(chunks)
    with pytest.raises(InvalidGrammar, match="too complex"):
        await anext(chunks)


async def checked_masks(
    guard: GrammarGuard,
    engine: IgnoringEngine,
    monkeypatch: pytest.MonkeyPatch,
    steps: Sequence[float],
) -> list[int]:
    """After how many chunks a mask was checked, where each step takes the seconds of `steps`."""
    clock, passed, found = 0.0, 0, list[int]()
    watch = SimpleNamespace(perf_counter=lambda: clock, thread_time=lambda: 0.0)
    monkeypatch.setattr(grammar_guard, "time", watch)
    monkeypatch.setattr(TokenMask, "check", lambda *_: found.append(passed))
    engine.tokens = (64,) * len(steps)
    async for _ in guard.generate(ask("start: /a*/")):
        clock += steps[passed]
        passed += 1
    return found


@pytest.mark.parametrize(("slower", "checked"), [(1.9, [1, 2]), (2.1, [1, 2, 5])])
async def test_steps_that_all_take_long_are_not_slow(
    guard: GrammarGuard,
    engine: IgnoringEngine,
    monkeypatch: pytest.MonkeyPatch,
    slower: float,
    checked: list[int],
) -> None:
    """The fifth one takes longer than the others."""
    steps = [0.3] * 4 + [0.3 * slower] + [0.3] * 3
    assert await checked_masks(guard, engine, monkeypatch, steps) == checked


async def test_steps_are_usual_also_where_some_chunks_arrive_together(
    guard: GrammarGuard, engine: IgnoringEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = [0.3, 0.3, 0.001] * 33 + [0.3]
    assert await checked_masks(guard, engine, monkeypatch, steps) == [1, 2, 34, 66, 98]


async def test_an_answer_that_has_ended_is_not_failed_for_what_could_not_follow(
    guard: GrammarGuard, engine: IgnoringEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(grammar_guard, "_STEP_SECONDS", 0.0)
    engine.tokens, engine.finish_reason = (64,), "length"
    assert await sampled_ids(guard, f'start: "a" s\n{MUCH}') == [64]


async def test_tokens_that_come_at_once_with_forbidden_ones_show_the_grammars_fault(
    guard: GrammarGuard, engine: IgnoringEngine
) -> None:
    engine.tokens, engine.at_once = (64, RETURN), 2
    chunks = guard.generate(ask(f'start: "a" s\n{NOTHING}'))
    assert (await anext(chunks)).token_ids == (64,)
    with pytest.raises(DeadEnd):
        await anext(chunks)


@pytest.mark.parametrize(
    ("is_slow", "on_loop"), [(True, [True, False, False]), (False, [True] * 3)]
)
async def test_the_masks_after_a_slow_one_are_computed_on_threads(
    guard: GrammarGuard,
    engine: IgnoringEngine,
    monkeypatch: pytest.MonkeyPatch,
    is_slow: bool,
    on_loop: list[bool],
) -> None:
    loop, threads = threading.current_thread(), []

    def check(mask: TokenMask, scratch: NDArray[np.int32]) -> None:
        threads.append(threading.current_thread() is loop)

    if is_slow:
        monkeypatch.setattr(grammar_guard, "_QUICK_SECONDS", -1.0)
    monkeypatch.setattr(grammar_guard, "_CHECK_EVERY", 1)
    monkeypatch.setattr(TokenMask, "check", check)
    engine.tokens = (64, 65, C)
    await sampled_ids(guard, 'start: "a" "b" "c" "d"')
    assert threads == on_loop


async def test_a_token_that_exceeds_the_limits_is_the_grammars_fault(
    guard: GrammarGuard, engine: IgnoringEngine
) -> None:
    engine.tokens, engine.error = (), GenerationFailed("error")
    with pytest.raises(InvalidGrammar, match="too complex"):
        await sampled_ids(guard, WIDE)


async def test_a_generation_that_fails_under_a_good_grammar_is_the_engines_fault(
    guard: GrammarGuard, engine: IgnoringEngine
) -> None:
    engine.tokens, engine.error = (64,), GenerationFailed("error")
    with pytest.raises(GenerationFailed):
        await sampled_ids(guard, 'start: "a" "b"')


async def test_a_grammar_that_one_answer_exhausted_can_be_used_by_others(
    guard: GrammarGuard, engine: IgnoringEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(grammars, "LIMITS", LLParserLimits(max_lexer_states=100))
    grammar = 'start: "a" A\nA: /[a-e]*[aeiou][a-e]{24}[0-9]/'
    engine.tokens = (64, *random.Random(1).choices(range(64, 69), k=60))
    with pytest.raises(InvalidGrammar, match="too complex"):
        await sampled_ids(guard, grammar)
    engine.tokens = LETTERS
    assert await sampled_ids(guard, grammar) == [*LETTERS]


async def test_a_grammar_that_does_not_compile_reaches_no_engine(
    guard: GrammarGuard, engine: IgnoringEngine
) -> None:
    with pytest.raises(InvalidGrammar):
        await sampled_ids(guard, "start: nonsense(")
    assert engine.asked == 0


async def test_an_engine_without_masks_answers_for_itself(
    engine: IgnoringEngine, mask_tokenizer: LLTokenizer
) -> None:
    engine.info = replace(INFO, features=FEATURES - {"grammar"})
    guard = GrammarGuard(engine, lambda: mask_tokenizer)
    await guard.start()
    assert await sampled_ids(guard, 'start: "c"') == [*LETTERS]
    await guard.stop()


async def test_all_else_is_the_engines(guard: GrammarGuard, engine: IgnoringEngine) -> None:
    assert guard.info == INFO
    assert engine.started
    with pytest.raises(BackendFailed, match="checked"):
        await guard.check()
    await guard.stop()
    assert engine.stopped


async def test_stopping_ends_the_requests_whose_grammars_are_compiled(
    guard: GrammarGuard, engine: IgnoringEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiling, proceed = threading.Event(), threading.Event()
    compile_one = grammars._compile

    def hold(tokenizer: LLTokenizer, grammar: str, vocab_size: int) -> Compilation:
        compiling.set()
        assert proceed.wait(30)
        return compile_one(tokenizer, grammar, vocab_size)

    monkeypatch.setattr(grammars, "_compile", hold)
    waiting = asyncio.create_task(sampled_ids(guard, 'start: "a" "b"'))
    await asyncio.to_thread(compiling.wait, 30)
    await guard.stop()
    proceed.set()
    with pytest.raises(BackendFailed, match="stopped"):
        await waiting
    assert engine.asked == 0
