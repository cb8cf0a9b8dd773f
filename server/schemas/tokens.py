"""The requests of `POST /tokenize` and `POST /detokenize`."""

from typing import Any

from server.schemas.base import Label, WireModel


class Tokenize(WireModel):
    """The body of `POST /tokenize`.

    control_tokens: whether the name of a control token, such as `<|start|>`, is encoded as that
    token rather than as text.
    """

    prompt: str
    model: Label | None = None
    control_tokens: bool | None = None
    return_token_strs: bool | None = None


class Detokenize(WireModel):
    """The body of `POST /detokenize`. tokens: an array of token ids."""

    tokens: Any
    model: Label | None = None
