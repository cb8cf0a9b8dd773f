"""Functions as people really declare them, and requests as people word them."""

from demo.skills import calls, drills, unlike
from demo.skills.case import Case, Draw, Turn, developer, result, system, user
from demo.skills.catalogue.asking import (
    Declared,
    draw_box,
    draw_request,
    family,
    linked_box,
)
from demo.skills.catalogue.asking import plain as draw
from demo.skills.results import draw_outcome
from demo.skills.tasks import Task
from demo.skills.words import Split
from harmony.messages import Effort

__all__ = ["case", "draw", "drill"]

_MANY = {Effort.LOW: 12, Effort.MEDIUM: 8, Effort.HIGH: 3}
_DECLINED = 0.15
_ANSWERED = 0.15
_FAMILIES = 0.08
_INSTRUCTIONS = (
    None,
    None,
    None,
    "You are a helpful assistant.",
    "Use the tools where they fit.",
    "Call a tool when the user asks for something that it does.",
)


def case(draw_: Draw) -> Case:
    """One request for one of several functions, and half the time the answer from its result."""
    box = _box(draw_, draw_.rng.randint(1, 8))
    request, turns = _exchange(draw_, draw_.pick(box))
    tools = [declared.tool for declared in box]
    start = (system(draw_), *developer(draw_.pick(_INSTRUCTIONS), tools))
    if draw_.chance(0.5):
        turns = (Turn(turns[0].messages),)
    return Case("everyday", (*start, user(request)), turns)


def drill(draw_: Draw) -> Case:
    """Many requests for the functions of one box, and some for none of them."""
    return _practice(draw_, _box(draw_, draw_.rng.randint(3, 5)))


def _practice(draw_: Draw, box: list[Declared]) -> Case:
    exchanges: list[drills.Exchange] = []
    for _ in range(_MANY[draw_.effort]):
        if draw_.chance(_DECLINED):
            turn = unlike.declined(draw_, with_tools=True)
            exchanges.append((user(_beside(draw_, box)), (turn,)))
        else:
            text, turns = _exchange(draw_, draw_.pick(box))
            answered = draw_.chance(_ANSWERED)
            exchanges.append((user(text), turns if answered else turns[:1]))
    tools = [declared.tool for declared in box]
    start = (system(draw_), *developer(draw_.pick(_INSTRUCTIONS), tools))
    return drills.joined(start, exchanges)


def linked_drill(draw_: Draw) -> Case:
    """As `drill`, with functions alone whose values hang together: queries, plots, money."""
    return _practice(draw_, linked_box(draw_, draw_.rng.randint(2, 4)))


def _box(draw_: Draw, count: int) -> list[Declared]:
    """Functions that differ in what they are about; in training at times in what they do to it."""
    if draw_.split is Split.HELD_OUT or not draw_.chance(_FAMILIES):
        return draw_box(draw_, count)
    box = family(draw_, min(count, draw_.rng.randint(2, 4)))
    box += draw_box(draw_, count - len(box), [declared.kind for declared in box])
    draw_.rng.shuffle(box)
    return box


def _exchange(draw_: Draw, declared: Declared) -> tuple[str, tuple[Turn, ...]]:
    text, filled = draw_request(draw_, declared)
    tool, outcome = declared.tool, draw_outcome(draw_)
    messages = calls.calling(draw_, Task(tool, text, filled))
    called = Turn(messages, (result(tool.name, outcome.text),))
    return text, (called, calls.quoting(draw_, outcome))


def _beside(draw_: Draw, box: list[Declared]) -> str:
    """A request that no function of the box serves."""
    if draw_.chance(0.4):
        return unlike.request(draw_)
    (other,) = draw_box(draw_, 1, [declared.kind for declared in box])
    return draw_request(draw_, other)[0]
