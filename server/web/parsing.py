"""Harmony that somebody has pasted, read as the server reads a completion."""

from collections.abc import Sequence
from typing import Any

from harmony.events import ContentDelta, MessageEnded
from harmony.parser import ASSISTANT, Parser
from harmony.vocab import START


def parse(token_ids: Sequence[int], tools: Sequence[str] = ()) -> list[dict[str, Any]]:
    """The messages of `token_ids`, each with the repairs that the parser made.

    token_ids: a completion, or whole messages from `<|start|>` on. tools: the declared recipients.
    `body` is the half-open range of the positions of the tokens whose text is the content.
    """
    prefix = () if token_ids and token_ids[0] == START else ASSISTANT
    parser = Parser(tools, prefix=prefix)
    bodies: dict[int, tuple[int, int]] = {}
    messages = []
    for event in (*parser.push_many(token_ids), *parser.finish()):
        if isinstance(event, ContentDelta):
            first, _ = bodies.get(event.index, event.span)
            bodies[event.index] = (first, event.span[1])
        elif isinstance(event, MessageEnded):
            messages.append(_message(event, bodies.get(event.index)))
    return messages


def _message(event: MessageEnded, body: tuple[int, int] | None) -> dict[str, Any]:
    return {
        "channel": event.header.channel,
        "recipient": event.header.recipient,
        "content_type": event.header.content_type,
        "content": event.content,
        "complete": event.complete,
        "repairs": list(event.repairs),
        "body": body,
    }
