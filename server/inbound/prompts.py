"""Raw prompts: text or token ids, one or several.

Source: https://platform.openai.com/docs/api-reference/completions/create#completions-create-prompt
"""

from typing import Any

from harmony.tokenizer import encode, encode_with_control
from harmony.vocab import VOCAB_SIZE
from server.inbound.fields import invalid


def read_prompts(
    value: Any, param: str = "prompt", *, control_tokens: bool = False
) -> list[tuple[int, ...]]:
    """Each prompt's ids. Raises InvalidRequest for what is none, or has no token.

    control_tokens: text that spells a control token means it; without, it is only ever text.
    """
    if isinstance(value, str) or _is_ids(value):
        return [_ids(value, param, control_tokens=control_tokens)]
    if not isinstance(value, list) or not value:
        raise invalid(param, "expected a string, an array of token ids, or an array of these")
    return [
        _ids(each, f"{param}.{index}", control_tokens=control_tokens)
        for index, each in enumerate(value)
    ]


def read_ids(value: Any, param: str) -> tuple[int, ...]:
    """Token ids, perhaps none. Raises InvalidRequest for what is no array of ids."""
    if not isinstance(value, list):
        raise invalid(param, "expected an array of token ids", "invalid_type")
    for index, token in enumerate(value):
        if type(token) is not int or not 0 <= token < VOCAB_SIZE:
            raise invalid(f"{param}.{index}", f"expected a token id from 0 to {VOCAB_SIZE - 1}")
    return tuple(value)


def _is_ids(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and type(value[0]) is int


def _ids(value: Any, param: str, *, control_tokens: bool) -> tuple[int, ...]:
    if isinstance(value, str):
        ids = tuple(encode_with_control(value) if control_tokens else encode(value))
    else:
        ids = read_ids(value, param)
    if not ids:
        raise invalid(param, "a prompt has at least one token")
    return ids
