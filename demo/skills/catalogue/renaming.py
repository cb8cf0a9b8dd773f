"""Names and choices that a declaration changes for training, so that they are read, not known.

An application calls its functions and parameters as it likes. A model that has met few names
writes the nearest one that it knows; one that meets a new name in every case copies it.
"""

import re
from functools import cache

from demo.skills import catalogue
from demo.skills.case import Draw
from demo.skills.catalogue import related
from demo.skills.catalogue.kinds import Kind, Parameter
from demo.skills.words import Split, aligned, nouns, spelt, spelt_alone

_RENAMED = 0.4
_CHOSEN = 0.3
_RELATED = 0.15
_SPELT = 0.4


def function_name(draw: Draw, name: str) -> tuple[str, bool]:
    """A function's name, and whether it still says what the function does.

    Held-out names stay as they are.
    """
    if draw.split is Split.HELD_OUT or not draw.chance(_RENAMED):
        return name, True
    while True:
        changed, tells = _renamed(draw, _parts(name))
        if (aligned(changed) or spelt_alone(changed)) and changed not in _unseen():
            return changed, tells


def parameter_name(draw: Draw, name: str) -> tuple[str, bool]:
    """As `function_name`, for a parameter; at times with another word of like meaning."""
    if draw.split is Split.TRAIN and draw.chance(_RELATED):
        return _related(draw, name), True
    return function_name(draw, name) if draw.chance(0.6) else (name, True)


def choices(draw: Draw, kind: Kind, parameter: Parameter) -> tuple[tuple[str, str], ...]:
    """The values of an enum and how they are said: at times others, where no request implies one.

    Of one letter or more, and as many as before.
    """
    fixed = any(
        key == parameter.name
        for request in kind.requests
        for key, *_ in (*request.fixed, *request.given)
    )
    if fixed or draw.split is Split.HELD_OUT or not draw.chance(_CHOSEN):
        return parameter.choices
    pool = spelt(draw.split)[0] if draw.chance(_SPELT) else nouns(draw.split)
    drawn = [word.lower() for word in draw.rng.sample(pool, len(parameter.choices))]
    if len(set(drawn)) < len(drawn):
        return parameter.choices
    return tuple((value, value) for value in drawn)


def _related(draw: Draw, name: str) -> str:
    """The name with another word of like meaning, if one of its words has such."""
    parts = _parts(name)
    at = draw.rng.randrange(len(parts))
    words = [word for word in related.related(parts[at]) if word in _tokens()]
    if not words:
        return name
    changed = "_".join([*parts[:at], draw.pick(words), *parts[at + 1 :]])
    return changed if aligned(changed) else name


@cache
def _unseen() -> frozenset[str]:
    """The names of the evaluation's functions."""
    return frozenset(name for kind in catalogue.FUNCTIONS[Split.HELD_OUT] for name in kind.names)


@cache
def _tokens() -> frozenset[str]:
    return frozenset(nouns(Split.TRAIN))


def _parts(name: str) -> list[str]:
    return re.sub(r"(?<=[a-z])([A-Z])", r"_\1", name).lower().split("_")


def _renamed(draw: Draw, parts: list[str]) -> tuple[str, bool]:
    if draw.chance(0.4):
        changed = _related(draw, "_".join(parts))
        return changed, changed == "_".join(parts)
    noun = draw.pick(nouns(draw.split))
    roll = draw.rng.random()
    if roll < 0.3:
        first = draw.pick(spelt(draw.split)[0]).lower() if draw.chance(_SPELT) else noun
        return "_".join([first, *parts]), True
    if roll < 0.5:
        return "_".join([*parts, noun]), True
    if roll < 0.75 and len(parts) > 1:
        at = draw.rng.randrange(len(parts))
        return "_".join([*parts[:at], noun, *parts[at + 1 :]]), False
    return f"{noun}_{draw.pick(nouns(draw.split))}" if draw.chance(0.5) else noun, False
