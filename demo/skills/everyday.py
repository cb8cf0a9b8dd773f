"""Functions as people really declare them, and requests as people word them."""

from demo.skills import calls, drills, unlike
from demo.skills.case import Case, Draw, Exchange, Turn, developer, system, user
from demo.skills.catalogue.asking import Declared, draw_box, draw_request, family, linked_box
from demo.skills.results import draw_outcome
from demo.skills.tasks import Task
from demo.skills.words import Split
from harmony.messages import Effort

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


def case(draw: Draw) -> Case:
    """One request for one of several functions, and half the time the answer from its result."""
    box = _box(draw, draw.rng.randint(1, 8))
    request, turns = _exchange(draw, draw.pick(box))
    tools = [declared.tool for declared in box]
    start = (system(draw), *developer(draw.pick(_INSTRUCTIONS), tools))
    if draw.chance(0.5):
        turns = (Turn(turns[0].messages),)
    return Case("everyday", (*start, user(request)), turns)


def drill(draw: Draw) -> Case:
    """Many requests for the functions of one box, and some for none of them."""
    return _practice(draw, _box(draw, draw.rng.randint(3, 5)))


def _practice(draw: Draw, box: list[Declared]) -> Case:
    exchanges: list[Exchange] = []
    for _ in range(_MANY[draw.effort]):
        if draw.chance(_DECLINED):
            turn = unlike.declined(draw, with_tools=True)
            exchanges.append((user(_beside(draw, box)), (turn,)))
        else:
            text, turns = _exchange(draw, draw.pick(box))
            answered = draw.chance(_ANSWERED)
            exchanges.append((user(text), turns if answered else turns[:1]))
    tools = [declared.tool for declared in box]
    start = (system(draw), *developer(draw.pick(_INSTRUCTIONS), tools))
    return drills.joined(start, exchanges)


def linked_drill(draw: Draw) -> Case:
    """As `drill`, with functions alone whose values hang together: queries, plots, money."""
    return _practice(draw, linked_box(draw, draw.rng.randint(2, 4)))


def _box(draw: Draw, count: int) -> list[Declared]:
    """Functions that differ in what they are about; in training at times in what they do to it."""
    if draw.split is Split.HELD_OUT or not draw.chance(_FAMILIES):
        return draw_box(draw, count)
    box = family(draw, min(count, draw.rng.randint(2, 4)))
    box += draw_box(draw, count - len(box), [declared.kind for declared in box])
    draw.rng.shuffle(box)
    return box


def _exchange(draw: Draw, declared: Declared) -> tuple[str, tuple[Turn, ...]]:
    text, filled = draw_request(draw, declared)
    task = Task(declared.tool, text, filled)
    return text, calls.answered(draw, task, draw_outcome(draw))


def _beside(draw: Draw, box: list[Declared]) -> str:
    """A request that no function of the box serves."""
    if draw.chance(0.4):
        return unlike.request(draw)
    (other,) = draw_box(draw, 1, [declared.kind for declared in box])
    return draw_request(draw, other)[0]
