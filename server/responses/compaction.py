"""Compaction: the model summarises a conversation, and the summary replaces its turns.

The client gets the summary sealed, as an item of type `compaction`. In a later request, the model
reads that item as a message of its own.
"""

from collections.abc import Callable, Sequence
from typing import Any

from harmony.messages import Author, Channel, Message, Role
from server.errors import ContextLengthExceeded, NoSummary, Unavailable
from server.generation.runs import WireEvent
from server.ids import new_id
from server.outbound.listing import complete_item
from server.outbound.responses.fold import fold
from server.replay import items
from server.schemas.responses import CompactResponse, CreateResponse, Reasoning
from server.store.responses.base import StoredResponse

SUMMARY_PROMPT = """\
Write a summary of our conversation so far, for yourself: it will replace everything but the \
messages that I wrote. Keep what is needed to go on: decisions and their reasons, facts, what \
tools gave, names, numbers and paths exactly as they are, what is done and what is still to do. \
Write only the summary."""
SUMMARY_HEADING = "Summary of the conversation so far:\n\n"


def summary_request(request: CompactResponse) -> CreateResponse:
    """The request that makes the summary. Its response is not stored.

    Raises InvalidRequest if there is no input and no previous response.
    """
    input_items = items.normalise(request.input)
    if not input_items and request.previous_response_id is None:
        raise items.missing()
    return CreateResponse(
        model=request.model,
        input=[*input_items, {"type": "message", "role": "user", "content": SUMMARY_PROMPT}],
        instructions=request.instructions,
        previous_response_id=request.previous_response_id,
        prompt_cache_key=request.prompt_cache_key,
        reasoning=Reasoning(summary=None),
        store=False,
    )


def compaction_object(
    started: StoredResponse, seal: Callable[[Message], str], events: Sequence[WireEvent]
) -> dict[str, Any]:
    """The API's `response.compaction` object, from the response that made the summary.

    started: the response before its first token.
    seal: encrypts the summary.
    events: all wire events of the response.

    Raises ContextLengthExceeded if the summary was cut off, Unavailable if the server stopped
    before the summary was finished, and NoSummary if the model wrote no summary.
    """
    response = fold(events)
    # The last input item is SUMMARY_PROMPT.
    input_items = [stored.item for stored in (*started.history, *started.input[:-1])]
    user_messages = [
        complete_item(item)
        for item in input_items
        if item["type"] == "message" and item["role"] == "user"
    ]
    summary = Message(
        Author(Role.ASSISTANT), SUMMARY_HEADING + _summary(response), Channel.COMMENTARY
    )
    item = {"type": "compaction", "id": new_id("cmp"), "encrypted_content": seal(summary)}
    return {
        "id": new_id("resp"),
        "object": "response.compaction",
        "created_at": response["created_at"],
        "output": [*user_messages, item],
        "usage": response["usage"],
    }


def _summary(response: dict[str, Any]) -> str:
    match response["status"]:
        case "completed":
            return _answer_text(response["output"])
        case "incomplete":
            message = "the conversation leaves too little of the model's context for its summary"
            raise ContextLengthExceeded(message, param="input")
        case _:
            raise Unavailable("The server stopped before the summary was finished.")


def _answer_text(output: Sequence[dict[str, Any]]) -> str:
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
