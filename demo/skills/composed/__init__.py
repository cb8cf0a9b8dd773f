"""Kinds of records that are put together by rules, for training alone: each of them is another one.

Texts of kinds that people wrote are few. Here the subject, the traits that are asked for, their
names and their order, and the sentence that says them are drawn anew, so that the model has to
read the schema and the sentence rather than know them.
"""

from demo.skills.case import Draw
from demo.skills.catalogue.kinds import Kind
from demo.skills.composed import described, related

__all__ = ["kind"]

_RELATED = 0.35


def kind(draw: Draw, sentences: int) -> Kind:
    """A kind of record, with as many sentences that hold its values."""
    make = related.kind if draw.chance(_RELATED) else described.kind
    return make(draw, sentences)
