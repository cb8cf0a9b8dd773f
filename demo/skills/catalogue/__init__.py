"""Everyday functions and records as people declare them, read from `demo/data`.

`TRAINING` and `TRAINING_RECORDS` are for training, `UNSEEN` and `UNSEEN_RECORDS` for evaluation
alone.
"""

from importlib import resources

from demo.skills.catalogue.kinds import Kind, parse

_UNSEEN = "unseen.txt"


def _read(folder: str) -> tuple[tuple[Kind, ...], tuple[Kind, ...]]:
    """The kinds of a folder: of the file for evaluation, and of all others."""
    files = resources.files("demo").joinpath("data", folder)
    texts = {file.name: file.read_text("utf-8") for file in files.iterdir()}
    training = [kind for name in sorted(texts) if name != _UNSEEN for kind in parse(texts[name])]
    return tuple(parse(texts[_UNSEEN])), tuple(training)


UNSEEN, TRAINING = _read("kinds")
UNSEEN_RECORDS, TRAINING_RECORDS = _read("records")
