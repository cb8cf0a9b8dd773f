"""Records of what one party does to another: the verb alone tells who is who.

"Anna hired Ben", "Ben was hired by Anna", "it was Anna who hired Ben": the roles are the same.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache

from demo.skills.case import Draw
from demo.skills.catalogue.files import lines
from demo.skills.catalogue.kinds import Kind, Parameter, Request, parse_parameter
from demo.skills.composed.traits import Trait, subjects
from demo.skills.phrases import capital
from demo.skills.words import names

_MANY = 0.35
_THIRD = 0.6
_PLURALS = {"was": "were", "is": "are", "has": "have"}
_NOUNS = ("event", "act", "case", "incident", "fact", "entry", "deal", "story", "affair")
_AFTER = (
    "The rest is history.",
    "That is all.",
    "Nobody knew.",
    "It was in the paper.",
    "Imagine!",
)


@dataclass(frozen=True, slots=True)
class Relation:
    """A verb with its passive, the two parties, and perhaps a third one after a preposition."""

    verb: str
    passive: str
    parties: tuple[Parameter, Parameter]
    preposition: str = ""
    third: Parameter | None = None


@cache
def relations() -> tuple[Relation, ...]:
    """All relations, read from `demo/data/relations.txt`."""
    return tuple(
        _relation(*(part.strip() for part in line.split(" | "))) for line in lines("relations.txt")
    )


def _relation(
    verb: str, passive: str, first: str, second: str, preposition: str = "", third: str = ""
) -> Relation:
    parties = parse_parameter(first), parse_parameter(second)
    return Relation(verb, passive, parties, preposition, parse_parameter(third) if third else None)


def kind(draw: Draw, sentences: int) -> Kind:
    """A kind of record about one relation, with as many sentences that hold its values."""
    relation = _with_lists(draw, draw.pick(relations()))
    third = relation.third if draw.chance(_THIRD) else None
    around = subjects()["circumstance"].traits
    count = draw.pick((0, 1, 1, 2, 2, 3))
    taken = {name for party in (*relation.parties, third) if party for name in party.names}
    free = [trait for trait in around if not taken & set(trait.parameter.names)]
    traits = [trait.drawn(draw) for trait in draw.rng.sample(free, count)]
    parameters = [*relation.parties, *([third] if third else []), *(t.parameter for t in traits)]
    if draw.chance(0.5):
        draw.rng.shuffle(parameters)
    requests = [Request(_said(draw, relation, third, traits)) for _ in range(sentences)]
    noun = draw.pick(_NOUNS)
    called = (noun, f"{noun}_{draw.pick(('record', 'entry', 'data', 'facts'))}")
    about = (f"Who {relation.verb} whom", f"An {noun}", f"Data of the {noun}", "Who did what")
    return Kind(called, about, tuple(parameters), tuple(requests))


def _with_lists(draw: Draw, relation: Relation) -> Relation:
    """The relation, at times with several people at one of its ends."""
    first, second = relation.parties
    if _several(first) or _several(second):
        return relation
    if draw.chance(_MANY):
        second = replace(second, type=f"{second.type}[]")
    elif draw.chance(_MANY / 2):
        first = replace(first, type=f"{first.type}[]")
    return replace(relation, parties=(first, second))


def _said(draw: Draw, relation: Relation, third: Parameter | None, traits: Sequence[Trait]) -> str:
    order = list(traits)
    draw.rng.shuffle(order)
    around = [trait.adjunct(draw) for trait in order]
    where = f" {relation.preposition} {{third}}" if third else ""
    text = draw.pick(_STYLES)(draw, relation, where, around)
    for place, party in zip(("one", "other", "third"), (*relation.parties, third), strict=True):
        if party:
            text = text.replace(f"{{{place}}}", f"{{{party.name}}}")
    return f"{text} {draw.pick(_AFTER)}" if draw.chance(0.06) else text


def _several(party: Parameter) -> bool:
    return party.type.endswith("[]")


def _passive(relation: Relation) -> str:
    first, _, rest = relation.passive.partition(" ")
    plural = _PLURALS.get(first, first) if _several(relation.parties[1]) else first
    return f"{plural} {rest}"


def _active(draw: Draw, relation: Relation, where: str, around: Sequence[str]) -> str:
    core = f"{_decked(draw, relation, 0)} {relation.verb} {_decked(draw, relation, 1)}{where}"
    return _with_around(draw, core, around)


def _turned(draw: Draw, relation: Relation, where: str, around: Sequence[str]) -> str:
    core = f"{_decked(draw, relation, 1)} {_passive(relation)} {_decked(draw, relation, 0)}{where}"
    return _with_around(draw, core, around)


def _cleft(draw: Draw, relation: Relation, where: str, around: Sequence[str]) -> str:
    core = draw.pick(
        (
            f"it was {{one}} who {relation.verb} {{other}}{where}",
            f"it was {{other}} that {{one}} {relation.verb}{where}",
            f"nobody but {{one}} {relation.verb} {{other}}{where}",
            f"I heard that {{one}} {relation.verb} {{other}}{where}",
            f"the one who {relation.verb} {{other}}{where} is {{one}}",
            f"did you know that {{other}} {_passive(relation)} {{one}}{where}",
        )
    )
    return _with_around(draw, core, around)


def _asked(draw: Draw, relation: Relation, where: str, around: Sequence[str]) -> str:
    core = draw.pick(
        (
            f"who {relation.verb} {{other}}{where}? It was {{one}}",
            f"who {relation.verb} {{other}}{where}? {{one}} did",
            f"{{other}}{where}? That was {{one}}",
        )
    )
    return _with_around(draw, core, around)


def _noted(draw: Draw, relation: Relation, where: str, around: Sequence[str]) -> str:
    """A list of roles and values."""
    words = [draw.pick(party.names).replace("_", " ") for party in relation.parties]
    parts = [f"{words[0]}: {{one}}", f"{words[1]}: {{other}}", *around]
    if where and relation.third:
        parts.append(f"{draw.pick(relation.third.names).replace('_', ' ')}: {{third}}")
    draw.rng.shuffle(parts)
    return capital(draw.pick((", ", "; ", "\n", " - ")).join(parts))


def _owned(draw: Draw, relation: Relation, where: str, around: Sequence[str]) -> str:
    """One party by its role for the other: "the teacher of Ben is Anna"."""
    roles = [_roles(party) for party in relation.parties]
    end = draw.pick([end for end in (0, 1) if roles[end]] or [-1])
    if end < 0:
        return _active(draw, relation, where, around)
    role = draw.pick(roles[end])
    one, other = ("{one}", "{other}") if end == 0 else ("{other}", "{one}")
    forms: tuple[str, ...] = (
        f"the {role} of {other}{where} is {one}",
        f"{one} is the {role} of {other}{where}",
        f"{other} has {one} as {role}{where}",
        f"{other}'s {role}{where} was {one}",
        f"{one} was {other}'s {role}{where}",
        f"for {other} the {role}{where} is {one}",
        f"as {role} of {other}{where} we know {one}",
        f"{other}{where}. The {role} was {one}",
    )
    if _several(relation.parties[end]):
        several = role if role.endswith("s") else f"{role}s"
        forms = (
            f"the {several} of {other}{where} are {one}",
            f"{one} are the {several} of {other}{where}",
            f"{one} were {other}'s {several}{where}",
            f"{other} has several {several}{where}: {one}",
            f"{one}, all of them {several} of {other}{where}",
        )
    return _with_around(draw, draw.pick(forms), around)


def _roles(party: Parameter) -> list[str]:
    """The names of a party that are nouns."""
    return [
        name.replace("_", " ")
        for name in party.names
        if not re.search(r"ed$|_by$|^from$|^to$|_of$|ing$|ned$", name)
    ]


def _decked(draw: Draw, relation: Relation, end: int) -> str:
    """A party, at times with another one whom the record is not about."""
    party = relation.parties[end]
    name = "{one}" if end == 0 else "{other}"
    if party.type != "person" or not draw.chance(0.2):
        return name
    other = draw.pick(names(draw.split))
    noun = draw.pick(party.names).replace("_", " ")
    return draw.pick((f"{name} (not {other})", f"my friend {name}", f"{name}, not {other},",
                      f"the {noun} {name}", f"{name}, a relative of {other},"))  # fmt: skip


def _with_around(draw: Draw, core: str, around: Sequence[str]) -> str:
    """The circumstances before or behind what happened."""
    front = list(around[:1]) if around and draw.chance(0.3) else []
    behind = around[len(front) :]
    text = f"{front[0]}{draw.pick((' ', ', '))}{core}" if front else core
    between = draw.pick((" ", ", ", " "))
    text = between.join([text, *behind])
    return capital(text) + draw.pick((".", ".", ".", "", "!"))


_STYLES: tuple[Callable[[Draw, Relation, str, Sequence[str]], str], ...] = (
    _active,
    _active,
    _active,
    _turned,
    _turned,
    _cleft,
    _asked,
    _noted,
    _owned,
)
