"""Everyday functions and records as people declare them, read from `demo/data`.

`TRAINING` and `TRAINING_RECORDS` are for training, `UNSEEN` and `UNSEEN_RECORDS` for evaluation
alone. `POPULAR` has the first names of those training kinds that people try first.
"""

from importlib import resources

from demo.skills.catalogue.kinds import Kind, parse

_UNSEEN = "unseen.txt"
_POPULAR = "popular.txt"


def _text(folder: str, file: str) -> str:
    return resources.files("demo").joinpath("data", folder, file).read_text("utf-8")


def _read(folder: str) -> tuple[tuple[Kind, ...], tuple[Kind, ...]]:
    """The kinds of a folder: of the file for evaluation, and of all others."""
    names = sorted(file.name for file in resources.files("demo").joinpath("data", folder).iterdir())
    read = {name: tuple(parse(_text(folder, name))) for name in names}
    unseen = read.pop(_UNSEEN)
    return unseen, tuple(kind for kinds in read.values() for kind in kinds)


UNSEEN, TRAINING = _read("kinds")
UNSEEN_RECORDS, TRAINING_RECORDS = _read("records")
POPULAR = frozenset(kind.names[0] for kind in parse(_text("kinds", _POPULAR)))
