"""The everyday functions by domain: `TRAINING` for training, `UNSEEN` for evaluation alone."""

from demo.skills.catalogue import (
    calendar,
    data,
    files,
    health,
    home,
    media,
    messages,
    money,
    places,
    shop,
    travel,
    unseen,
    work,
)
from demo.skills.catalogue.kinds import Kind

_DOMAINS = (
    home,
    travel,
    money,
    messages,
    calendar,
    shop,
    files,
    data,
    media,
    health,
    work,
    places,
)

TRAINING: tuple[Kind, ...] = tuple(kind for domain in _DOMAINS for kind in domain.KINDS)
UNSEEN: tuple[Kind, ...] = unseen.KINDS
