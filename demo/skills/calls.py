"""Calls of functions: one call, several in a row, the answer from a result, and no call at all."""

from collections.abc import Iterator, Sequence

from demo.skills import chat, unlike
from demo.skills.case import (
    Case,
    Draw,
    Thought,
    Turn,
    answer,
    call,
    developer,
    final,
    result,
    system,
    thinks,
    user,
)
from demo.skills.entries import entry
from demo.skills.forms import (
    Field,
    Filled,
    compact,
    draw_fields,
    draw_name,
    fields_of,
    fill,
    listed_values,
    mention,
    object_schema,
)
from demo.skills.phrases import worded
from demo.skills.results import Outcome, draw_outcome
from demo.skills.tasks import Task, ask, draw_function, draw_task, toolbox
from demo.skills.words import Split
from harmony.messages import FunctionTool, Message

_ENTRIES = 0.25
_ORDERED = 0.5
_ORDERS = (
    ("[first |first of all |to begin with |firstly |]", "[, then |; then |, after that |. Then ]",
     "[, then | and finally |, and at last |. Finally |, lastly ]"),
    ("[|first ]", "[; |. |, ]", "[; |. |, and |. And ]"),
    ("[|first |please do this: ]", "[ and then | and | and afterwards |, and next to that ]",
     "[ and then | and | and after all that | and in the end ]"),
    ("[1. |- |1) |* ]", "[\n- |, next one: |\n* ]", "[\n- |, last one: |\n* ]"),
    ("[in this order: |one by one: |step by step: |several things: ]", "[, |; | / ]",
     "[, |; | / | and ]"),
)  # fmt: skip
_REUSED = (
    "with the {} from that",
    "with the {} [that comes back|you get|it returns|it gives|from there|of the result"
    "|from before]",
    "[for|using|by] [the|that|its] {} [from that|from the result|it returns|you got|of it]",
    "with [that|its|the returned|the new|the resulting] {}",
    "[and take|taking] the {} from [that|it|the answer|the call before|the last result]",
)


def calling(draw: Draw, task: Task) -> tuple[Message, ...]:
    """The messages of a turn that calls the task's function."""
    name, values = task.tool.name, listed_values(task.filled)
    low = f"Call {name}."
    medium = f"The request fits the tool {name}. Its arguments: {values}. So I call {name}."
    high = (
        f"The user wants something done. First I look at the tools, one by one, at their names "
        f"and at what they are for. The tool {name} does this, and the others do not fit. Now the "
        f"arguments of {name}, each as the request gives it: {values}. I check them once more "
        f"before I go on: {values}. All is there and nothing is made up. So I call {name}."
    )
    thought = Thought(low, medium, high)
    return thinks(thought.at(draw.effort)), call(name, task.arguments)


def quoting(draw: Draw, outcome: Outcome) -> Turn:
    """The turn that answers with what a function returned."""
    text = outcome.answer
    low = "I have the result."
    medium = f"The tool gave its result. I tell the user: {text}"
    high = (
        f"The tool has returned, so no other call is needed. What it says is this: {text} I keep "
        f"the values as they are and add nothing of my own. The user wants to read it in one "
        f"short sentence, so my answer is: {text}"
    )
    return answer(draw, Thought(low, medium, high), text)


def answered(draw: Draw, task: Task, outcome: Outcome) -> tuple[Turn, Turn]:
    """The turn that calls the task's function, and the one that answers from its result."""
    turn = Turn(calling(draw, task), (result(task.tool.name, outcome.text),))
    return turn, quoting(draw, outcome)


def single(draw: Draw) -> Case:
    """One call, and mostly the answer from its result."""
    of_entry = draw.split is Split.TRAIN and draw.chance(_ENTRIES)
    task = entry(draw) if of_entry else draw_task(draw)
    box = toolbox(draw, [task], draw.rng.randint(1, 5 if draw.split is Split.TRAIN else 8))
    request = task.request if of_entry else ask(draw, task.request)
    turns: tuple[Turn, ...] = answered(draw, task, draw_outcome(draw))
    if draw.chance(0.5):
        turns = (Turn(turns[0].messages),)
    before = past_call(draw, box) if draw.chance(0.2) else ()
    history = (system(draw), *developer(_instructions(draw), box), *before, user(request))
    return Case("call", history, turns)


