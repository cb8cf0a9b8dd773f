"""Results of hosted calls, as long as the room for them permits."""

import pytest

from harmony.messages import Author, Channel, Message, Role
from harmony.render import render_message
from harmony.tokenizer import count
from server.generation.call_results import render_result
from server.tools.base import ToolCall

CALL = ToolCall("ci_1", "python", Channel.ANALYSIS, "print(1)")
LEFT_OUT = "\n[The result is too long. Its middle is left out.]\n"
WORD = " word"
"""One token, also where it is repeated."""


async def text_of(text: str, room: int) -> str:
    message, _ = await render_result(CALL, text, room)
    return str(message.content)


async def test_a_result_is_a_message_of_the_tool_with_its_ids() -> None:
    message, ids = await render_result(CALL, "1", 100)
    assert message == Message(Author(Role.TOOL, "python"), "1", Channel.ANALYSIS, "assistant")
    assert ids == tuple(render_message(message))


# Half of the room is for the result: 32 tokens for its header, and at least 32 for its text.
@pytest.mark.parametrize(("room", "most"), [(0, 32), (128, 32), (131, 33), (1000, 468)])
async def test_a_text_is_cut_where_it_has_more_than_half_of_the_room(room: int, most: int) -> None:
    whole = WORD * most
    assert await text_of(whole, room) == whole
    beginning, left_out, end = (await text_of(whole + WORD, room)).partition(LEFT_OUT)
    assert left_out
    assert (beginning, end) == (WORD * (most // 2), WORD * (most - most // 2))


async def test_the_beginning_and_the_end_of_a_long_text_remain() -> None:
    text = "".join(f" {number}" for number in range(10_000))
    beginning, _, end = (await text_of(text, 1000)).partition(LEFT_OUT)
    assert text.startswith(beginning)
    assert text.endswith(end)
    assert count(beginning) == count(end) == 234


@pytest.mark.parametrize("text", [" " * 100_000, "\N{OLD ITALIC LETTER A}" * 10_000, WORD * 10_000])
async def test_a_result_leaves_half_of_the_room(text: str) -> None:
    _, ids = await render_result(CALL, text, 1000)
    assert 32 < len(ids) <= 500
