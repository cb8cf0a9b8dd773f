"""Sentences that people would say, put together from the parts in `clauses.txt`, for training.

There are more of them than a model can remember, so it has to learn where such a sentence ends in
a request: `they sang songs around the fire` is one value, not three.
"""

import re
from collections.abc import Callable, Mapping
from functools import cache

from demo.skills.case import Draw
from demo.skills.catalogue import spans
from demo.skills.catalogue.files import blocks, read
from demo.skills.phrases import capital

_STATEMENTS = (
    "{subject} {did}",
    "{subject} {did} {place}",
    "{subject} {did} {time}",
    "{subject} {did} {place} {time}",
    "{subject} {did} {place} {tail}",
    "{subject} {did_to} {object}",
    "{subject} {did_to} {object} {place}",
    "{subject} {did_to} {object} {time}",
    "{subject} {did_to} {object} {tail}",
    "{subject} {did_to} {object} {place} {time}",
    "{subject} {did_to} the {word} {place}",
    "{subject} {did_to} my {word}",
    "the {word} {did} {place}",
    "the {word} {did_to} {object}",
    "{time} {subject} {did}",
    "{is}",
    "{is} {time}",
    "{is} {tail}",
    "{object}",
    "{object} {place}",
)
_CAPITAL = 0.2


def statement(draw: Draw) -> str:
    """A sentence without its full stop, or a thing and where it is."""
    return _made(draw, draw.pick(_STATEMENTS))


def question(draw: Draw) -> str:
    """A question without its mark."""
    return _made(draw, draw.pick(("{ask}", "{ask}", "{ask} {time}")))


def command(draw: Draw) -> str:
    """What somebody should do."""
    return _made(draw, draw.pick(("{command}", "{command}", "{command} {time}")))


MADE: Mapping[str, Callable[[Draw], str]] = {
    "sentence": statement,
    "message": statement,
    "note": lambda draw: draw.pick((statement, command))(draw),
    "question": question,
    "task": command,
}
"""The types of values that are made here, and what makes them."""


@cache
def parts() -> dict[str, tuple[str, ...]]:
    """The parts of each section of `clauses.txt`."""
    return {
        head.removesuffix(":"): tuple(part.strip() for line in lines for part in line.split("|"))
        for head, *lines in blocks(read("clauses.txt"))
    }


def _made(draw: Draw, form: str) -> str:
    def part(match: re.Match[str]) -> str:
        return spans.word(draw) if match[1] == "word" else draw.pick(parts()[match[1]])

    made = re.sub(r"\{(\w+)\}", part, form)
    return capital(made) if draw.chance(_CAPITAL) else made
