"""`POST /tokenize` and `/detokenize`: the requests."""

from typing import Any

from server.schemas.base import Label, WireModel


class Tokenize(WireModel):
    """control_tokens: text that spells a control token means it; without, it is only text."""

    prompt: str
    model: Label | None = None
    control_tokens: bool | None = None
    return_token_strs: bool | None = None


class Detokenize(WireModel):
    """tokens: an array of token ids."""

    tokens: Any
    model: Label | None = None
