"""Results of hosted calls as the model reads them."""

from harmony.messages import Author, Message, Role
from harmony.render import render_message
from harmony.tokenizer import decode, encode, encode_within
from server import threads
from server.tools.base import ToolCall

_FRAME = 32
"""More tokens than the header and the end of a result have, for names of usual length."""


async def render_result(call: ToolCall, text: str, room: int) -> tuple[Message, tuple[int, ...]]:
    """The message with the result of a call, and its ids.

    It repeats the call's channel, as the model was trained to read results. A text with more than
    half of `room` tokens is cut in the middle, so that the model can still answer.
    """

    def work() -> tuple[Message, tuple[int, ...]]:
        message = result_message(call, _within(text, max(room // 2 - _FRAME, _FRAME)))
        return message, tuple(render_message(message))

    return await threads.run(work, threads.size_of(text))


def result_message(call: ToolCall, text: str) -> Message:
    """The message with the result of a call."""
    return Message(Author(Role.TOOL, call.recipient), text, call.channel, "assistant")


def _within(text: str, most: int) -> str:
    """The text, or its beginning and its end if it has more than `most` tokens."""
    # A character has at most four tokens.
    if 4 * len(text) <= most or len(ids := encode_within(text, most)) <= most:
        return text
    beginning = decode(ids[: most // 2])
    # Few tokens have more than eight characters; where they do, less of the end remains.
    end = decode(encode(text[-8 * most :])[-most // 2 :])
    return f"{beginning}\n[The result is too long. Its middle is left out.]\n{end}"
