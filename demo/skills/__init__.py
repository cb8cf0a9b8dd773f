"""The skills that the demo model is taught, as generators of cases.

`draw_case(seed, index, split)` is the whole interface: the same arguments give the same case.
"""

from collections.abc import Callable
from random import Random

from demo.skills import calls, chat, drills, instructions, recall, structured, sums, unlike
from demo.skills.case import Case, Draw
from demo.skills.words import Split
from harmony.messages import Effort

Skill = Callable[[Draw], Case]

SKILLS: dict[str, tuple[int, Skill]] = {
    "chat": (9, chat.case),
    "echo": (3, chat.echo),
    "recall": (9, recall.case),
    "call": (22, calls.single),
    "result": (8, calls.from_result),
    "chain": (11, calls.chain),
    "no_call": (6, calls.no_call),
    "structured": (13, structured.case),
    "sums": (9, sums.case),
    "instructions": (7, instructions.case),
    "unlike": (5, unlike.case),
}
"""Each skill's share of the training cases, and its generator."""

DRILLS = 0.55
"""How many of the training cases are conversations of many exchanges."""

_EFFORTS: tuple[tuple[Effort, float], ...] = (
    (Effort.LOW, 35),
    (Effort.MEDIUM, 45),
    (Effort.HIGH, 20),
)


def draw_case(
    seed: int, index: int, split: Split, skill: str | None = None, effort: Effort | None = None
) -> Case:
    """The case number `index` under `seed`; of one skill and effort, or of any and a drill."""
    rng = Random(f"{seed}/{index}/{split}/{skill}")
    efforts, weights = zip(*_EFFORTS, strict=True)
    drawn = rng.choices(efforts, weights)[0]
    shares = [share for share, _ in SKILLS.values()]
    draw = Draw(rng, split, effort or drawn)
    if skill is None and draw.chance(DRILLS):
        return drills.drill(draw)
    return SKILLS[skill or rng.choices(list(SKILLS), shares)[0]][1](draw)
