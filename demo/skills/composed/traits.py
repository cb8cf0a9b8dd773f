"""What can be said of the subjects of composed records, read from `demo/data/traits.txt`."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

from demo.skills.case import Draw
from demo.skills.catalogue.files import blocks, read
from demo.skills.catalogue.kinds import Parameter, parse_parameter

_TRUTH = re.compile(r"\{([^{}|]+)\|([^{}]+)\}")


@dataclass(frozen=True, slots=True)
class Trait:
    """A parameter, and the words around its value: verb phrases, and what may follow a noun.

    spoken: the ways to say each choice of an enum.
    """

    parameter: Parameter
    verbs: tuple[str, ...]
    adjuncts: tuple[str, ...]
    spoken: tuple[tuple[str, tuple[str, ...]], ...] = ()

    def drawn(self, draw: Draw) -> "Trait":
        """The trait with its names in another order, and one way to say each choice."""
        names = draw.rng.sample(self.parameter.names, len(self.parameter.names))
        choices = tuple((value, draw.pick(ways)) for value, ways in self.spoken)
        parameter = replace(self.parameter, choices=choices)
        # The first name is how sentences refer to it, so that stays in front.
        kept = self.parameter.names[0]
        ordered = (kept, *(name for name in names if name != kept))
        return replace(self, parameter=replace(parameter, names=ordered))

    def verb(self, draw: Draw) -> str:
        """A verb phrase with a placeholder."""
        return self._placed(draw.pick(self.verbs))

    def adjunct(self, draw: Draw) -> str:
        """What may follow a noun, with a placeholder."""
        return self._placed(draw.pick(self.adjuncts))

    def note(self, draw: Draw) -> str:
        """A name and a placeholder for its value."""
        words = draw.pick(self.parameter.names).replace("_", " ")
        value = self._placed("{yes|no}" if self.parameter.type == "bool" else "{}")
        return draw.pick((f"{words} {value}", f"{words}: {value}", f"{words} = {value}"))

    def _placed(self, text: str) -> str:
        name = self.parameter.name
        return _TRUTH.sub(rf"{{{name}:\1|\2}}", text.replace("{}", f"{{{name}}}"))


@dataclass(frozen=True, slots=True)
class Subject:
    """What composed records are about: its name, nouns and pronouns for it, its traits."""

    label: str
    name: Parameter
    nouns: tuple[str, ...]
    pronouns: tuple[str, ...]
    traits: tuple[Trait, ...]


@cache
def subjects() -> Mapping[str, Subject]:
    """All subjects by their labels."""
    groups: list[list[list[str]]] = []
    for block in blocks(read("traits.txt")):
        if block[0].startswith("["):
            groups.append([])
        groups[-1].append(block)
    return {subject.label: subject for subject in (_subject(*group) for group in groups)}


def _subject(head: Sequence[str], *traits: Sequence[str]) -> Subject:
    first, nouns, pronouns = head
    label, names = first[1:].split("] ")
    return Subject(
        label,
        parse_parameter(names),
        tuple(nouns.split()[1:]),
        tuple(pronouns.split()[1:]),
        tuple(_trait(*block) for block in traits),
    )


def _trait(names: str, verbs: str, adjuncts: str) -> Trait:
    made = parse_parameter(names)
    spoken = tuple((value, tuple(said.split("+"))) for value, said in made.choices)
    return Trait(made, _ways("v", verbs), _ways("a", adjuncts), spoken)


def _ways(mark: str, line: str) -> tuple[str, ...]:
    if not line.startswith(f"{mark} "):
        raise ValueError(f"not a line of {mark}: {line}")
    return tuple(way.strip() for way in line[2:].split(" | "))
