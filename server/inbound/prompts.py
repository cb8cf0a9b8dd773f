"""Raw prompts: text or token ids, one or several.

Source: https://platform.openai.com/docs/api-reference/completions/create#completions-create-prompt
"""

from typing import Any

from harmony.tokenizer import encode_within
from harmony.vocab import VOCAB_SIZE, longest_token
from server.errors import ContextLengthExceeded
from server.schemas.base import MAX_CHOICES
from server.schemas.fields import invalid


def read_prompts(
    value: Any, context_length: int, param: str = "prompt", *, control_tokens: bool = False
) -> list[tuple[int, ...]]:
    """Each prompt's ids. Raises InvalidRequest for what is none, or has no token.

    Long ones take seconds: call it off the event loop. Raises ContextLengthExceeded for text that
    has more than `context_length` tokens however it is split; shorter ones may be too long too.
    control_tokens: text that spells a control token means it; without, it is only ever text.
    """

    def read(one: Any, where: str) -> tuple[int, ...]:
        if isinstance(one, str):
            _refuse_hopeless(one, context_length, where)
            ids = tuple(encode_within(one, context_length, control=control_tokens))
        else:
            ids = read_ids(one, where)
        if not ids:
            raise invalid(where, "a prompt has at least one token")
        return ids

    if isinstance(value, str) or _is_ids(value):
        return [read(value, param)]
    if not isinstance(value, list) or not value:
        raise invalid(param, "expected a string, an array of token ids, or an array of these")
    if len(value) > MAX_CHOICES:
        raise invalid(param, f"expected at most {MAX_CHOICES} prompts")
    return [read(each, f"{param}.{index}") for index, each in enumerate(value)]


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


def _refuse_hopeless(text: str, context_length: int, param: str) -> None:
    if len(text) > context_length * longest_token():
        raise ContextLengthExceeded(
            f"The prompt has {len(text)} characters, which is more than any text that fits the "
            f"context of {context_length} tokens.",
            param=param,
        )
