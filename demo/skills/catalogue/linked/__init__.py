"""Kinds of functions, made up for one case, whose values hang together: for training alone.

A list of columns and the one to sort by, two currencies of which one is the source, numbers with
their labels. What belongs to which parameter shows in small words alone, in any order.
"""

from demo.skills.case import Draw
from demo.skills.catalogue.kinds import Kind
from demo.skills.catalogue.linked.money import money
from demo.skills.catalogue.linked.plots import plot
from demo.skills.catalogue.linked.queries import query
from demo.skills.catalogue.linked.roles import roles
from demo.skills.catalogue.linked.translations import translation

__all__ = ["linked"]

_MAKERS = (query, query, money, plot, plot, roles, translation, translation)


def linked(draw: Draw) -> Kind:
    """A kind of its own."""
    return draw.pick(_MAKERS)(draw)