def past_call(draw: Draw, box: Sequence[FunctionTool]) -> tuple[Message, ...]:
    """An exchange of one of the `box`'s functions that is over: request, call, result, answer."""
    tool = draw.pick(box)
    schema = tool.parameters or {}
    filled = tuple(fill(draw, f) for f in fields_of(schema))
    task = Task(tool, f"use {tool.name}" + mention(draw, filled), filled)
    outcome = draw_outcome(draw)
    return (
        user(ask(draw, task.request)),
        call(tool.name, task.arguments),
        result(tool.name, outcome.text),
        final(outcome.answer),
    )


def from_result(draw: Draw) -> Case:
    """The answer from a result, the call being past."""
    task = draw_task(draw)
    box = toolbox(draw, [task], draw.rng.randint(1, 3))
    request = ask(draw, task.request)
    outcome = draw_outcome(draw)
    past = calling(draw, task)
    shown = past if draw.chance(0.6) else past[1:]
    history = (
        system(draw),
        *developer(_instructions(draw), box),
        user(request),
        *shown,
        result(task.tool.name, outcome.text),
    )
    return Case("result", history, (quoting(draw, outcome),))


def chain(draw: Draw) -> Case:
    """Two to four calls, one after another, then the answer."""
    tasks, request, turns = chained(draw, ())
    box = toolbox(draw, tasks, len(tasks) + draw.rng.randint(0, 1))
    return Case("chain", (system(draw), *developer(None, box), request), turns)


def chained(draw: Draw, taken: Sequence[str]) -> tuple[list[Task], Message, tuple[Turn, ...]]:
    """Two to four tasks of functions that are not `taken`, the request for all of them, its turns.

    The same function may be called more than once.
    """
    count = draw.pick((2, 2, 2, 3, 3, 4))
    tasks: list[Task] = []
    outcomes: list[Outcome] = []
    while len(tasks) < count:
        if tasks and draw.chance(0.3):
            task, outcome = _dependent(draw, tasks, taken)
            if outcome is not None:
                outcomes[-1] = outcome
        else:
            task = draw_task(draw, [*taken, *(t.tool.name for t in tasks)])
        tasks.append(task)
        outcomes.append(draw_outcome(draw))
    request = user(ask(draw, _in_order(draw, [t.request.rstrip(".") for t in tasks])))
    turns = (*steps(draw, tasks, outcomes), quoting(draw, outcomes[-1]))
    return tasks, request, turns


def _dependent(
    draw: Draw, tasks: Sequence[Task], taken: Sequence[str]
) -> tuple[Task, Outcome | None]:
    """A task whose one argument is what the call before it returned, or a call repeated."""
    before = tasks[-1]
    if draw.chance(0.4) and before.filled:
        filled = tuple(fill(draw, f.field) for f in before.filled)
        if filled[0].value != before.filled[0].value:
            return Task(before.tool, "the same" + mention(draw, filled), filled), None
    key = draw.pick(("id", "code", "key", "number", draw_name(draw)))
    field = Field(key, "string")
    value = fill(draw, field)
    other = draw_task(draw, [*taken, *(t.tool.name for t in tasks)])
    if draw.split is Split.TRAIN:
        return _reusing(draw, other, value)
    tool = draw_function(draw, other.tool.name, other.tool.description, (field,))
    words = tool.name.replace("_", " ").lower()
    request = f"{words} with the {field.words} from that"
    outcome = Outcome(compact({key: value.value}), f"The {field.words} is {value.text}.")
    return Task(tool, request, (value,)), outcome


