"""Many exchanges in one conversation, each with its reasoning: practice for training alone.

A server drops the reasoning of earlier turns, so evaluation never looks like this; but one system
message and one set of tools then serve for several lessons, which takes a third of the time.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from demo.skills import calls, chat, echo, instructions, recall, structured, sums, unlike
from demo.skills.case import Case, Draw, Exchange, Turn, developer, system, user
from demo.skills.entries import entry
from demo.skills.forms import draw_fields, fields_of, fill, mention, object_schema
from demo.skills.results import draw_outcome
from demo.skills.tasks import Task, ask, draw_task, toolbox
from harmony.messages import Effort, Message, ResponseFormat

_MANY = {Effort.LOW: 8, Effort.MEDIUM: 6, Effort.HIGH: 3}
_SUMS = {Effort.LOW: 14, Effort.MEDIUM: 8, Effort.HIGH: 4}
_ALIKE = {Effort.LOW: 3, Effort.MEDIUM: 3, Effort.HIGH: 2}
"""Records of one kind. The first is the lesson: those after it can follow its example."""
_ENTRIES = 0.3
_REPEATED = 0.2
_UNTOLD = 0.25
_CHAINS = {Effort.LOW: 3, Effort.MEDIUM: 2, Effort.HIGH: 1}
_SOME = {Effort.LOW: 5, Effort.MEDIUM: 4, Effort.HIGH: 2}


def drill(draw: Draw) -> Case:
    """A conversation of several exchanges that practise one or a few skills."""
    makers: dict[Callable[[Draw], Case], float] = {
        talk: 14,
        remembering: 8,
        hearing: 5,
        calling: 22,
        chaining: 22,
        filling: 10,
        recording: 60,
        obeying: 7,
        adding: 9,
    }
    return draw.weighted(makers)(draw)


def joined(start: Sequence[Message], exchanges: Sequence[Exchange]) -> Case:
    """The exchanges one after another; each turn is followed by the next request."""
    turns: list[Turn] = []
    for number, (_, answers) in enumerate(exchanges):
        turns += answers
        if number + 1 < len(exchanges):
            turns[-1] = replace(turns[-1], results=(exchanges[number + 1][0],))
    return Case("drill", (*start, exchanges[0][0]), tuple(turns))


def talk(draw: Draw) -> Case:
    """Small talk, sums, echoes and requests that are declined."""
    kinds = (chat.case, chat.case, echo.case, unlike.without_tools, sums.case, sums.case, sums.case)
    exchanges: list[Exchange] = []
    for _ in range(_MANY[draw.effort]):
        case = draw.pick(kinds)(draw)
        exchanges.append((case.history[-1], case.turns))
        if draw.chance(_REPEATED):
            said = str(case.turns[-1].messages[-1].content)
            exchanges.append(echo.repeated(draw, said))
    return joined((system(draw), *developer(chat.idle_instructions(draw))), exchanges)


def hearing(draw: Draw) -> Case:
    """Wishes to hear an answer again, or a part of it."""
    past, exchanges = echo.heard(draw, _SOME[draw.effort])
    return joined((system(draw), *developer(chat.idle_instructions(draw)), *past), exchanges)


def adding(draw: Draw) -> Case:
    """Sums and nothing else: their small tables are learned late where they are rare."""
    cases = [sums.case(draw) for _ in range(_SUMS[draw.effort])]
    return joined((system(draw),), [(case.history[-1], case.turns) for case in cases])


def remembering(draw: Draw) -> Case:
    """Facts that are stated, then asked for, in any order."""
    facts: list[recall.Fact] = []
    exchanges: list[Exchange] = []
    for _ in range(_SOME[draw.effort]):
        fact = recall.draw_fact(draw, [f.about for f in facts])
        facts.append(fact)
        exchanges.append((user(recall.statement(draw, fact)), (recall.noting(draw, fact),)))
    for fact in draw.rng.sample(facts, min(len(facts), _SOME[draw.effort])):
        exchanges.append((user(recall.asked(draw, fact)), (recall.recalling(draw, fact),)))
        if draw.chance(_UNTOLD):
            exchanges.append(recall.untold(draw, [f.about for f in facts]))
    return joined((system(draw),), exchanges)


def calling(draw: Draw) -> Case:
    """Requests for the functions of one box, some for none of them."""
    tasks: list[Task] = []
    for _ in range(draw.rng.randint(1, 4)):
        tasks.append(_task(draw, [task.tool.name for task in tasks]))
    box = toolbox(draw, tasks, draw.rng.randint(len(tasks), 5))
    exchanges: list[Exchange] = []
    for number in range(_SOME[draw.effort]):
        task = tasks[number] if number < len(tasks) else _again(draw, draw.pick(tasks))
        exchanges.append(_call(draw, task))
        if draw.chance(0.2):
            exchanges.append(_other(draw, [tool.name for tool in box]))
    draw.rng.shuffle(exchanges)
    return joined((system(draw), *developer(None, box)), exchanges[: _SOME[draw.effort]])


def chaining(draw: Draw) -> Case:
    """Requests of several calls each, one after another, all for functions of one box."""
    tasks: list[Task] = []
    exchanges: list[Exchange] = []
    for _ in range(_CHAINS[draw.effort]):
        more, request, turns = calls.chained(draw, [task.tool.name for task in tasks])
        tasks += more
        exchanges.append((request, turns if draw.chance(0.4) else turns[:-1]))
    return joined((system(draw), *developer(None, toolbox(draw, tasks, 0))), exchanges)


def _task(draw: Draw, taken: Sequence[str]) -> Task:
    """A task with its request in a person's words."""
    if draw.chance(_ENTRIES):
        return entry(draw, taken)
    task = draw_task(draw, taken)
    return replace(task, request=ask(draw, task.request))


