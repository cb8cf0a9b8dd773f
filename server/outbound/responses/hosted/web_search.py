"""The item `web_search_call`: what it does is known once the tool has read the call."""

from typing import Any

from server.generation.runs import WireEvent
from server.outbound.responses.hosted.item import HostedItem, HostedStatus
from server.schemas.hosted_tools import RESULTS, SOURCES

UNKNOWN_ACTION = {"type": "search"}


class WebSearchItem(HostedItem):
    """A call of the browser. Its fields are `action` and `results`. Its JSON is not streamed."""

    type = "web_search_call"
    id_prefix = "ws"

    def begin(self) -> list[WireEvent]:
        """The event that the tool searches, or opens a page."""
        return [self._event("searching")]

    def _body(self, status: HostedStatus) -> dict[str, Any]:
        if status == "in_progress":
            # OpenAI leaves the action out until the item is done.
            return {}
        action = dict(self._fields.get("action", UNKNOWN_ACTION))
        if SOURCES not in self._include:
            action.pop("sources", None)
        if RESULTS in self._include and "results" in self._fields:
            return {"action": action, "results": self._fields["results"]}
        return {"action": action}
