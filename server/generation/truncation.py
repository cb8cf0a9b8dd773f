"""Fitting a conversation into a context: its oldest turns go first, each as a whole."""

import sys
from bisect import bisect_left
from dataclasses import replace

from harmony.messages import Conversation, Role
from harmony.render import render


def render_within(conversation: Conversation, limit: int, most: int = sys.maxsize) -> list[int]:
    """The prompt with as few of the oldest turns left out as it takes to have `limit` tokens.

    A turn is a user's message and all that follows until the next one: calls keep their results.
    What comes before the first turn stays, and so does the last turn, even if it is too long.
    Of a prompt that has more than `most` ids, the first `most` + 1 or more are given.
    """
    whole = render(conversation, most)
    starts = _turns(conversation)
    if len(whole) <= limit or not starts:
        return whole

    def fits(dropped: int) -> bool:
        return len(render(_from_turn(conversation, starts, dropped), limit)) <= limit

    # The more turns go, the shorter the prompt: search for the first that fits.
    dropped = bisect_left(range(len(starts) - 1), True, lo=1, key=fits)
    return render(_from_turn(conversation, starts, min(dropped, len(starts) - 1)), most)


def _turns(conversation: Conversation) -> list[int]:
    return [
        index
        for index, message in enumerate(conversation.messages)
        if message.author.role is Role.USER
    ]


def _from_turn(conversation: Conversation, starts: list[int], turn: int) -> Conversation:
    messages = conversation.messages
    return replace(conversation, messages=(*messages[: starts[0]], *messages[starts[turn] :]))
