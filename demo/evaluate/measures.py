"""The measures: each gives lines of the table as soon as they are known."""

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from statistics import median
from typing import Any

import torch

from demo import strange, transcript
from demo.choices import choices
from demo.decode import Decoder
from demo.evaluate.play import LONGEST_TURN, SEED, Play, cases, greedy, in_batches, play
from demo.evaluate.table import ARGUMENTS, CHOICE, EFFORT, ENDS, TOOL, VALID, Row, row
from demo.scoring import SampledTurn, expected, fits, parse
from demo.skills import SKILLS, draw_case
from demo.skills.words import Split
from harmony import vocab
from harmony.messages import Effort
from harmony.tokenizer import decode, encode

NAMES = (*SKILLS, "choice", "practical", "efforts", "ends")
"""Everything that can be measured here: the skills, and what is none."""


def measure(decoder: Decoder, count: int, unlike: int, only: Sequence[str]) -> Iterator[Row]:
    """The lines of the skills and other measures in `only`, with `count` cases each.

    unlike: how many prompts are sampled at temperature 1.
    """
    turns: list[SampledTurn | None] = []
    for skill in SKILLS:
        if skill in only:
            plays = play(decoder, cases(skill, count))
            turns += [turn for one in plays for turn in one.outputs]
            yield from skill_lines(skill, plays)
    if turns:
        yield row(VALID, [turn is not None for turn in turns])
    if "choice" in only:
        yield choice(decoder, count)
    if "practical" in only:
        yield from practical(decoder, count)
    if "efforts" in only:
        yield efforts(decoder, count)
    if "ends" in only and unlike:
        yield from ends(decoder, unlike)


def skill_lines(skill: str, plays: Sequence[Play]) -> Iterator[Row]:
    """The lines of one skill: whole cases, or the first calls where these are the skill."""
    firsts = [(one.outputs[0], expected(one.case.turns[0]), one.agreed[0]) for one in plays]
    tool = [one is not None and one.recipient == wanted.recipient for one, wanted, _ in firsts]
    if skill == "call":
        yield row(TOOL, tool)
        yield row(ARGUMENTS, [agreed for _, _, agreed in firsts])
    elif skill == "everyday":
        yield row("everyday: right tool", tool)
        yield row(skill, [agreed for _, _, agreed in firsts], "right tool and arguments")
    else:
        yield row(skill, [one.right for one in plays])


def choice(decoder: Decoder, count: int) -> Row:
    """How often the first token of a function's name is the right one's, of the declared ones.

    The turn up to the name is given, so that only the choice counts.
    """
    prompts: list[list[int]] = []
    begun: dict[tuple[int, ...], list[int]] = {}
    right: list[tuple[int, ...]] = []
    for case in choices(SEED, 2 * count, Split.HELD_OUT, "everyday"):
        if len(case.names) > 1 and len(prompts) < count:
            prompts.append(case.ids[: case.at + 1])
            names = [_begun(case.ids[start:stop]) for start, stop in case.names]
            begun[tuple(prompts[-1])] = [*chain(*names)]
            right.append(names[case.right])

    def proceed(chosen: list[list[int]]) -> list[list[int]]:
        best = decoder.among(chosen, [begun[tuple(ids)] for ids in chosen])
        return [[token] for token in best]

    outputs = in_batches(proceed, prompts)
    return row(CHOICE, [ids[0] in wanted for ids, wanted in zip(outputs, right, strict=True)])


def _begun(name: Sequence[int]) -> tuple[int, ...]:
    """The tokens that a name may begin with, after a space and elsewhere."""
    text = decode(name).strip()
    return encode(text)[0], encode(f" {text}")[0]


def practical(decoder: Decoder, count: int) -> Iterator[Row]:
    """Tools and requests as people write them, and as compatibility tests have them."""
    asked = strange.practical(SEED, count)
    outputs = [parse(ids) for ids in greedy(decoder, [strange.prompt_of(SEED, p) for p in asked])]
    valid = [
        turn is not None
        and turn.recipient == f"functions.{one.name}"
        and fits(one.schema, turn.arguments)
        for turn, one in zip(outputs, asked, strict=True)
    ]
    yield row("practical tools: right tool, valid", valid)
    yield row(
        "and the right values",
        [
            fine and turn is not None and _holds(json.loads(turn.arguments or ""), one.values)
            for fine, turn, one in zip(valid, outputs, asked, strict=True)
        ],
    )


def _holds(arguments: Mapping[str, Any], values: Mapping[str, Any]) -> bool:
    """Whether the arguments have the numbers, and contain the texts, of `values`."""
    return all(
        value.lower() in str(arguments.get(name)).lower()
        if isinstance(value, str)
        else arguments.get(name) == value
        for name, value in values.items()
    )


def efforts(decoder: Decoder, count: int) -> Row:
    """How often low, medium and high reasoning on one request differ by at least 2x each."""
    chosen = [name for name in SKILLS if name != "chain"]
    prompts: list[list[int]] = []
    lengths: list[int] = []
    for index in range(count):
        for effort in Effort:
            skill = chosen[index % len(chosen)]
            case = draw_case(SEED, index, Split.HELD_OUT, skill, effort)
            prompts.append(transcript.prompt(case))
            lengths.append(len(transcript.sampled(case.turns[0])))
    thoughts = [_thought_length(ids) for ids in greedy(decoder, prompts, lengths)]
    triples = zip(*[iter(thoughts)] * len(Effort), strict=True)
    right = [low > 0 and medium >= 2 * low and high >= 2 * medium for low, medium, high in triples]
    return row(EFFORT, right)


def _thought_length(ids: list[int]) -> int:
    turn = parse(ids)
    return 0 if turn is None else len(encode(turn.thought))


def ends(decoder: Decoder, count: int) -> Iterator[Row]:
    """Whether the model ends by itself, sampled as clients do that set nothing."""
    generator = torch.Generator().manual_seed(SEED)
    outputs = in_batches(
        lambda chosen: decoder.sample(chosen, LONGEST_TURN, generator),
        strange.mix(SEED, count),
    )
    parsed = [parse(ids) for ids in outputs]
    ended = [ids[-1] in vocab.STOP_TOKENS for ids in outputs]
    middle = median(map(len, outputs))
    yield row(ENDS, ended, f"within {LONGEST_TURN} tokens, median {middle:g}")
    yield row("valid harmony at temperature 1", [turn is not None for turn in parsed])
