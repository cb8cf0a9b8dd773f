"""Everyday functions and records as people declare them, read from `demo/data`.

`TRAINING` and `TRAINING_RECORDS` are for training, `UNSEEN` and `UNSEEN_RECORDS` for evaluation
alone. `POPULAR` has the first names of those training kinds that people try first.
"""

from demo.skills.catalogue.files import read_folder
from demo.skills.catalogue.kinds import Kind, parse

_UNSEEN = "unseen.txt"
_POPULAR = ("popular.txt", "common.txt", "pasted.txt")


def _read(folder: str) -> dict[str, tuple[Kind, ...]]:
    """The kinds of each file of a folder, by the file's name."""
    return {name: tuple(parse(text)) for name, text in read_folder(folder).items()}


def _for_training(read: dict[str, tuple[Kind, ...]]) -> tuple[Kind, ...]:
    return tuple(kind for name, kinds in read.items() if name != _UNSEEN for kind in kinds)


_KINDS, _RECORDS = _read("kinds"), _read("records")
UNSEEN, TRAINING = _KINDS[_UNSEEN], _for_training(_KINDS)
UNSEEN_RECORDS, TRAINING_RECORDS = _RECORDS[_UNSEEN], _for_training(_RECORDS)
POPULAR = frozenset(kind.names[0] for name in _POPULAR for kind in _KINDS[name])
