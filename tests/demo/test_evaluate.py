"""Scoring: what counts as valid and as right, and that a perfect model gets full marks."""

from collections.abc import Sequence

import pytest

from demo import evaluate
from demo.scoring import SampledTurn, agrees, expected, fits, parse
from demo.skills import SKILLS, draw_case
from demo.skills.words import Split
from demo.strange import practical, strange
from demo.transcript import between, prompt, sampled
from harmony import vocab
from harmony.tokenizer import encode_with_control


class Perfect:
    """A decoder that knows every case: each prompt's continuation by the case it belongs to."""

    def __init__(self, cases: Sequence) -> None:
        self.known: dict[tuple[int, ...], list[int]] = {}
        for case in cases:
            ids = prompt(case)
            for turn in case.turns:
                self.known[tuple(ids)] = sampled(turn)
                ids = [*ids, *sampled(turn), *between(turn)]

    def greedy(self, prompts: Sequence[list[int]], most: int) -> list[list[int]]:
        del most
        return [self.known.get(tuple(ids), [vocab.RETURN]) for ids in prompts]


def test_perfect_model_is_all_right() -> None:
    cases = [draw_case(evaluate.SEED, i, Split.HELD_OUT, s) for s in SKILLS for i in range(3)]
    plays = evaluate.play(Perfect(cases), cases)
    assert all(play.right for play in plays)


def test_play_ends_at_the_first_wrong_turn() -> None:
    case = draw_case(evaluate.SEED, 0, Split.HELD_OUT, "chain")
    (play,) = evaluate.play(Perfect([]), [case])
    assert play.outputs == [None]
    assert not play.right


def test_report_names_every_skill() -> None:
    cases = [draw_case(evaluate.SEED, i, Split.HELD_OUT, s) for s in SKILLS for i in range(2)]
    lines: list[str] = []
    evaluate.report(Perfect(cases), 2, lines.append)
    assert {line.split()[0] for line in lines} >= set(SKILLS)
    assert next(line for line in lines if line.startswith("chain")).endswith("100.0%")


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
            SampledTurn("", None, "f", "{}"),
        ),
        ("<|channel|>final<|message|>b", None),
        ("<|channel|>final<|message|>b<|end|>", None),
        ("<|channel|>final<|message|>b<|channel|>c<|return|>", None),
        ("<|channel|>commentary<|message|>b<|call|>", None),
    ],
)
def test_only_whole_turns_are_valid(text: str, turn: SampledTurn | None) -> None:
    assert parse(encode_with_control(text)) == turn


def test_arguments_are_compared_as_values() -> None:
    target = SampledTurn("", None, "f", '{"a":1,"b":"x"}')
    assert agrees(SampledTurn("z", None, "f", '{"b": "x", "a": 1}'), target)
    assert not agrees(SampledTurn("", None, "g", '{"a":1,"b":"x"}'), target)
    assert not agrees(SampledTurn("", None, "f", '{"a":2,"b":"x"}'), target)
    assert not agrees(SampledTurn("", None, "f", '{"a":'), target)
    assert not agrees(None, target)


def test_expected_turn_is_what_its_ids_parse_to() -> None:
    for index in range(60):
        for turn in draw_case(2, index, Split.TRAIN).turns:
            assert parse(sampled(turn)) == expected(turn)


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


def test_strange_and_practical_prompts_are_fixed_by_their_seed() -> None:
    assert strange(1, 40) == strange(1, 40) != strange(2, 40)
    assert practical(1, 24) == practical(1, 24)
    assert all(p.name in [tool.name for tool in p.tools] for p in practical(1, 24))
