"""Compaction: the model sums up a conversation, and the summary takes the place of its turns.

The client keeps the summary sealed, as an item of type `compaction`. Where that comes back, the
model reads it as a note of its own.
"""

from collections.abc import Callable, Sequence
from typing import Any

from harmony.messages import Author, Channel, Message, Role
from server.errors import ContextLengthExceeded, NoSummary, Unavailable
from server.generation.runs import WireEvent
from server.ids import new_id
from server.outbound.fold import fold
from server.outbound.listing import full
from server.replay import items
from server.schemas.responses import CompactResponse, CreateResponse
from server.store.responses.base import StoredResponse

REQUEST = """\
Write a summary of our conversation so far, for yourself: it will replace everything but the \
messages that I wrote. Keep what is needed to go on: decisions and their reasons, facts, what \
tools gave, names, numbers and paths exactly as they are, what is done and what is still to do. \
Write only the summary."""
NOTE = "Summary of the conversation so far:\n\n"


def ask(wanted: CompactResponse) -> CreateResponse:
    """The request that makes the summary; nothing of it is stored. Raises InvalidRequest."""
    given = items.normalise(wanted.input)
    if not given and wanted.previous_response_id is None:
        raise items.missing()
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

    started: the response that made the summary. events: its own. Raises APIError if they have no
    whole summary, NoSummary if the model wrote none: nothing may replace the conversation then.
    """
    response = fold(events)
    said = [kept.item for kept in (*started.history, *started.input[:-1])]
    users = [full(item) for item in said if item["type"] == "message" and item["role"] == "user"]
    note = Message(Author(Role.ASSISTANT), NOTE + _summary(response), Channel.COMMENTARY)
    item = {"type": "compaction", "id": new_id("cmp"), "encrypted_content": seal(note)}
    return {
        "id": new_id("resp"),
        "object": "response.compaction",
        "created_at": response["created_at"],
        "output": [*users, item],
        "usage": response["usage"],
    }


def _summary(response: dict[str, Any]) -> str:
    match response["status"]:
        case "completed":
            return _answer(response["output"])
        case "incomplete":
            told = "The conversation leaves too little of the model's context for its summary."
            raise ContextLengthExceeded(told, param="input")
        case _:
            raise Unavailable("The server stopped before the summary was finished.")


def _answer(output: Sequence[dict[str, Any]]) -> str:
    texts = [
        part["text"]
        for item in output
        if item["type"] == "message" and item["phase"] == "final_answer"
        for part in item["content"]
    ]
    summary = "\n\n".join(texts)
    if not summary.strip():
        raise NoSummary("The model wrote no summary. The same request may work again.")
    return summary
