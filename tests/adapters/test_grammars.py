import asyncio
import threading
from typing import Any

import numpy as np
import pytest
from llguidance import LLParserLimits, LLTokenizer

from adapters import grammars
from adapters.errors import BackendFailed, DeadEnd, InvalidGrammar, Overloaded
from adapters.grammars import Compilation, GrammarCompiler, TokenMask
from harmony.grammar import MAX_LITERAL_BYTES
from harmony.tokenizer import decode, encode
from harmony.vocab import CHANNEL, END, VOCAB_SIZE

YES_OR_NO = 'start: ("yes" | "no") <[200007]>'
TEXT = r"start: <[200005]> /(.|\n)*/ <[200007]>"


def step(*sampled: tuple[TokenMask, int]) -> None:
    """Go on, and find out what may come next."""
    for mask, token_id in sampled:
        mask.consume(token_id)
        if mask.is_open:
            mask.allowed()


async def test_a_compiled_grammar_has_its_first_mask(compiler: GrammarCompiler) -> None:
    mask = await compiler.compile(TEXT)
    assert mask.allowed().tolist() == [CHANNEL]
    assert mask.allows(CHANNEL)
    assert not mask.allows(END)


async def test_masks_follow_their_tokens(compiler: GrammarCompiler) -> None:
    text, answer = await compiler.compile(TEXT), await compiler.compile(YES_OR_NO)
    step((text, CHANNEL), (answer, encode("yes")[0]))
    assert answer.allowed().tolist() == [END]
    assert len(text.allowed()) > 150_000
    assert text.allows(END)
    step((answer, END))
    assert answer.complete
    assert not answer.is_open
    assert not answer.needs_computing
    assert not text.complete
    assert text.is_open


