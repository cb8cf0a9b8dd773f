"""The skills that the demo model is taught, as generators of cases.

`draw_case(seed, index, split)` is the whole interface: the same arguments give the same case.
"""

from collections.abc import Callable, Mapping, Sequence
from random import Random

from demo.skills import (
    browser,
    calls,
    chat,
    dialogue,
    drills,
    echo,
    everyday,
    instructions,
    python,
    recall,
    spelling,
    structured,
    sums,
    unlike,
)
from demo.skills.case import Case, Draw
from demo.skills.words import Split
from harmony.messages import Effort

Skill = Callable[[Draw], Case]

SKILLS: dict[str, tuple[int, Skill]] = {
    "chat": (3, chat.case),
    "echo": (5, echo.case),
    "recall": (5, recall.case),
    "call": (14, calls.single),
    "everyday": (60, everyday.case),
    "result": (3, calls.from_result),
    "chain": (26, calls.chain),
    "no_call": (10, calls.no_call),
    "structured": (40, structured.case),
    "dialogue": (20, dialogue.case),
    "python": (10, python.case),
    "browser": (22, browser.case),
    "sums": (5, sums.case),
    "instructions": (5, instructions.case),
    "unlike": (10, unlike.case),
}
"""Each skill's share of the training cases, and its generator."""

DRILLS = 0.35
"""How many of the training cases are conversations of many exchanges."""

_DRILLS: dict[Skill, float] = {
    drills.drill: 50,
    everyday.drill: 105,
    dialogue.drill: 28,
    python.drill: 9,
    browser.drill: 14,
    spelling.drill: 25,
}
_DRILL_OF: Mapping[str, Skill] = {
    "echo": drills.hearing,
    "recall": drills.remembering,
    "everyday": everyday.drill,
    "dialogue": dialogue.drill,
    "python": python.drill,
    "browser": browser.drill,
    "spelling": spelling.drill,
    "linked": everyday.linked_drill,
}
FOCUS = (*SKILLS, "spelling", "linked")
"""What a training can focus on: the skills, and what is practised in conversations alone."""

_EFFORTS: Mapping[Split, Mapping[Effort, float]] = {
    Split.TRAIN: {Effort.LOW: 40, Effort.MEDIUM: 40, Effort.HIGH: 20},
    Split.HELD_OUT: {Effort.LOW: 45, Effort.MEDIUM: 43, Effort.HIGH: 12},
}


def draw_case(
    seed: int,
    index: int,
    split: Split,
    skill: str | None = None,
    effort: Effort | None = None,
    focus: Sequence[str] = (),
) -> Case:
    """The case number `index` under `seed`; of one skill and effort, or of any and a drill.

    focus: which of `FOCUS` half of the cases are of, besides their usual shares, with drills of
    those that have any; what is named twice counts twice.
    """
    rng = Random(f"{seed}/{index}/{split}/{skill}")
    efforts = _EFFORTS[split]
    drawn = rng.choices(list(efforts), list(efforts.values()))[0]
    draw = Draw(rng, split, effort or drawn)
    chosen = draw.pick(focus) if focus and draw.chance(0.5) else None
    if chosen is not None and chosen not in SKILLS:
        return _DRILL_OF[chosen](draw)
    if skill is None and draw.chance(DRILLS):
        if chosen is None:
            return draw.weighted(_DRILLS)(draw)
        if drill := _DRILL_OF.get(chosen):
            return drill(draw)
    skill = skill or chosen
    shares = {name: share for name, (share, _) in SKILLS.items()}
    return SKILLS[skill or draw.weighted(shares)][1](draw)
