"""Calls whose names and values are written in other tokens than they are read: for training alone.

`functions.monthly` begins with `.month`, `ly`, while the declaration has the one token ` monthly`.
A model that has met few words there writes the nearest one that it knows.
"""

from demo.skills import calls, drills
from demo.skills.case import Case, Draw, Exchange, Turn, developer, system, user
from demo.skills.catalogue import spans
from demo.skills.forms import Field, Filled, fill, mention, object_schema
from demo.skills.tasks import Task, ask
from demo.skills.words import nouns, spelt, spelt_alone
from harmony.messages import Effort, FunctionTool

_MANY = {Effort.LOW: 12, Effort.MEDIUM: 8, Effort.HIGH: 3}
_ANY = 0.6
"""How often a word is any one of the vocabulary, not one of the lexicon."""
_LONG, _ENUMS = 0.6, 0.2


def drill(draw: Draw) -> Case:
    """Many requests for the functions of one box, which say how these are called."""
    box: dict[str, FunctionTool] = {}
    fields: dict[str, list[Field]] = {}
    while len(box) < 4:
        name = _name(draw, before=".")
        fields[name] = _fields(draw)
        box[name] = _tool(draw, name, fields[name])
    exchanges: list[Exchange] = []
    for _ in range(_MANY[draw.effort]):
        name = draw.pick(tuple(box))
        filled = tuple(_fill(draw, field) for field in fields[name])
        task = Task(box[name], _request(draw, name, filled), filled)
        exchanges.append((user(task.request), (Turn(calls.calling(draw, task)),)))
    return drills.joined((system(draw), *developer(None, tuple(box.values()))), exchanges)


def _name(draw: Draw, before: str) -> str:
    """A name whose first word is spelt behind `before`."""
    while True:
        common, every = spelt(draw.split, before)
        word = draw.pick(every if draw.chance(_ANY) else common).lower()
        name = f"{word}_{draw.pick(nouns(draw.split))}" if draw.chance(_LONG) else word
        if spelt_alone(name, before):
            return name


def _fields(draw: Draw) -> list[Field]:
    made: dict[str, Field] = {}
    for _ in range(draw.pick((0, 1, 1, 2, 2, 3))):
        name = _name(draw, before="")
        kind = draw.pick(("string", "string", "string", "integer", "boolean"))
        made[name] = Field(name, kind)
        if draw.chance(_ENUMS):
            choices = tuple(dict.fromkeys(spans.word(draw) for _ in range(3)))
            made[name] = Field(name, "enum", None, choices)
    return list(made.values())


def _tool(draw: Draw, name: str, fields: list[Field]) -> FunctionTool:
    about = draw.pick((None, name.replace("_", " ").capitalize()))
    return FunctionTool(name, about, object_schema(fields, fields, strict=draw.chance(0.5)))


def _fill(draw: Draw, field: Field) -> Filled:
    if field.kind != "string":
        return fill(draw, field)
    text = draw.pick((spans.word, spans.word, spans.phrase, spans.title, spans.person))(draw)
    return Filled(field, text, text)


def _request(draw: Draw, name: str, filled: tuple[Filled, ...]) -> str:
    said = name if draw.chance(0.5) else name.replace("_", " ")
    lead = draw.pick(("use ", "call ", "run ", "", "", "start ", "I need "))
    return ask(draw, f"{lead}{said}{mention(draw, filled)}")
