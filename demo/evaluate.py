"""Measure the demo model: `python -m demo.evaluate`. Greedy, unconstrained, on unseen cases.

Cases come from a seed of their own and from words that training never uses; a case of several
turns continues with the sampled output of the model. Prints the table of docs/demo.md.
"""

import argparse
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import torch

from demo import strange, transcript, weights
from demo.decode import Decoder
from demo.model import Shape
from demo.package import packaged
from demo.scoring import SampledTurn, agrees, expected, fits, parse, same_json
from demo.skills import SKILLS, draw_case
from demo.skills.case import Case, Draw, developer, system, user
from demo.skills.words import Split
from demo.train import restore
from harmony.messages import Conversation, Effort
from harmony.render import render
from harmony.tokenizer import decode, encode

SEED = 1_000_003
BATCH = 64
LONGEST_TURN = 400


@dataclass(slots=True)
class Play:
    """A case in progress: the ids so far, and the parsed and raw output of each turn so far."""

    case: Case
    ids: list[int]
    outputs: list[SampledTurn | None] = field(default_factory=list)
    raw: list[list[int]] = field(default_factory=list)

    @property
    def right(self) -> bool:
        """Whether the output of every turn is the expected one."""
        targets = [expected(turn) for turn in self.case.turns]
        return len(self.outputs) == len(targets) and all(map(agrees, self.outputs, targets))


def play(decoder: Decoder, cases: Iterable[Case]) -> list[Play]:
    """Play all turns of all cases; a case ends at the first wrong turn."""
    plays = [Play(case, transcript.prompt(case)) for case in cases]
    going = list(plays)
    while going:
        lengths = [len(transcript.sampled(p.case.turns[len(p.outputs)])) for p in going]
        outputs = sample(decoder, [p.ids for p in going], lengths)
        for one, raw in zip(going, outputs, strict=True):
            one.outputs.append(parse(raw))
            one.raw.append(raw)
            turn = one.case.turns[len(one.outputs) - 1]
            one.ids = [*one.ids, *raw, *transcript.between(turn)]
        going = [
            p
            for p in going
            if len(p.outputs) < len(p.case.turns)
            and agrees(p.outputs[-1], expected(p.case.turns[len(p.outputs) - 1]))
        ]
    return plays


def sample(
    decoder: Decoder, prompts: Sequence[list[int]], lengths: Sequence[int] | None = None
) -> list[list[int]]:
    """One turn for each prompt, in batches whose turns have like `lengths`, as far as is known."""
    known = lengths or [len(prompt) for prompt in prompts]
    order = sorted(range(len(prompts)), key=known.__getitem__)
    outputs: list[list[int]] = [[] for _ in prompts]
    for start in range(0, len(order), BATCH):
        chosen = order[start : start + BATCH]
        for index, ids in zip(
            chosen, decoder.greedy([prompts[i] for i in chosen], LONGEST_TURN), strict=True
        ):
            outputs[index] = ids
    return outputs


def share(truths: Iterable[bool]) -> float:
    """How many are true, of all."""
    listed = list(truths)
    return sum(listed) / max(1, len(listed))


def skills(decoder: Decoder, count: int, only: Sequence[str]) -> dict[str, list[Play]]:
    """Each skill's cases, played."""
    cases = [draw_case(SEED, i, Split.HELD_OUT, skill) for skill in only for i in range(count)]
    plays = play(decoder, cases)
    return {skill: plays[i * count : (i + 1) * count] for i, skill in enumerate(only)}


def calls(plays: Sequence[Play]) -> dict[str, float]:
    """How often a first turn calls the right tool, and how often with the right arguments."""
    firsts = [(p.outputs[0], expected(p.case.turns[0])) for p in plays]
    return {
        "right tool of 1 to 5": share(
            s is not None and s.function == w.function for s, w in firsts
        ),
        "right arguments": share(
            s is not None and s.function == w.function and same_json(s.arguments, w.arguments)
            for s, w in firsts
        ),
    }


def unlike_training(decoder: Decoder, count: int) -> list[SampledTurn | None]:
    """The output for requests of kinds that are not in the training."""
    draw = Draw(Random(SEED), Split.HELD_OUT, Effort.MEDIUM)
    prompts = [
        render(Conversation((system(draw), user(text)))) for text in strange.strange(SEED, count)
    ]
    return [parse(ids) for ids in sample(decoder, prompts)]


