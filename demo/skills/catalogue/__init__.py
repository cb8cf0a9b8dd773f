"""Everyday functions and records as people declare them, read from `demo/data`."""

from collections.abc import Mapping
from itertools import chain

from demo.skills.catalogue.files import read_folder
from demo.skills.catalogue.kinds import Kind, parse
from demo.skills.words import Split

_UNSEEN = "unseen.txt"
_POPULAR = ("popular.txt", "common.txt", "pasted.txt")


def _read(folder: str) -> dict[str, tuple[Kind, ...]]:
    """The kinds of each file of a folder, by the file's name."""
    return {name: tuple(parse(text)) for name, text in read_folder(folder).items()}


def _by_split(read: dict[str, tuple[Kind, ...]]) -> Mapping[Split, tuple[Kind, ...]]:
    trained = (kinds for name, kinds in read.items() if name != _UNSEEN)
    return {Split.TRAIN: tuple(chain(*trained)), Split.HELD_OUT: read[_UNSEEN]}


_FUNCTIONS = _read("kinds")

FUNCTIONS = _by_split(_FUNCTIONS)
"""The kinds of functions that cases of a split may use."""

RECORDS = _by_split(_read("records"))
"""The kinds of records that people wrote and that cases of a split may use."""

POPULAR = frozenset(kind.names[0] for name in _POPULAR for kind in _FUNCTIONS[name])
"""The first names of those kinds for training that people try first."""
