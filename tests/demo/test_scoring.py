"""Scoring: what counts as valid and as right."""

import json

import pytest

from demo.scoring import (
    SampledTurn,
    agrees,
    expected,
    fits,
    parse,
    same_code,
    same_json,
    same_search,
)
from demo.skills import draw_case
from demo.skills.words import Split
from demo.transcript import sampled
from harmony.tokenizer import encode_with_control

PAGE = (
    "[0] Stores (https://example.org/stores)\n**viewing lines [0 - 2] of 2**\n\n"
    "L0: # Stores\nL1: The option --store takes a URL of a PostgreSQL server.\nL2: "
)


@pytest.mark.parametrize(
    ("text", "turn"),
    [
        (
            "<|channel|>analysis<|message|>a<|end|><|start|>assistant<|channel|>final<|message|>b"
            "<|return|>",
            SampledTurn("a", "b", None, None),
        ),
        (
            "<|channel|>commentary to=functions.f <|constrain|>json<|message|>{}<|call|>",
            SampledTurn("", None, "functions.f", "{}"),
        ),
        (
            "<|channel|>analysis<|message|>a<|end|><|start|>assistant"
            "<|channel|>analysis to=python code<|message|>1 + 2<|call|>",
            SampledTurn("a", None, "python", "1 + 2"),
        ),
        (
            "<|channel|>analysis to=browser.open code<|message|>{}<|call|>",
            SampledTurn("", None, "browser.open", "{}"),
        ),
        ("<|channel|>analysis to=browser.close code<|message|>{}<|call|>", None),
        ("<|channel|>analysis to=python code<|message|>1<|return|>", None),
        ("<|channel|>final<|message|>b", None),
        ("<|channel|>final<|message|>b<|end|>", None),
        ("<|channel|>final<|message|>b<|channel|>c<|return|>", None),
        ("<|channel|>commentary<|message|>b<|call|>", None),
    ],
)
def test_only_whole_turns_are_valid(text: str, turn: SampledTurn | None) -> None:
    assert parse(encode_with_control(text)) == turn


def test_arguments_are_compared_as_values() -> None:
    target = SampledTurn("", None, "functions.f", '{"a":1,"b":"x"}')
    assert agrees(SampledTurn("z", None, "functions.f", '{"b": "x", "a": 1}'), target)
    assert not agrees(SampledTurn("", None, "functions.g", '{"a":1,"b":"x"}'), target)
    assert not agrees(SampledTurn("", None, "functions.f", '{"a":2,"b":"x"}'), target)
    assert not agrees(SampledTurn("", None, "functions.f", '{"a":'), target)
    assert not agrees(None, target)


def test_expected_turn_is_what_its_ids_parse_to() -> None:
    for index in range(60):
        for turn in draw_case(2, index, Split.TRAIN).turns:
            assert parse(sampled(turn)) == expected(turn)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("1234*5678", "1234 * 5678", True),
        ("x = 2\nx", "x=2\nx", True),
        ("5678 * 1234", "print(1234 * 5678)", True),
        ("-(2 ** 3) % 5", "2", True),
        ("1234 * 5679", "1234 * 5678", False),
        ("x * 2", "2 * x", False),
        ("max([1, 2])", "print(max([1, 2]))", True),
        ("max([1, 2])", "print(max([1, 3]))", False),
        ("23 / 100 * 47", "47 * 23 / 100", True),
        ("(10 ** 12) ** 64", "2.5", False),
        ("1 / 0", "1 / 0 + 0", False),
        ("9 ** 9 ** 9", "9 ** 9 ** 9 + 0", False),
        ("1 +", "1", False),
        ("-" * 9000 + "1", "1", False),
        ("a" + ".b" * 5000, "a", False),
    ],
)
def test_code_is_right_by_its_text_or_its_value(one: str, other: str, same: bool) -> None:
    assert same_code(one, other) is same
    left, right = (SampledTurn("", None, "python", code) for code in (one, other))
    assert agrees(left, right) is same


@pytest.mark.parametrize(
    ("query", "same"),
    [("PostgreSQL store", True), ("store", True), ("postgresql port", True), ("port", False)],
)
def test_searches_are_the_same_when_half_of_their_words_are(query: str, same: bool) -> None:
    target = '{"query":"postgresql store","topn":3}'
    assert same_search(json.dumps({"query": query}), target) is same
    assert not same_search('{"query":', target)


@pytest.mark.parametrize(
    ("answer", "right"),
    [
        ("It takes a URL of a PostgreSQL server 【0†L1】.", True),
        ("The option takes a URL of a PostgreSQL server 【0†L0-L1】.", True),
        ("It takes a URL of a PostgreSQL server 【0†L0】.", False),
        ("It takes a URL of a PostgreSQL server 【1†L1】.", False),
        ("It takes a URL of a PostgreSQL server.", False),
        ("The option 【0†L1】.", False),
    ],
)
def test_an_answer_may_cite_any_line_that_supports_it(answer: str, right: bool) -> None:
    target = SampledTurn("", "takes a URL of a PostgreSQL server 【0†L1】.", None, None)
    assert agrees(SampledTurn("", answer, None, None), target, [PAGE]) is right


@pytest.mark.parametrize(
    ("arguments", "valid"),
    [
        ('{"a":"x"}', True),
        ('{"a":"x","n":1.5,"e":"p"}', True),
        ("{}", False),
        ('{"a":1}', False),
        ('{"a":"x","n":true}', False),
        ('{"a":"x","e":"r"}', False),
        ('{"a":"x","z":1}', False),
        ("[]", False),
        ("{", False),
    ],
)
def test_arguments_fit_their_schema(arguments: str, valid: bool) -> None:
    schema = {
        "properties": {
            "a": {"type": "string"},
            "n": {"type": "number"},
            "e": {"type": "string", "enum": ["p", "q"]},
        },
        "required": ["a"],
    }
    assert fits(schema, arguments) is valid


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ('{"a":[{"b":3}]}', '{"a":[{"b":3.0}]}', True),
        ('{"a":[{"b":1}]}', '{"a":[{"b":true}]}', False),
        ('{"a":false}', '{"a":0}', False),
        ("[1]", "[1,2]", False),
        ('{"a":1}', '{"b":1}', False),
        ('{"a":1}', None, False),
        (None, None, True),
        ("{", "{", False),
    ],
)
def test_values_are_equal_as_in_json(one: str | None, other: str | None, same: bool) -> None:
    assert same_json(one, other) is same
