"""The requests of the playground's own endpoints."""

from typing import Annotated, Any

from server.schemas.base import Labels, WireModel, at_most
from server.schemas.descriptions import Described

MAX_BLOCKS = 64
"""Blocks that one request may have rendered."""


class RenderBlocks(WireModel):
    """The body of `POST /playground/render`."""

    blocks: Annotated[list[str], at_most(MAX_BLOCKS)]
    """Blocks of Markdown."""


class ParseHarmony(WireModel):
    """The body of `POST /playground/parse`: either `text` or `tokens`."""

    text: str | None = None
    """Harmony text. Names of control tokens in it are control tokens."""
    tokens: Annotated[Any, Described(list[int] | None)] = None
    """Token ids."""
    tools: Labels | None = None
    """Recipients that the request declared, such as `functions.f`."""
    sampled: Annotated[Any, Described(list[list[int]] | None)] = None
    """The ranges of tokens that the model sampled, as pairs of a place and the place after the end.
    Without it, messages of the assistant are read as sampled."""


class CountPermitted(WireModel):
    """The body of `POST /playground/permitted`."""

    grammar: str
    """A grammar of llguidance."""
    tokens: Annotated[Any, Described(list[int])]
    """The tokens of one sampling."""
