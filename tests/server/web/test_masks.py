from itertools import count

import pytest
from llguidance import LLParserLimits

from harmony.tokenizer import encode, encode_with_control
from harmony.vocab import VOCAB_SIZE
from server.web import masks
from server.web.masks import GrammarError, Permitted, permitted

YES = encode("yes")[0]
NO = encode("no")[0]
GRAMMAR = f'%llguidance {{}}\nstart: (<[{YES}]> | <[{NO}]>) <[{NO}]> "x" /(.|\\n)*/'


def test_forced_and_restricted_tokens_have_few_permitted_ones() -> None:
    ids = [YES, NO, *encode("x"), *encode(" and more")]
    found = permitted(GRAMMAR, ids)
    assert found.refused is None
    assert found.counts[:2] == (2, 1)
    assert 1 < found.counts[2] < found.counts[3] <= VOCAB_SIZE
    assert len(found.counts) == len(ids)


def test_the_token_that_is_forbidden_ends_the_counts() -> None:
    assert permitted(GRAMMAR, [YES, YES, YES]) == Permitted((2, 1), 1)


def test_the_end_of_the_grammar_ends_the_counts() -> None:
    assert permitted(f"start: <[{YES}]>", [YES, NO]) == Permitted((1,))


def test_a_sampling_is_followed_for_a_limited_time() -> None:
    clock = count(0, masks.SECONDS / 2)
    found = permitted("start: /(.|\\n)*/", encode_with_control("a b c d e"), lambda: next(clock))
    assert len(found.counts) == 2


def test_a_grammar_that_is_too_complex_ends_the_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    few = LLParserLimits(step_max_items=1, step_lexer_fuel=1, verbose_errors=False)
    monkeypatch.setattr(masks, "LIMITS", few)
    assert permitted("start: /(a|b)*c/", encode("abc")) == Permitted(())


def test_a_grammar_that_does_not_compile_is_named() -> None:
    with pytest.raises(GrammarError):
        permitted("start: nothing", [YES])
