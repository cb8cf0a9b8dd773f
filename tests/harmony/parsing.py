"""Reading whole completions in the tests of the parser."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from harmony.events import ContentDelta, Event, MessageEnded
from harmony.parser import ASSISTANT, Parser
from harmony.tokenizer import encode_with_control


def events_of(
    tokens: Sequence[int], declared: Iterable[str] = (), prefix: Sequence[int] = ASSISTANT
) -> list[Event]:
    """All events of a sampling, pushed at once."""
    parser = Parser(declared, prefix)
    return [*parser.push_many(tokens), *parser.finish()]


def messages(
    completion: str | Sequence[int],
    declared: Iterable[str] = (),
    prefix: Sequence[int] = ASSISTANT,
) -> list[MessageEnded]:
    """The messages of a completion, given as harmony text or as ids."""
    tokens = encode_with_control(completion) if isinstance(completion, str) else completion
    events = events_of(tokens, declared, prefix)
    return [event for event in events if isinstance(event, MessageEnded)]


def merged(events: Iterable[Event]) -> list[Event]:
    """Events with the adjacent deltas of a message made one."""
    result: list[Event] = []
    for event in events:
        last = result[-1] if result else None
        if isinstance(event, ContentDelta) and isinstance(last, ContentDelta):
            span = (last.span[0], event.span[1])
            result[-1] = replace(last, text=last.text + event.text, span=span)
        else:
            result.append(event)
    return result
