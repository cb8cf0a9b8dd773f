"""Structured answers: JSON by the schema under `# Response Formats`, values from the request."""

from collections.abc import Mapping, Sequence
from typing import Any

from demo.skills import records
from demo.skills.case import Case, Draw, Thought, Turn, answer, developer, system, user
from demo.skills.catalogue.asking import Declared, declare, fill_in
from demo.skills.catalogue.kinds import Request
from demo.skills.forms import (
    Field,
    Filled,
    compact,
    draw_fields,
    draw_name,
    fill,
    listed_values,
    mention,
    object_schema,
    to_json,
)
from demo.skills.nesting import arranged, nested, several
from demo.skills.words import Split, nouns, text_value
from harmony.messages import FunctionTool, Message, ResponseFormat

_ASK = (
    "Extract the data{}",
    "Give me the data{}",
    "Fill in the form{}",
    "Make a record{}",
    "Return the object{}",
    "Here is an entry{}",
    "I have a {thing}{}",
    "There is a {thing}{}",
    "Describe the {thing}{}",
    "Create a {thing}{}",
    "Save this {thing}{}",
    "Parse this{}",
)
_INSTRUCTIONS = (None, None, "Answer in JSON.", "You are a helpful assistant.")
_NESTED = 0.1
_SEVERAL = 0.05
_RECORDS = {Split.TRAIN: 0.75, Split.HELD_OUT: 0.5}


def case(draw: Draw) -> Case:
    """A request whose values the answer must hold, in the schema's order."""
    return _record(draw) if draw.chance(_RECORDS[draw.split]) else _form(draw)


def _record(draw: Draw) -> Case:
    """A sentence whose values are wanted as JSON."""
    if draw.split is Split.TRAIN and draw.chance(_SEVERAL):
        return _records(draw)
    start, declared = record_wanted(draw)
    text, turn = record_exchange(draw, declared, draw.pick(declared.kind.requests))
    return Case("structured", (*start, user(text)), (turn,))


def record_wanted(draw: Draw, exchanges: int = 1) -> tuple[tuple[Message, ...], Declared]:
    """The messages that ask for one kind of record as JSON, and the kind as it is declared.

    exchanges: how many sentences a kind that is composed should have.
    """
    declared = declare(draw, records.kind(draw, exchanges))
    if draw.split is Split.TRAIN and draw.chance(_NESTED):
        declared = nested(draw, declared)
    tool = declared.tool
    return _start(draw, tool, tool.parameters or {}), declared


def _start(draw: Draw, tool: FunctionTool, schema: Mapping[str, Any]) -> tuple[Message, ...]:
    name = draw.pick((tool.name, tool.name, "answer", "result", "response", "data", "record"))
    form = ResponseFormat(name, schema, tool.description)
    instructions = draw.pick(_INSTRUCTIONS)
    return (system(draw), *developer(instructions, formats=[form]))


def record_exchange(draw: Draw, declared: Declared, request: Request) -> tuple[str, Turn]:
    """A text that holds the values of a record, and the turn that answers with them."""
    said, filled = fill_in(draw, declared, request, request.text)
    text = records.request(draw, said)
    value = compact(_placed(declared, filled))
    return text, answer(draw, _thought(listed_values(filled)), value)


def _placed(declared: Declared, filled: Sequence[Filled]) -> dict[str, Any]:
    values = {f.field.name: f.value for f in filled}
    return arranged(declared.tool.parameters or {}, values)


def _records(draw: Draw) -> Case:
    """A text with several records of one kind, all of which are wanted as a list."""
    count = draw.pick((1, 2, 2, 3))
    declared = declare(draw, records.kind(draw, count))
    tool = declared.tool
    name, schema = several(draw, tool.parameters or {})
    said, values, listed = list[str](), [], list[str]()
    for _ in range(count):
        request = draw.pick(declared.kind.requests)
        text, filled = fill_in(draw, declared, request, request.text)
        said.append(text if text[-1] in ".!?" else f"{text}.")
        values.append(_placed(declared, filled))
        listed.append(listed_values(filled))
    text = records.request(draw, draw.pick((" ", "\n", " Then: ")).join(said))
    turn = answer(draw, _thought(" / ".join(listed)), compact({name: values}))
    return Case("structured", (*_start(draw, tool, schema), user(text)), (turn,))


def _form(draw: Draw) -> Case:
    """Fields of any name, and their values said as an application would."""
    fields = draw_fields(draw, draw.pick((1, 2, 2, 3, 3, 4, 5)))
    filled = [fill(draw, field) for field in fields]
    value: dict[str, Any] = {f.field.name: f.value for f in filled}
    schema = object_schema(fields, fields, strict=draw.chance(0.7))
    thing, text = _asked(draw, filled)
    values = listed_values(filled)
    if draw.chance(0.2):
        name, items = _list(draw, [f.name for f in fields])
        schema["properties"][name] = {"type": "array", "items": {"type": "string"}}
        schema["required"].append(name)
        value[name] = items
        text += f"{'' if text.endswith('.') else '.'} {name.replace('_', ' ')}: {', '.join(items)}"
        values += f"; {name} = {', '.join(items)}"
    if draw.chance(0.08):
        inner = draw_name(draw)
        whole = [Field(inner, "object")]
        schema = object_schema(whole, whole, strict=True) | {"properties": {inner: schema}}
        value = {inner: value}
    form = ResponseFormat(
        draw.pick((thing, "answer", "result", "response", "data", "output", "record")),
        schema,
        draw.pick((None, None, f"A {thing}.")),
    )
    instructions = draw.pick(_INSTRUCTIONS)
    history = (system(draw), *developer(instructions, formats=[form]), user(text))
    return Case("structured", history, (answer(draw, _thought(values), compact(value)),))


def exchange(draw: Draw, filled: Sequence[Filled]) -> tuple[str, Turn]:
    """A request that gives the values, and the turn that answers with them."""
    _, text = _asked(draw, filled)
    return text, answer(draw, _thought(listed_values(filled)), to_json(filled))


def _asked(draw: Draw, filled: Sequence[Filled]) -> tuple[str, str]:
    """What the values are about, and a request that gives them."""
    thing = draw.pick(nouns(draw.split))
    return thing, draw.pick(_ASK).format(mention(draw, filled), thing=thing)


def _list(draw: Draw, taken: Sequence[str]) -> tuple[str, list[str]]:
    name = draw_name(draw, taken)
    count = draw.rng.randint(1, 3)
    return name, [text_value(draw.rng, draw.split) for _ in range(count)]


def _thought(values: str) -> Thought:
    medium = f"The answer is JSON by the schema. The values are: {values}."
    high = (
        f"The answer must be JSON by the schema in the developer message and nothing else, so I "
        f"look at the schema first. I take each property in the order in which it stands there, "
        f"with the value that the user gives: {values}. I check the values once more before I go "
        f"on: {values}. All is there and nothing is made up, so now I write the JSON in one line."
    )
    return Thought("JSON by the schema.", medium, high)
