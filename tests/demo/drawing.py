"""What the tests of skills draw their cases from."""

from random import Random

from demo.skills.case import Draw
from demo.skills.words import Split
from harmony.messages import Effort


def drawn(index: int, split: Split = Split.TRAIN, effort: Effort = Effort.LOW) -> Draw:
    """The same random numbers for the same index."""
    return Draw(Random(f"drawn/{index}"), split, effort)
