"""Turns that a Chat client sends back as one message.

Some clients put the calls of successive turns into one message, and the results after it, although
the model had read each result before it made the next call.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, islice

from harmony.messages import Message
from server.replay.chat_turns import calls_from_last


class MergedTurns:
    """The turns in which the calls of one message were sampled. Each is taken once, in order.

    ids: of the message's calls. messages_up_to_call: the messages of a call's turn, up to and
    including the call. There are no turns where one of them is not known.
    """

    def __init__(
        self,
        ids: Sequence[str] = (),
        messages_up_to_call: Mapping[str, Sequence[Message]] | None = None,
    ) -> None:
        self._turns = _turns(ids, messages_up_to_call or {})
        self._number_of = {
            name: number for number, (names, _) in enumerate(self._turns) for name in names
        }
        self._taken = 0

    def all(self) -> list[Message]:
        """The messages of all turns, taken or not."""
        return [*chain.from_iterable(messages for _, messages in self._turns)]

    def first(self) -> Iterator[Message]:
        """Take the first turn."""
        return self._take(min(1, len(self._turns)))

    def up_to(self, call_id: str) -> Iterator[Message]:
        """Take the turns up to that of a call; none if the message does not have the call."""
        return self._take(self._number_of.get(call_id, -1) + 1)

    def rest(self) -> Iterator[Message]:
        """Take the turns that are left."""
        return self._take(len(self._turns))

    def _take(self, until: int) -> Iterator[Message]:
        while self._taken < until:
            yield from self._turns[self._taken][1]
            self._taken += 1


def _turns(
    ids: Sequence[str], messages_up_to_call: Mapping[str, Sequence[Message]]
) -> list[tuple[Sequence[str], Sequence[Message]]]:
    """The ids and the messages of each turn; a turn has as many of the ids as it has calls."""
    turns: list[tuple[Sequence[str], Sequence[Message]]] = []
    end = len(ids) if len({*ids}) == len(ids) else 0
    while end:
        sampled = messages_up_to_call.get(ids[end - 1], ())
        # No more than there are ids: messages with one of many calls each do not read them all.
        start = end - sum(1 for _ in islice(calls_from_last(sampled), end))
        if start == end:
            return []
        turns.append((ids[start:end], sampled))
        end = start
    return turns[::-1]
