"""The turns that the browser's cases are made of."""

from collections.abc import Iterable, Sequence

from demo.skills.browser import thoughts
from demo.skills.browser.display import Display
from demo.skills.browser.quotes import Quote, ranked
from demo.skills.browser.site import Session
from demo.skills.case import Case, Draw, Thought, Turn, answer, thinks
from harmony.messages import Message
from harmony.render import render_message


def step(draw: Draw, thought: Thought, called: tuple[Message, Message, Display]) -> Turn:
    """A turn that calls the browser, and the display that it gets."""
    return Turn((thinks(thought.at(draw.effort)), called[0]), (called[1],))


def search(draw: Draw, session: Session, words: Sequence[str]) -> tuple[Turn, Display]:
    """A turn that searches for words, and its results."""
    query = " ".join(words)
    called = session.search(query)
    return step(draw, thoughts.searching(query), called), called[2]


def quoting(draw: Draw, found: Quote, words: Sequence[str], display: Display) -> Turn:
    """The turn that answers with the words of a line, and cites it."""
    other = next((one.line for one in ranked(display, words) if one.line != found.line), None)
    thought = thoughts.found(found, words, display.cursor, other)
    return answer(draw, thought, found.cited(display.cursor))


def lacking(draw: Draw, words: Sequence[str]) -> Turn:
    """The turn that answers that nothing was found."""
    asked = " ".join(words)
    return answer(draw, thoughts.nothing(asked), f"I found nothing about {asked}.")


def messages(turns: Iterable[Turn]) -> list[Message]:
    """Everything that turns add to a conversation."""
    return [message for turn in turns for message in (*turn.messages, *turn.results)]


def size(found: Iterable[Message]) -> int:
    """The number of tokens, about."""
    return sum(len(render_message(message)) for message in found)


def size_without_thoughts(case: Case) -> int:
    """The number of a case's tokens, about, which is the same at each effort."""
    said = (m for turn in case.turns for m in (*turn.messages[1:], *turn.results))
    return size((*case.history, *said))


def size_of(case: Case) -> int:
    """The number of a case's tokens, about."""
    return size((*case.history, *messages(case.turns)))
