import json
import random

import numpy as np
import pytest
from llguidance import LLInterpreter, LLMatcher, LLTokenizer, TokenizerWrapper
from llguidance.numpy import allocate_token_bitmask, fill_next_token_bitmask
from llguidance.tiktoken import lltokenizer_from_encoding

from harmony.mask_tokenizer import _mask_tokenizer, mask_tokenizer
from harmony.tokenizer import encode, encoding
from harmony.vocab import ENDOFTEXT, SPECIAL_TOKENS, VOCAB_SIZE, ranks

TEXTS = ("Hello", '{"key": 12}\n', "\u4f60\u597d\r\n\n", "<|end|>", " " * 70)


@pytest.fixture(scope="module")
def reference() -> LLTokenizer:
    """What llguidance itself makes of the encoding."""
    return lltokenizer_from_encoding(encoding(ranks()), n_vocab=VOCAB_SIZE, eos_token=ENDOFTEXT)


def test_each_token_is_that_of_the_encoding(reference: LLTokenizer) -> None:
    tokenizer = mask_tokenizer()
    assert tokenizer.vocab_size == reference.vocab_size == VOCAB_SIZE
    assert tokenizer.eos_token == reference.eos_token
    for token in range(VOCAB_SIZE):
        assert tokenizer.dbg_tokens([token]) == reference.dbg_tokens([token])
    for token in SPECIAL_TOKENS.values():
        assert tokenizer.is_special_token(token)


@pytest.mark.parametrize("text", TEXTS)
def test_text_becomes_the_tokens_of_the_encoder(text: str) -> None:
    assert mask_tokenizer().is_canonical
    assert mask_tokenizer().tokenize_str(text) == encode(text)


def test_the_list_of_tokens_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    wrappers: list[TokenizerWrapper] = []

    def wrap(vocabulary: object) -> TokenizerWrapper:
        wrappers.append(TokenizerWrapper(vocabulary))
        return wrappers[0]

    monkeypatch.setattr("harmony.mask_tokenizer.TokenizerWrapper", wrap)
    assert _mask_tokenizer.__wrapped__().vocab_size == VOCAB_SIZE
    assert not wrappers[0].tokens


def schema(text: dict[str, object]) -> str:
    """The grammar of objects with a text and a boolean."""
    properties = {"first_name": {"type": "string", **text}, "is_open": {"type": "boolean"}}
    whole = {
        "type": "object",
        "properties": properties,
        "required": [*properties],
        "additionalProperties": False,
    }
    return LLMatcher.grammar_from_json_schema(json.dumps(whole))


GRAMMARS = {
    "any text": schema({}),
    "short text": schema({"maxLength": 12}),
    "long text": schema({"maxLength": 60}),
    "pattern": schema({"pattern": "^[a-z ]*$"}),
    "spaces": r"start: /[ \n]{1,20}/ /[^\n]*/",
    "lines": r"start: /(.|\n)*/",
}


@pytest.mark.parametrize("grammar", GRAMMARS.values(), ids=GRAMMARS)
def test_masks_and_forced_tokens_are_those_of_the_encoding(
    reference: LLTokenizer, grammar: str
) -> None:
    matchers = [LLMatcher(tokenizer, grammar) for tokenizer in (mask_tokenizer(), reference)]
    choice = random.Random(0)
    for _ in range(40):
        if matchers[0].is_stopped():
            break
        masks = []
        for matcher in matchers:
            mask = allocate_token_bitmask(1, VOCAB_SIZE)
            fill_next_token_bitmask(matcher, mask)
            masks.append(mask)
        ours, expected = masks
        assert np.array_equal(ours, expected)
        forced = [matcher.compute_ff_tokens() for matcher in matchers]
        assert forced[0] == forced[1]
        bits = np.unpackbits(masks[0].view(np.uint8).ravel(), bitorder="little")
        token = forced[0][0] if forced[0] else int(choice.choice(np.flatnonzero(bits)))
        for matcher in matchers:
            matcher.consume_token(token)


@pytest.mark.parametrize("bounds", [{}, {"maxLength": 60}, {"maxLength": 1000}])
def test_few_tokens_are_tried_in_a_text_whether_or_not_it_is_bounded(
    bounds: dict[str, object],
) -> None:
    """The tree of all tokens has 400,000 nodes. A mask takes as long as its walk through them."""
    interpreter = LLInterpreter(
        mask_tokenizer(), schema(bounds), enable_backtrack=False, enable_ff_tokens=False
    )
    interpreter.start_without_prompt()
    for token in encode('{"first_name": "'):
        interpreter.compute_mask()
        interpreter.commit_token(token)
    _, log = interpreter.compute_mask()
    (step,) = json.loads(log)["progress"]
    assert 0 < step["stats"]["trie_nodes_walked"] < 10_000