async def test_equal_grammars_are_compiled_once_and_advance_independently(
    compiler: GrammarCompiler, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = await compiler.compile(TEXT)
    monkeypatch.setattr(grammars, "_compile", lambda *_: pytest.fail("compiled again"))
    second = await compiler.compile(TEXT)
    step((first, CHANNEL))
    assert second.allowed().tolist() == [CHANNEL]
    assert (await compiler.compile(TEXT)).allowed().tolist() == [CHANNEL]


async def test_requests_for_the_same_grammar_wait_for_one_compilation(
    compiler: GrammarCompiler, monkeypatch: pytest.MonkeyPatch
) -> None:
    proceed = threading.Event()
    compiled: list[str] = []
    compile_one = grammars._compile

    def hold(tokenizer: LLTokenizer, grammar: str, vocab_size: int) -> Compilation:
        compiled.append(grammar)
        assert proceed.wait(30)
        return compile_one(tokenizer, grammar, vocab_size)

    monkeypatch.setattr(grammars, "_compile", hold)
    impatient, *patient = [asyncio.ensure_future(compiler.compile(TEXT)) for _ in range(4)]
    await asyncio.sleep(0)
    impatient.cancel()
    proceed.set()
    for mask in await asyncio.gather(*patient):
        assert mask.allows(CHANNEL)
    assert compiled == [TEXT]
    assert impatient.cancelled()


async def test_without_a_tokenizer_grammars_fail_with_the_reason() -> None:
    def no_vocabulary() -> LLTokenizer:
        raise OSError("no vocabulary")

    compiler = GrammarCompiler(no_vocabulary, VOCAB_SIZE)
    with pytest.raises(BackendFailed, match="no vocabulary"):
        await compiler.compile(TEXT)
    compiler.close()


async def test_closing_ends_what_waits(
    mask_tokenizer: LLTokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though a thread may still compile."""
    compiling, proceed, compiled = threading.Event(), threading.Event(), threading.Event()

    def hold(*_: object) -> None:
        compiling.set()
        assert proceed.wait(30)
        compiled.set()

    monkeypatch.setattr(grammars, "_compile", hold)
    compiler = GrammarCompiler(lambda: mask_tokenizer, VOCAB_SIZE)
    waiting = asyncio.ensure_future(compiler.compile(TEXT))
    await asyncio.to_thread(compiling.wait, 30)
    compiler.close()
    with pytest.raises(BackendFailed, match="stopped"):
        await waiting
    assert not compiled.is_set()
    proceed.set()


def counted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The grammars that are compiled from now on."""
    compiled: list[str] = []
    compile_one = grammars._compile

    def count(tokenizer: LLTokenizer, grammar: str, vocab_size: int) -> Compilation:
        compiled.append(grammar)
        return compile_one(tokenizer, grammar, vocab_size)

    monkeypatch.setattr(grammars, "_compile", count)
    return compiled


@pytest.mark.parametrize("limit", [("_MAX_CACHED_GRAMMARS", 2), ("_MAX_CACHED_CHARACTERS", 25)])
async def test_the_cache_of_grammars_is_limited(
    compiler: GrammarCompiler, monkeypatch: pytest.MonkeyPatch, limit: tuple[str, int]
) -> None:
    compiled = counted(monkeypatch)
    monkeypatch.setattr(grammars, *limit)
    for grammar in ("a", "b", "a", "c", "a", "b"):
        await compiler.compile(f'start: "{grammar}"')
    assert [grammar[8] for grammar in compiled] == ["a", "b", "c", "b"]


async def test_a_grammar_larger_than_the_cache_is_kept_as_the_only_one(
    compiler: GrammarCompiler, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled = counted(monkeypatch)
    monkeypatch.setattr(grammars, "_MAX_CACHED_CHARACTERS", 5)
    for _ in range(2):
        assert (await compiler.compile(TEXT)).allows(CHANNEL)
    assert compiled == [TEXT]


async def test_a_grammar_that_does_not_compile_is_refused_with_the_reason(
    compiler: GrammarCompiler,
) -> None:
    with pytest.raises(InvalidGrammar, match="unknown name"):
        await compiler.compile("start: nowhere")


async def test_a_grammar_is_not_blamed_for_a_busy_machine(
    compiler: GrammarCompiler, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = threading.Event()
    monkeypatch.setattr(grammars, "_COMPILE_SECONDS", 0.01)
    monkeypatch.setattr(grammars, "_compile", lambda *_: done.wait())
    try:
        with pytest.raises(Overloaded, match="too long"):
            await compiler.compile(TEXT)
    finally:
        done.set()


async def test_a_grammar_that_a_busy_machine_did_not_compile_is_compiled_later(
    compiler: GrammarCompiler, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = threading.Event()
    with monkeypatch.context() as busy:
        busy.setattr(grammars, "_COMPILE_SECONDS", 0.01)
        busy.setattr(grammars, "_compile", lambda *_: done.wait())
        try:
            with pytest.raises(Overloaded):
                await compiler.compile(TEXT)
        finally:
            done.set()
    assert (await compiler.compile(TEXT)).allows(CHANNEL)


async def test_a_grammar_is_not_blamed_for_those_that_compile_before_it(
    compiler: GrammarCompiler, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = threading.Event()
    await compiler.compile(TEXT)  # the tokenizer is there
    monkeypatch.setattr(grammars, "_COMPILE_SECONDS", 0.01)
    monkeypatch.setattr(grammars, "_compile", lambda *_: done.wait())
    others = [compiler.compile(f'start: "{number}"') for number in range(grammars._THREADS)]
    try:
        refused = await asyncio.gather(*others, return_exceptions=True)
        assert {type(error) for error in refused} == {Overloaded}
        with pytest.raises(Overloaded, match="at once"):
            await compiler.compile('start: "a"')
    finally:
        done.set()


async def test_the_event_loop_runs_while_a_grammar_compiles(
    compiler: GrammarCompiler, monkeypatch: pytest.MonkeyPatch
) -> None:
    proceed = threading.Event()
    compile_one = grammars._compile

    def wait_then_compile(tokenizer: LLTokenizer, grammar: str, vocab_size: int) -> Compilation:
        assert proceed.wait(30)
        return compile_one(tokenizer, grammar, vocab_size)

    monkeypatch.setattr(grammars, "_compile", wait_then_compile)
    waiting = asyncio.ensure_future(compiler.compile(TEXT))
    await asyncio.sleep(0)
    proceed.set()  # reached only if nothing above blocks
    assert (await waiting).allows(CHANNEL)


async def test_a_token_that_the_grammar_forbids_is_an_error_of_that_mask_alone(
    compiler: GrammarCompiler,
) -> None:
    good, bad = await compiler.compile(TEXT), await compiler.compile(TEXT)
    step((bad, END), (good, CHANNEL))
    assert isinstance(bad.error, BackendFailed)
    assert "grammar" in str(bad.error)
    assert not bad.complete
    assert good.error is None
    assert good.allows(END)


MUCH = 's: s s s | s s | /[a-z]/ | " " | ""'
"""So ambiguous that, without limits, a mask takes hundreds of milliseconds."""


async def test_a_grammar_too_complex_to_begin_with_is_refused(compiler: GrammarCompiler) -> None:
    with pytest.raises(InvalidGrammar, match="too complex") as refused:
        await compiler.compile(f"start: s\n{MUCH}")
    assert "\n" not in str(refused.value)


async def test_a_grammar_that_grows_too_complex_is_an_error_of_that_mask_alone(
    compiler: GrammarCompiler,
) -> None:
    bad = await compiler.compile(f"start: <[{CHANNEL}]> s\n{MUCH}")
    good = await compiler.compile(TEXT)
    step((bad, CHANNEL), (good, CHANNEL))
    assert isinstance(bad.error, InvalidGrammar)
    assert "too complex" in str(bad.error)
    assert not bad.complete
    assert good.error is None
    assert good.allows(END)


EVERY_COUNT = f"start: <[{CHANNEL}]> /[a-z]*[aeiou][a-z]{{24}}[0-9]/"
"""Its lexer needs a state for each set of places where a vowel was. Each text finds other ones."""


def walk(mask: TokenMask, seed: int, tokens: int = 40) -> None:
    """Go on with random tokens while the grammar can be followed."""
    rng = np.random.default_rng(seed)
    for _ in range(tokens):
        allowed = mask.allowed()
        if mask.error is None:
            mask.consume(int(rng.choice(allowed)))
        if not mask.is_open:
            return


async def test_a_grammar_whose_lexer_is_exhausted_can_be_used_again(
    compiler: GrammarCompiler, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(grammars, "LIMITS", LLParserLimits(max_lexer_states=2_000))
    first, second = await compiler.compile(EVERY_COUNT), await compiler.compile(EVERY_COUNT)
    walk(first, 1)
    assert isinstance(first.error, InvalidGrammar)
    step((second, CHANNEL))
    assert isinstance(second.error, InvalidGrammar)  # it shares the lexer
    third = await compiler.compile(EVERY_COUNT)
    step((third, CHANNEL))
    assert third.error is None


async def test_a_lexer_is_replaced_before_many_requests_exhaust_it(
    compiler: GrammarCompiler, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled = counted(monkeypatch)
    monkeypatch.setattr(grammars, "_MAX_MASKS", 2)
    for _ in range(5):
        assert (await compiler.compile(TEXT)).allows(CHANNEL)
    assert len(compiled) == 3


NOTHING = "s: s <[1]>"
"""Compiles, and allows nothing: before its token comes itself."""


@pytest.mark.parametrize("grammar", [f"start: s\n{NOTHING}", r"start: /[^\x00-\U0010FFFF]/"])
async def test_a_grammar_that_allows_nothing_is_a_dead_end(
    compiler: GrammarCompiler, grammar: str
) -> None:
    with pytest.raises(DeadEnd):
        await compiler.compile(grammar)


async def test_a_grammar_that_leads_to_nothing_is_a_dead_end(compiler: GrammarCompiler) -> None:
    mask = await compiler.compile(f"start: <[{CHANNEL}]> s\n{NOTHING}")
    step((mask, CHANNEL))
    assert isinstance(mask.error, DeadEnd)
    assert not mask.complete
    assert not mask.is_open


async def test_a_grammar_that_led_to_nothing_is_not_compiled_again(
    compiler: GrammarCompiler, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its lexer is as good as before."""
    compiled = counted(monkeypatch)
    for _ in range(2):
        step((await compiler.compile(f"start: <[{CHANNEL}]> s\n{NOTHING}"), CHANNEL))
    assert len(compiled) == 1


async def test_the_longest_text_of_a_grammar_can_be_forced(compiler: GrammarCompiler) -> None:
    text = "a " * (MAX_LITERAL_BYTES // 2)
    mask = await compiler.compile(f'start: ("x" | "y") "{text}" <[{END}]>')
    step((mask, encode("x")[0]))
    forced = mask.consume_forced(MAX_LITERAL_BYTES, {END})
    assert decode(list(forced)) == text
    assert mask.error is None


@pytest.mark.parametrize(
    ("words", "ids"), [([0b101, -(2**31)], [0, 2, 63]), ([0b101, 0, -(2**31)], [0, 2, 95])]
)
def test_bits_are_read_in_tokens_order(words: list[int], ids: list[int]) -> None:
    unused: Any = None
    mask = TokenMask(unused, np.array(words, np.int32))
    assert mask.allowed().tolist() == ids


async def test_several_tokens_are_consumed_up_to_the_first_that_is_forbidden(
    compiler: GrammarCompiler,
) -> None:
    mask, ended = await compiler.compile(YES_OR_NO), await compiler.compile(YES_OR_NO)
    (yes,) = encode("yes")
    assert mask.consume_allowed([yes, CHANNEL]) == 1
    assert (mask.is_open, mask.allowed().tolist()) == (True, [END])
    assert ended.consume_allowed([yes, END, CHANNEL]) == 2
    assert ended.complete


async def test_few_tokens_are_listed_and_many_are_not(compiler: GrammarCompiler) -> None:
    mask = await compiler.compile(TEXT)
    assert mask.few_ids is not None
    assert mask.few_ids.tolist() == [CHANNEL]
    step((mask, CHANNEL))
    assert mask.few_ids is None


async def test_a_mask_that_nobody_asked_for_ahead_is_found_out_when_it_is_needed(
    compiler: GrammarCompiler,
) -> None:
    mask = await compiler.compile(YES_OR_NO)
    mask.consume(encode("yes")[0])
    assert mask.few_ids is None
    assert mask.allows(END)
    assert not mask.allows(CHANNEL)
    assert mask.allowed().tolist() == [END]


async def test_a_grammar_that_grows_with_every_token_comes_to_its_limit(
    compiler: GrammarCompiler,
) -> None:
    """Though none of its tokens is refused: only lists of what may come have limits."""
    mask = await compiler.compile("start: s\ns: s s | /[a-z]/")
    (word,) = encode("hello")
    for _ in range(64):
        mask.consume(word)
        if mask.mask_is_due:
            mask.allowed()
        if not mask.is_open:
            break
    assert isinstance(mask.error, InvalidGrammar)


async def test_after_closing_nothing_is_compiled(compiler: GrammarCompiler) -> None:
    compiler.close()
    with pytest.raises(BackendFailed):
        await compiler.compile(TEXT)


async def test_closing_ends_its_threads(mask_tokenizer: LLTokenizer) -> None:
    before = set(threading.enumerate())
    compiler = GrammarCompiler(lambda: mask_tokenizer, VOCAB_SIZE)
    await compiler.compile(TEXT)
    threads = set(threading.enumerate()) - before
    assert threads
    compiler.close()
    for thread in threads:
        thread.join(30)
    assert not any(thread.is_alive() for thread in threads)
