"""What clients' grammars can never do: leave their place, or name a control token."""

import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from llguidance import LLMatcher

from harmony.grammar import (
    MAX_GRAMMAR_CHARACTERS,
    MAX_LITERAL_BYTES,
    Body,
    GrammarSpec,
    InvalidConstraint,
    LarkText,
    RegexText,
    SchemaJson,
    answer_grammar,
)
from harmony.tokenizer import encode
from harmony.vocab import FIRST_SPECIAL, RETURN
from tests.harmony.drawing import Mask


def written(grammar: str) -> str | None:
    """The grammar of an answer in a client's grammar, None where that is refused."""
    try:
        return answer_grammar(GrammarSpec(answer=LarkText(grammar)))
    except InvalidConstraint:
        return None


HIDDEN = "<[200007]>"
ESCAPES = {
    "DEL in JSON": 'start: %json {"type":"boolean","title":"\x7f"} ' + HIDDEN + ' "}"',
    "a quote in JSON": 'start: %json {"title":"\\""} ' + HIDDEN + ' "}"',
    "a slash in JSON": 'start: %json {"title":"/"} ' + HIDDEN + " /}/",
    "a comment in JSON": 'start: %json {"title":"#\x7f"} ' + HIDDEN,
    "a regex without end": "start: A\nA: /x",
    "a string without end": 'start: "x',
    "JSON without end": 'start: %json {"type":"object"',
    "JSON that is missing": "start: %json",
    "a quote in a token": 'start: <a"b> ' + HIDDEN + ' "',
    "an end in JSON": 'start: "a" %json {}} ' + HIDDEN,
    "an escape in a string": 'start: "\\x22" ' + HIDDEN + ' "',
    "a lone surrogate": 'start: "\ud800"',
    "an option glued": "%llguidance1\nstart: /a/",
    "another grammar glued": "start: %larkfoo",
}


@pytest.mark.parametrize("grammar", ESCAPES.values(), ids=ESCAPES)
def test_what_hides_from_one_lexer_is_refused(grammar: str) -> None:
    assert written(grammar) is None


HARMLESS = {
    "DEL in JSON": ('start: %json {"const":1,"title":"\x7f"} "b"', "1b"),
    "signs in JSON": ('start: %json {"const":"<a>@&~}"} "b"', '"<a>@&~}"b'),
    "signs in a regex": ('start: /[<>@&~"#}]+/ "b" // <a> }', "<@b"),
    "JSON at once": ('start: %json{"const":1} "a"\n', "1a"),
    "JSON on the next line": ('start: %json\n{"const":1} "a"', "1a"),
    "lines": ('start: "b"\r\n  | "a"i', "A"),
    "a repetition": ('start: "a" ~ 2 "b"~1 "c"{2}', "aabcc"),
    "a rule called lazy": ('start: lazy [lazy_one]\nlazy: "a"\nlazy_one: "b"', "ab"),
    "words": ('start: %regex {"substring_words":"one two"}', "one"),
}


@pytest.mark.parametrize(("grammar", "text"), HARMLESS.values(), ids=HARMLESS)
def test_what_only_looks_unsafe_is_usable(grammar: str, text: str) -> None:
    made = written(grammar)
    assert made is not None
    assert Mask(made).follow([*encode(text), RETURN]) is None


@pytest.mark.parametrize("attribute", ['stop=""', 'suffix=""', "suffix=/.*/", "lazy"])
def test_attributes_that_let_endoftext_end_the_text_are_refused(attribute: str) -> None:
    assert written(f'start: a "c"\na[{attribute}]: /[ab]*/') is None
    assert written(f'start: a "c"\na[ capture , {attribute} ]: /[ab]*/') is None


@pytest.mark.parametrize("quote", '"/')
def test_a_literal_without_end_is_refused_at_once(quote: str) -> None:
    # With quadratic work, this would take hours.
    assert written(quote + f"\\{quote}" * 200_000) is None