def _again(draw: Draw, task: Task) -> Task:
    filled = tuple(fill(draw, field) for field in fields_of(task.tool.parameters or {}))
    words = draw.pick((task.tool.description or task.tool.name, f"use {task.tool.name}"))
    request = words.rstrip(".").lower() + mention(draw, filled)
    return Task(task.tool, ask(draw, request), filled)


def _call(draw: Draw, task: Task) -> Exchange:
    return user(task.request), calls.answered(draw, task, draw_outcome(draw))


def _other(draw: Draw, taken: Sequence[str]) -> Exchange:
    if draw.chance(0.3):
        text, intent = chat.small_talk(draw)
        return user(text), (chat.reply(draw, intent),)
    text = unlike.request(draw) if draw.chance(0.5) else ask(draw, draw_task(draw, taken).request)
    return user(text), (unlike.declined(draw, with_tools=True),)


def filling(draw: Draw) -> Case:
    """Structured answers by one schema, with new values each time."""
    fields = draw_fields(draw, draw.pick((1, 2, 2, 3, 3, 4, 5)))
    schema = object_schema(fields, fields, strict=draw.chance(0.7))
    form = ResponseFormat(draw.pick(("answer", "result", "response", "data")), schema)
    start = (system(draw), *developer(draw.pick((None, "Answer in JSON.")), formats=[form]))
    exchanges: list[Exchange] = []
    for _ in range(_SOME[draw.effort]):
        text, turn = structured.exchange(draw, [fill(draw, field) for field in fields])
        exchanges.append((user(text), (turn,)))
    return joined(start, exchanges)


def recording(draw: Draw) -> Case:
    """Records of one kind, each from the text that holds its values."""
    count = _ALIKE[draw.effort]
    start, declared = structured.record_wanted(draw, count)
    requests = declared.kind.requests
    exchanges: list[Exchange] = []
    for number in range(count):
        request = requests[number] if len(requests) == count else draw.pick(requests)
        text, turn = structured.record_exchange(draw, declared, request)
        exchanges.append((user(text), (turn,)))
    return joined(start, exchanges)


def obeying(draw: Draw) -> Case:
    """One instruction, and several messages on which it shows."""
    rule = instructions.draw_rule(draw)
    exchanges: list[Exchange] = []
    for _ in range(_SOME[draw.effort]):
        text, turn = rule.exchange(draw)
        exchanges.append((user(text), (turn,)))
    return joined((system(draw), *developer(rule.text)), exchanges)
