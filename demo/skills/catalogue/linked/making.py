"""What the kinds have in common: how they are put together, names, lists that are said."""

from collections.abc import Callable, Sequence

from demo.skills.case import Draw
from demo.skills.catalogue import spans
from demo.skills.catalogue.kinds import Kind, Parameter, Request
from demo.skills.phrases import worded
from demo.skills.words import Split, nouns

_REQUESTS = 3
POLITE = "[||||please |can you |could you |I want you to |I need you to |now |then |kindly ]"


def kind_of(
    draw: Draw,
    verbs: str,
    things: Sequence[str],
    parameters: Sequence[Parameter],
    make: Callable[[], Request],
) -> Kind:
    """The kind with a name of a verb and a thing, and requests that `make` makes."""
    verb, thing = worded(draw, f"[{verbs}]"), draw.pick(things)
    name = f"{verb}_{thing}" if draw.chance(0.8) else f"{thing}_{verb}"
    about = f"{verb.capitalize()} {draw.pick(('', 'the ', 'a '))}{thing.replace('_', ' ')}"
    ordered = list(parameters)
    if draw.chance(0.25):
        draw.rng.shuffle(ordered)
    requests = tuple(make() for _ in range(_REQUESTS))
    return Kind((name,), (about,), tuple(ordered), requests)


def names_of(draw: Draw, *pools: str) -> list[str]:
    """A name out of each pool, all of them different."""
    while True:
        drawn = [draw.pick(pool.split("|")) for pool in pools]
        if len(set(drawn)) == len(drawn):
            return drawn


def thing_name(draw: Draw) -> str:
    """A word that a table or a plot may be called."""
    return draw.pick(nouns(Split.TRAIN)) if draw.chance(0.5) else spans.word(draw)


_AND = (", ", ", ", " and ", ", and ", ",", " & ", " / ", "; ", "\n- ")


def joined(draw: Draw, parts: Sequence[str]) -> str:
    """The parts as a list, in words or with marks."""
    between = draw.pick(_AND)
    if between in (", ", ", and ") and len(parts) > 1:
        last = draw.pick((" and ", ", and ", " & ", ", "))
        return ", ".join(parts[:-1]) + last + parts[-1]
    return between.join(parts)
