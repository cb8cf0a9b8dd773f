"""The requests of `POST /tokenize` and `POST /detokenize`."""

from typing import Annotated, Any

from server.schemas.base import Label, WireModel
from server.schemas.descriptions import Described


class Tokenize(WireModel):
    """The body of `POST /tokenize`."""

    prompt: str
    """The text."""
    model: Label | None = None
    """A served name. By default the first one."""
    control_tokens: bool | None = None
    """True: text that spells a control token means it. Without, it is only text."""
    return_token_strs: bool | None = None
    """True: the answer has each token's text."""
    return_token_bytes: bool | None = None
    """True: the answer has each token's bytes, as hexadecimal digits."""


class Detokenize(WireModel):
    """The body of `POST /detokenize`."""

    tokens: Annotated[Any, Described(list[int])]
    """Token ids."""
    return_token_bytes: bool | None = None
    """True: the answer has each token's bytes, as hexadecimal digits."""
    model: Label | None = None
    """A served name. By default the first one."""
