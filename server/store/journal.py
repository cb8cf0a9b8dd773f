"""Writes a response's end to the store, before anyone is told of it."""

from collections.abc import Mapping, Sequence

from harmony.messages import Message
from server.inbound.responses import Draft
from server.outbound.fold import ENDED
from server.runs import WireEvent
from server.store.base import Store, StoredItem, StoredResponse


class ResponseJournal:
    """Keeps one response when it has ended, however it did.

    spoken: what the model said by item id; it is filled while the response is made.
    """

    def __init__(
        self, store: Store, owner: str, draft: Draft, spoken: Mapping[str, Message]
    ) -> None:
        self._store = store
        self._owner = owner
        self._draft = draft
        self._spoken = spoken

    async def write(self, events: Sequence[WireEvent]) -> None:
        """Store the response where one of `events` ends it."""
        for event in events:
            if event["type"] in ENDED:
                await self._store.put(self._stored(event))

    def _stored(self, event: WireEvent) -> StoredResponse:
        response, draft = event["response"], self._draft
        output = (StoredItem(item, self._spoken.get(item["id"])) for item in response["output"])
        return StoredResponse(
            self._owner, response, draft.start_date, draft.history, draft.input, tuple(output)
        )
