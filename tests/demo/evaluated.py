"""What the evaluation asks, so that what training asks can be kept apart from it."""

import re
from functools import cache

from demo import strange
from demo.skills import catalogue
from demo.skills.catalogue.kinds import PLACEHOLDER
from demo.skills.words import Split


def is_variant(request: str) -> bool:
    """Whether a request has four fifths of its words in common with one of the evaluation's."""
    mine = _words(request)
    return any(len(mine & w) >= 0.8 * len(mine | w) > 3.2 for w in _asked())


def is_asked(request: str) -> bool:
    """Whether a request has the same words as one of the evaluation's, three or more of them."""
    mine = _words(request)
    return len(mine) > 2 and mine in _asked()


@cache
def _asked() -> tuple[set[str], ...]:
    kinds = catalogue.FUNCTIONS[Split.HELD_OUT]
    asked = [request.text for made in kinds for request in made.requests]
    asked += [frame for _, frame, _ in strange._ASKED]
    return tuple(_words(text) for text in asked)


def _words(text: str) -> set[str]:
    return set(re.findall("[a-z']+", PLACEHOLDER.sub("_", text).lower()))