def practical(decoder: Decoder, count: int) -> dict[str, float]:
    """Tools and requests as people write them, and as compatibility tests have them."""
    draw = Draw(Random(SEED), Split.HELD_OUT, Effort.MEDIUM)
    asked = strange.practical(SEED, count)
    prompts = [
        render(Conversation((system(draw), *developer(None, p.tools), user(p.request))))
        for p in asked
    ]
    outputs = [parse(ids) for ids in sample(decoder, prompts)]
    schemas = [{t.name: t.parameters or {} for t in p.tools}[p.name] for p in asked]
    valid = [
        s is not None and s.function == p.name and fits(schema, s.arguments)
        for s, p, schema in zip(outputs, asked, schemas, strict=True)
    ]
    correct = [
        v and s is not None and _holds(s.arguments or "", p.values)
        for v, s, p in zip(valid, outputs, asked, strict=True)
    ]
    return {
        "practical tools: right tool, valid": share(valid),
        "and the right values": share(correct),
    }


def _holds(arguments: str, values: Sequence[object]) -> bool:
    return all(str(value).lower() in arguments.lower() for value in values)


def efforts(decoder: Decoder, count: int) -> float:
    """How often low, medium and high reasoning on one request differ by at least 2x each."""
    names = [name for name in SKILLS if name != "chain"]
    lengths: list[list[int]] = []
    for effort in Effort:
        cases = [
            draw_case(SEED, i, Split.HELD_OUT, names[i % len(names)], effort) for i in range(count)
        ]
        expected_lengths = [len(transcript.sampled(case.turns[0])) for case in cases]
        outputs = sample(decoder, [transcript.prompt(case) for case in cases], expected_lengths)
        lengths.append([_thought_length(ids) for ids in outputs])
    return share(
        low > 0 and medium >= 2 * low and high >= 2 * medium
        for low, medium, high in zip(*lengths, strict=True)
    )


def _thought_length(ids: list[int]) -> int:
    turn = parse(ids)
    return 0 if turn is None else len(encode(turn.thought))


def report(decoder: Decoder, count: int, say: Callable[[str], object]) -> None:
    """Measure everything and print a line for each number."""
    played = skills(decoder, count, tuple(SKILLS))
    turns = [turn for plays in played.values() for p in plays for turn in p.outputs]
    others = unlike_training(decoder, count)
    valid = share(turn is not None for turn in turns + others)
    say(f"{'valid harmony that ends by itself':42}{valid:7.1%}")
    say(f"{'  over requests unlike training':42}{share(t is not None for t in others):7.1%}")
    for skill, plays in played.items():
        say(f"{skill:42}{share(p.right for p in plays):7.1%}")
    lines = calls(played["call"]) | {"effort, 2x each": efforts(decoder, count)}
    for name, value in (lines | practical(decoder, count)).items():
        say(f"{name:42}{value:7.1%}")


def from_training(path: Path, *, packed: bool) -> Decoder:
    """The decoder for a training state, `packed` as it would be shipped or not."""
    model = restore(0, path).model
    state, known = model.state_dict(), model.known
    if packed:
        state, known = weights.unpack(weights.pack(state, known))
    return Decoder(*weights.build(state, known, Shape()))


def from_package() -> Decoder:
    """The decoder for the packaged weights."""
    return Decoder(*weights.build(*weights.unpack(packaged()), Shape()))


def main() -> None:
    """The command line: see the module's first line."""
    parser = argparse.ArgumentParser(prog="python -m demo.evaluate", description=__doc__)
    parser.add_argument("--count", type=int, default=200, help="cases for each skill")
    parser.add_argument("--state", type=Path, help="a training state instead of the package")
    parser.add_argument("--show", metavar="SKILL", help="show this skill's mistakes only")
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    decoder = from_training(options.state, packed=True) if options.state else from_package()
    if options.show:
        show(decoder, options.show, options.count)
    else:
        report(decoder, options.count, lambda line: sys.stdout.write(line + "\n"))


def show(decoder: Decoder, skill: str, count: int) -> None:
    """Print the cases that a skill got wrong: the request, the expected and the sampled turn."""
    plays = skills(decoder, count, [skill])[skill]
    for one in plays:
        if not one.right:
            at = len(one.outputs) - 1
            asked = [str(m.content) for m in one.case.history if m.author.role == "user"][-1]
            target = decode(transcript.sampled(one.case.turns[at]))
            got = decode(one.raw[at])
            sys.stdout.write(f"request:  {asked}\nexpected: {target}\nsampled:  {got}\n\n")
    sys.stdout.write(f"{skill}: {share(p.right for p in plays):.1%}\n")


if __name__ == "__main__":
    main()
