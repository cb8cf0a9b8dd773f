"""Preambles: text that the model writes for the user before it calls a tool.

Both APIs may send an assistant's message without its channel. The message is a preamble, in the
commentary channel, if a call comes after it in the same turn. Otherwise it is a final answer.
"""

from collections.abc import Callable, Sequence
from typing import TypeVar

_T = TypeVar("_T")


def before_calls(
    history: Sequence[_T], *, is_user: Callable[[_T], bool], is_call: Callable[[_T], bool]
) -> list[bool]:
    """For each entry, whether it has a call, or one comes before the next user message.

    is_call: whether an entry has a call, or the result of one.
    """
    flags: list[bool] = []
    has_call = False
    for entry in reversed(history):
        if is_user(entry):
            has_call = False
        elif is_call(entry):
            has_call = True
        flags.append(has_call)
    return flags[::-1]