def _reusing(draw: Draw, other: Task, value: Filled) -> tuple[Task, Outcome]:
    """The `other` task with the value from a result, at times among other values there and here."""
    key, words = value.field.name, value.field.words
    kept = [f for f in other.filled if f.field.name != key] if draw.chance(0.4) else []
    filled = [*kept, value]
    draw.rng.shuffle(filled)
    fields = [one.field for one in filled]
    tool = FunctionTool(
        other.tool.name,
        other.tool.description,
        object_schema(fields, fields, strict=draw.chance(0.4)),
    )
    spoken = worded(draw, draw.pick(_REUSED)).format(words)
    named = tool.name.replace("_", " ").lower() if draw.chance(0.5) else _plainly(tool)
    request = f"{named}{mention(draw, kept).rstrip('.')} {spoken}"
    shown = {key: value.value}
    for field in draw_fields(draw, draw.pick((0, 0, 1, 2))):
        shown.setdefault(field.name, fill(draw, field).value)
    names = draw.rng.sample(list(shown), len(shown))
    text = compact({name: shown[name] for name in names})
    return Task(tool, request, tuple(filled)), Outcome(text, f"The {words} is {value.text}.")


def _plainly(tool: FunctionTool) -> str:
    """What the function does, in the words of its description or of its name."""
    about = (tool.description or "").rstrip(".")
    return (about[:1].lower() + about[1:]) or tool.name.replace("_", " ").lower()


def _in_order(draw: Draw, requests: Sequence[str]) -> str:
    if draw.split is Split.TRAIN and draw.chance(_ORDERED):
        first, between, last = (worded(draw, part) for part in draw.pick(_ORDERS))
        text = between.join(requests[:-1])
        return f"{first}{text}{last}{requests[-1]}"
    style = draw.rng.randrange(3)
    if style == 0:
        return "first " + ", then ".join(requests)
    if style == 1:
        return ", then ".join(requests)
    return ", and after that ".join(requests)


def steps(draw: Draw, tasks: Sequence[Task], outcomes: Sequence[Outcome]) -> Iterator[Turn]:
    """The turns that call the tasks' functions, one after another."""
    for position, (task, outcome) in enumerate(zip(tasks, outcomes, strict=True)):
        rest = [later.tool.name for later in tasks[position + 1 :]]
        messages = _step(draw, task, position, rest)
        yield Turn(messages, (result(task.tool.name, outcome.text),))


def _step(draw: Draw, task: Task, position: int, rest: Sequence[str]) -> tuple[Message, ...]:
    """The messages of a turn that calls one of several functions; `rest` are those after it."""
    name, values = task.tool.name, listed_values(task.filled)
    then = f"After it: {', '.join(rest)}." if rest else "It is the last step."
    medium = f"Step {position + 1} is {name}. Its arguments: {values}. {then} So I call {name}."
    high = (
        f"The user wants several things in order, one after the other, and I look at what is "
        f"done and at what is left. I am at step {position + 1}, which is {name}. {then} Its "
        f"arguments come from the request or from an earlier result: {values}. I check them once "
        f"more before I go on: {values}. All is there. So I call {name} now, then the rest."
    )
    # In training the number of the step tells at low effort, too, how far the plan is.
    low = f"Step {position + 1}: {name}." if draw.split is Split.TRAIN else f"Call {name}."
    thought = Thought(low, medium, high)
    return thinks(thought.at(draw.effort)), call(name, task.arguments)


def no_call(draw: Draw) -> Case:
    """Tools are there, but the request is none of their business: another tool's, or no tool's."""
    roll = draw.rng.random()
    box = toolbox(draw, [], draw.rng.randint(1, 5))
    before: tuple[Message, ...] = ()
    if roll < 0.25:
        text, intent = chat.small_talk(draw)
        turn = chat.reply(draw, intent)
        before = past_call(draw, box) if draw.chance(0.5) else ()
    elif roll < 0.6:
        text = ask(draw, draw_task(draw, [tool.name for tool in box]).request)
        turn = unlike.declined(draw, with_tools=True)
    else:
        text = unlike.pasted(draw) if draw.chance(0.2) else unlike.request(draw)
        turn = unlike.declined(draw, with_tools=True)
    start = (system(draw), *developer(_instructions(draw), box))
    return Case("no_call", (*start, *before, user(text)), (turn,))


def _instructions(draw: Draw) -> str | None:
    return draw.pick(
        (
            None,
            None,
            "You are a helpful assistant.",
            "Use the tools where they fit.",
            "You are a helpful assistant. Use tools when needed.",
            "Answer briefly.",
        )
    )
