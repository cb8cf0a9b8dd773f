"""Reads raw prompts: one or several, as text or token ids.

Source: https://platform.openai.com/docs/api-reference/completions/create#completions-create-prompt
"""

from typing import Any

from harmony.tokenizer import encode_within
from harmony.vocab import VOCAB_SIZE, longest_token
from server.errors import ContextLengthExceeded
from server.schemas.base import MAX_CHOICES
from server.schemas.fields import invalid


def read_prompts(
    value: Any, context_length: int, *, control_tokens: bool = False
) -> list[tuple[int, ...]]:
    """The token ids of each prompt. Long text takes seconds: call it off the event loop.

    control_tokens: whether the name of a control token, such as `<|start|>`, is encoded as that
    token rather than as text.

    Raises InvalidRequest for a value that is not a prompt or has no tokens, and
    ContextLengthExceeded for text that certainly has more than `context_length` tokens. Prompts
    that pass may be too long, too.
    """

    def read(prompt: Any, where: str) -> tuple[int, ...]:
        if isinstance(prompt, str):
            _refuse_too_long(prompt, context_length, where)
            ids = tuple(encode_within(prompt, context_length, control=control_tokens))
        else:
            ids = read_ids(prompt, where)
        if not ids:
            raise invalid(where, "a prompt has at least one token")
        return ids

    if isinstance(value, str) or _is_ids(value):
        return [read(value, "prompt")]
    if not isinstance(value, list) or not value:
        raise invalid("prompt", "expected a string, an array of token ids, or an array of these")
    if len(value) > MAX_CHOICES:
        raise invalid("prompt", f"expected at most {MAX_CHOICES} prompts")
    return [read(each, f"prompt.{index}") for index, each in enumerate(value)]


def read_ids(value: Any, param: str) -> tuple[int, ...]:
    """An array of token ids, which may be empty. Raises InvalidRequest for any other value."""
    if not isinstance(value, list):
        raise invalid(param, "expected an array of token ids", "invalid_type")
    for index, token in enumerate(value):
        if type(token) is not int or not 0 <= token < VOCAB_SIZE:
            raise invalid(f"{param}.{index}", f"expected a token id from 0 to {VOCAB_SIZE - 1}")
    return tuple(value)


def _is_ids(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and type(value[0]) is int


def _refuse_too_long(text: str, context_length: int, param: str) -> None:
    if len(text) > context_length * longest_token():
        raise ContextLengthExceeded(
            f"the prompt has {len(text)} characters, which is more than any text that fits the "
            f"context of {context_length} tokens",
            param=param,
        )
