"""Truncates conversations: drops whole exchanges, the oldest first, until the prompt fits."""

import sys
from bisect import bisect_left
from collections import defaultdict
from dataclasses import replace

from harmony.messages import Conversation, Role
from harmony.render import render, rendered_messages


def render_within(conversation: Conversation, limit: int, most: int = sys.maxsize) -> list[int]:
    """The prompt without as many of the oldest exchanges as needed to have at most `limit` tokens.

    An exchange is a user's message and all messages until the next one. Calls and their results
    stay together: a user's message between them begins no exchange. Messages before the first
    exchange stay, and so does the last exchange, even if it is too long. Of a prompt with more than
    `most` ids, only the first `most` + 1 or more are returned.
    """
    # Otherwise reasoning would come back once the answer after it is dropped, and a prompt with
    # fewer exchanges could be longer.
    conversation = replace(conversation, messages=tuple(rendered_messages(conversation)))
    whole = render(conversation, most)
    starts = _exchanges(conversation)
    if len(whole) <= limit or not starts:
        return whole

    def fits(dropped: int) -> bool:
        return len(render(_from_exchange(conversation, starts, dropped), limit)) <= limit

    # The prompt gets shorter with each dropped exchange, so a binary search finds the number.
    dropped = bisect_left(range(len(starts) - 1), True, lo=1, key=fits)
    return render(_from_exchange(conversation, starts, min(dropped, len(starts) - 1)), most)


def _exchanges(conversation: Conversation) -> list[int]:
    """The indexes of the messages with which the exchanges begin.

    Of several calls of a tool, a result is that of the latest which has none.
    """
    starts: list[int] = []
    calls: defaultdict[str | None, list[int]] = defaultdict(list)
    for index, message in enumerate(conversation.messages):
        name = message.author.name
        if message.author.role is Role.USER:
            starts.append(index)
        elif message.author.role is Role.TOOL and calls[name]:
            called = calls[name].pop()
            while starts and starts[-1] > called:
                starts.pop()
        elif message.recipient is not None:
            calls[message.recipient].append(index)
    return starts


def _from_exchange(conversation: Conversation, starts: list[int], first: int) -> Conversation:
    messages = conversation.messages
    return replace(conversation, messages=(*messages[: starts[0]], *messages[starts[first] :]))
