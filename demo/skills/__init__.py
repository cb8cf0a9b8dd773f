"""The skills that the demo model is taught, as generators of cases.

`draw_case(seed, index, split)` is the whole interface: the same arguments give the same case.
"""

from collections.abc import Callable
from random import Random

from demo.skills import (
    browser,
    calls,
    chat,
    dialogue,
    drills,
    everyday,
    instructions,
    python,
    recall,
    structured,
    sums,
    unlike,
)
from demo.skills.case import Case, Draw
from demo.skills.words import Split
from harmony.messages import Effort

Skill = Callable[[Draw], Case]

SKILLS: dict[str, tuple[int, Skill]] = {
    "chat": (2, chat.case),
    "echo": (3, chat.echo),
    "recall": (3, recall.case),
    "call": (10, calls.single),
    "everyday": (40, everyday.case),
    "result": (2, calls.from_result),
    "chain": (14, calls.chain),
    "no_call": (6, calls.no_call),
    "structured": (18, structured.case),
    "dialogue": (12, dialogue.case),
    "python": (4, python.case),
    "browser": (18, browser.case),
    "sums": (3, sums.case),
    "instructions": (3, instructions.case),
    "unlike": (4, unlike.case),
}
"""Each skill's share of the training cases, and its generator."""

DRILLS = 0.55
"""How many of the training cases are conversations of many exchanges."""

_DRILLS: tuple[tuple[float, Skill], ...] = (
    (30, drills.drill),
    (100, everyday.drill),
    (24, dialogue.drill),
    (4, python.drill),
    (24, browser.drill),
)

_EFFORTS: tuple[tuple[Effort, float], ...] = (
    (Effort.LOW, 45),
    (Effort.MEDIUM, 43),
    (Effort.HIGH, 12),
)


def draw_case(
    seed: int, index: int, split: Split, skill: str | None = None, effort: Effort | None = None
) -> Case:
    """The case number `index` under `seed`; of one skill and effort, or of any and a drill."""
    rng = Random(f"{seed}/{index}/{split}/{skill}")
    efforts, weights = zip(*_EFFORTS, strict=True)
    drawn = rng.choices(efforts, weights)[0]
    draw = Draw(rng, split, effort or drawn)
    if skill is None and draw.chance(DRILLS):
        drill = rng.choices([make for _, make in _DRILLS], [share for share, _ in _DRILLS])[0]
        return drill(draw)
    shares = [share for share, _ in SKILLS.values()]
    return SKILLS[skill or rng.choices(list(SKILLS), shares)[0]][1](draw)
