"""The item `code_interpreter_call`: its code is streamed while the model samples it."""

from typing import Any

from server.generation.runs import WireEvent
from server.outbound.responses.hosted.item import HostedItem, HostedStatus
from server.schemas.hosted_tools import OUTPUTS


class CodeInterpreterItem(HostedItem):
    """A call of `python`. Its fields are `container_id` and `outputs`."""

    type = "code_interpreter_call"
    id_prefix = "ci"

    def begin(self) -> list[WireEvent]:
        """The event that the code runs."""
        return [self._event("interpreting")]

    def _body(self, status: HostedStatus) -> dict[str, Any]:
        shown = status != "in_progress" and OUTPUTS in self._include
        return {
            "code": self._whole_text,
            "container_id": self._fields.get("container_id", ""),
            "outputs": self._fields.get("outputs", []) if shown else None,
        }