def test_a_very_long_grammar_is_not_read() -> None:
    with pytest.raises(InvalidConstraint, match="more than"):
        answer_grammar(GrammarSpec(answer=LarkText("a" * (MAX_GRAMMAR_CHARACTERS + 1))))


LONG = "a " * (MAX_LITERAL_BYTES // 2) + "b"


@pytest.mark.parametrize(
    "body",
    [
        LarkText(f'start: "a" | "{LONG}"'),
        LarkText(f"start: A\nA: /{LONG}[0-9]/"),
        RegexText(f"(x|{LONG})+"),
        SchemaJson({"const": LONG}),
        SchemaJson({"enum": ["a", {"b": [LONG]}]}),
        SchemaJson({"type": "object", "properties": {LONG: {"type": "null"}}}),
        SchemaJson({"const": "\u00e9" * (MAX_LITERAL_BYTES // 2)}),
        SchemaJson({"const": "\ud800" + LONG}),
    ],
)
def test_a_text_too_long_to_be_forced_is_refused(body: Body) -> None:
    with pytest.raises(InvalidConstraint, match="a text in it has more than 48,000 bytes"):
        answer_grammar(GrammarSpec(answer=body))


@pytest.mark.parametrize(
    "body",
    [
        LarkText(f'start: "{LONG[:-3]}"'),
        RegexText("|".join(f"w{number}" for number in range(MAX_LITERAL_BYTES // 4))),
        SchemaJson({"type": "string", "description": LONG, "pattern": "[ab]|" * 10_000 + "c"}),
        SchemaJson({"const": "\u00e9" * (MAX_LITERAL_BYTES // 2 - 1)}),
        SchemaJson({"enum": [f"value {number}" for number in range(MAX_LITERAL_BYTES // 4)]}),
    ],
)
def test_a_long_grammar_of_short_texts_is_accepted(body: Body) -> None:
    assert answer_grammar(GrammarSpec(answer=body))


def test_a_regex_is_text() -> None:
    with pytest.raises(InvalidConstraint, match="surrogates"):
        answer_grammar(GrammarSpec(answer=RegexText("\ud800")))


PIECES = st.sampled_from(
    [
        *('"', "/", "#", "//", "\\", "\x7f", "\r", "\n", " ", "{", "}", "[", "]", "(", ")", "|"),
        *(HIDDEN, "<|call|>", "@answer", "&", "~", "stop=", 'suffix=""', "lazy", ":", "i", "*"),
        *("%json", "%regex", "%lark {", "%llguidance", "%ignore", "\nb: ", "\nB: ", "b", "B"),
        *('"a"', "/a/", '{"type":"null"}', '{"title":"\x7f"}', '{"title":"/#"}', "true", "null"),
        *('"\\""', '"\\u0022"', "/\\//", '/"/', '"/"', "/[^a]*/", "(?-u:", "é", "\u2028", "\x00"),
    ]
)
TEXTS = st.lists(PIECES, max_size=10).map("".join)
GRAMMARS = st.builds('start: "a" {}\nb: "b" {}\nB: "c" {}'.format, TEXTS, TEXTS, TEXTS)
SCHEMAS = st.builds(
    'start: %json {{"type":"boolean","title":"{}"}} {}\nb: "b"\nB: "c"'.format, TEXTS, TEXTS
)


@settings(max_examples=300, suppress_health_check=[HealthCheck.filter_too_much])
@given(grammar=GRAMMARS | SCHEMAS, seed=st.integers(0, 9))
def test_no_grammar_of_a_client_allows_a_control_token(grammar: str, seed: int) -> None:
    made = written(grammar)
    if made is None or LLMatcher.validate_grammar(made):
        return
    mask, rng = Mask(made), random.Random(seed)
    for _ in range(20):
        mask.fill()
        control = [token for token in mask.allowed() if token >= FIRST_SPECIAL]
        assert control in ([], [RETURN])
        words = [token for token in mask.allowed() if token < FIRST_SPECIAL]
        if not words or not mask.matcher.consume_token(rng.choice(words)):
            return  # at the end, or at a limit of llguidance
