"""The skills that the demo model is taught, as generators of cases.

`draw_case(seed, index, split)` is the whole interface: the same arguments give the same case.
"""

from collections.abc import Callable, Mapping
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

_DRILLS: dict[Skill, float] = {
    drills.drill: 30,
    everyday.drill: 100,
    dialogue.drill: 24,
    python.drill: 4,
    browser.drill: 24,
}
_DRILL_OF: Mapping[str, Skill] = {
    "everyday": everyday.drill,
    "dialogue": dialogue.drill,
    "python": python.drill,
    "browser": browser.drill,
}

_EFFORTS: tuple[tuple[Effort, float], ...] = (
    (Effort.LOW, 45),
    (Effort.MEDIUM, 43),
    (Effort.HIGH, 12),
)


def draw_case(
    seed: int,
    index: int,
    split: Split,
    skill: str | None = None,
    effort: Effort | None = None,
    focus: str | None = None,
) -> Case:
    """The case number `index` under `seed`; of one skill and effort, or of any and a drill.

    focus: a skill that half of the cases are of, drills among them, besides its usual share.
    """
    rng = Random(f"{seed}/{index}/{split}/{skill}")
    efforts, weights = zip(*_EFFORTS, strict=True)
    drawn = rng.choices(efforts, weights)[0]
    draw = Draw(rng, split, effort or drawn)
    in_focus = focus is not None and draw.chance(0.5)
    if skill is None and draw.chance(DRILLS):
        if not in_focus:
            return rng.choices(list(_DRILLS), list(_DRILLS.values()))[0](draw)
        if drill := _DRILL_OF.get(focus or ""):
            return drill(draw)
    if skill is None and in_focus:
        skill = focus
    shares = [share for share, _ in SKILLS.values()]
    return SKILLS[skill or rng.choices(list(SKILLS), shares)[0]][1](draw)
