"""Compaction: the model sums up a conversation, and the summary takes the place of its turns.

The client keeps the summary sealed, as an item of type `compaction`. Where that comes back, the
model reads it as a note of its own.
"""

from collections.abc import Callable, Sequence
from typing import Any

from harmony.messages import Author, Channel, Message, Role
from server.ids import new_id
from server.inbound import items
from server.outbound.fold import fold
from server.outbound.listing import full
from server.runs import WireEvent
from server.schemas.responses import CompactResponse, CreateResponse
from server.store.base import StoredResponse

REQUEST = """\
Write a summary of our conversation so far, for yourself: it will replace everything but the \
messages that I wrote. Keep what is needed to go on: decisions and their reasons, facts, what \
tools gave, names, numbers and paths exactly as they are, what is done and what is still to do. \
Write only the summary."""
NOTE = "Summary of the conversation so far:\n\n"


def ask(wanted: CompactResponse) -> CreateResponse:
    """The request that makes the summary; nothing of it is stored."""
    given = items.normalise(wanted.input)
    return CreateResponse(
        model=wanted.model,
        input=[*given, {"type": "message", "role": "user", "content": REQUEST}],
        instructions=wanted.instructions,
        previous_response_id=wanted.previous_response_id,
        prompt_cache_key=wanted.prompt_cache_key,
        store=False,
    )


def compacted(
    started: StoredResponse, seal: Callable[[Message], str], events: Sequence[WireEvent]
) -> dict[str, Any]:
    """The API's object.

    started: the response that made the summary. events: its own.
    """
    response = fold(events)
    said = [kept.item for kept in (*started.history, *started.input[:-1])]
    users = [full(item) for item in said if item["type"] == "message" and item["role"] == "user"]
    note = Message(Author(Role.ASSISTANT), NOTE + _text(response["output"]), Channel.COMMENTARY)
    item = {"type": "compaction", "id": new_id("cmp"), "encrypted_content": seal(note)}
    return {
        "id": new_id("resp"),
        "object": "response.compaction",
        "created_at": response["created_at"],
        "output": [*users, item],
        "usage": response["usage"],
    }


def _text(output: Sequence[dict[str, Any]]) -> str:
    parts = (part for item in output if item["type"] == "message" for part in item["content"])
    return "\n\n".join(part["text"] for part in parts)
