"""Everyday functions as they are declared, and requests for them with their values."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from demo.skills import catalogue
from demo.skills.case import Draw
from demo.skills.catalogue import renaming
from demo.skills.catalogue.kinds import PLACEHOLDER, Kind, Parameter, Request
from demo.skills.catalogue.values import draw_value, json_type, schema
from demo.skills.catalogue.wording import with_slip, worded
from demo.skills.forms import Field, Filled
from demo.skills.words import Split
from harmony.messages import FunctionTool

_FOREIGN = 0.1
_SLIP = 0.06
_POPULAR_WEIGHT = 6
_VERBS = frozenset(
    [
        "get",
        "set",
        "find",
        "search",
        "create",
        "add",
        "delete",
        "remove",
        "update",
        "send",
        "list",
        "book",
        "cancel",
        "start",
        "stop",
        "open",
        "close",
        "check",
        "make",
        "show",
        "look",
        "lookup",
        "fetch",
        "calculate",
        "calc",
        "compute",
        "order",
        "reserve",
        "change",
        "edit",
        "new",
        "current",
        "control",
        "status",
        "info",
        "data",
        "read",
        "write",
        "turn",
        "switch",
        "manage",
        "schedule",
        "ask",
        "for",
        "the",
        "all",
        "item",
        "items",
        "name",
        "one",
        "now",
    ]
)


@dataclass(frozen=True, slots=True)
class Declared:
    """A kind's function as one application declares it, with a field for each parameter."""

    kind: Kind
    tool: FunctionTool
    fields: tuple[tuple[Parameter, Field], ...]


def kinds(split: Split) -> tuple[Kind, ...]:
    """The kinds that cases of a split may use."""
    return catalogue.TRAINING if split is Split.TRAIN else catalogue.UNSEEN


def subjects(kind: Kind) -> frozenset[str]:
    """The words in the names of a kind that say what it is about."""
    words = re.findall(r"[A-Z]?[a-z]+", " ".join(kind.names))
    return frozenset(word.lower().rstrip("s") for word in words) - _VERBS


def draw_box(draw: Draw, count: int, other_than: Sequence[Kind] = ()) -> list[Declared]:
    """Functions of `count` kinds that differ in what they are about."""
    boxed: list[Declared] = []
    taken = {word for kind in other_than for word in subjects(kind)}
    for kind in _shuffled(draw):
        if len(boxed) == count:
            break
        if not taken & subjects(kind):
            boxed.append(declare(draw, kind))
            taken |= subjects(kind)
    return boxed


def _shuffled(draw: Draw) -> list[Kind]:
    """All kinds in random order, popular ones earlier than others."""

    def place(kind: Kind) -> float:
        weight = _POPULAR_WEIGHT if kind.names[0] in catalogue.POPULAR else 1
        return -math.pow(draw.rng.random(), 1 / weight)

    return sorted(kinds(draw.split), key=place)


def declare(draw: Draw, kind: Kind) -> Declared:
    """A declaration of the kind's function: one of its names, a schema more or less rich."""
    parameters = list(kind.parameters)
    if draw.chance(0.15):
        draw.rng.shuffle(parameters)
    described, strict = draw.chance(0.35), draw.chance(0.5)
    fields: list[tuple[Parameter, Field]] = []
    properties: dict[str, Any] = {}
    for parameter in parameters:
        free = [name for name in parameter.names if name not in properties]
        spoken = draw.pick(free or parameter.names)
        name, tells = renaming.parameter_name(draw, spoken)
        if name in properties:
            name, tells = spoken, True
        parameter = replace(parameter, choices=renaming.choices(draw, kind, parameter))
        made = schema(draw, parameter, bounded=_within_bounds(kind, parameter))
        if described or not tells:
            made = {"type": made["type"], "description": _about(draw, spoken), **made}
        properties[name] = made
        choices = tuple(value for value, _ in parameter.choices)
        fields.append((parameter, Field(name, json_type(parameter), None, choices)))
    required = [field.name for parameter, field in fields if not parameter.optional]
    whole: dict[str, Any] = {"type": "object", "properties": properties, "required": required}
    if strict:
        whole["additionalProperties"] = False
    about = draw.pick(kind.descriptions)
    name, tells = renaming.function_name(draw, draw.pick(kind.names))
    description = draw.pick((about, about, f"{about}.", None if tells else about))
    return Declared(kind, FunctionTool(name, description, whole), tuple(fields))


def _within_bounds(kind: Kind, parameter: Parameter) -> bool:
    fixed = [dict(request.fixed).get(parameter.name, 0) for request in kind.requests]
    return all(isinstance(value, str) or 0 <= value <= 1000 for value in fixed)


def _about(draw: Draw, name: str) -> str:
    words = re.sub(r"(?<=[a-z])([A-Z])", r" \1", name).replace("_", " ").lower()
    return draw.pick((f"The {words}", f"The {words} to use", f"{words.capitalize()}.", words))


def draw_request(draw: Draw, declared: Declared) -> tuple[str, tuple[Filled, ...]]:
    """What a person writes to have the function called, and the values, in the schema's order."""
    request = _pick(draw, declared.kind)
    template = with_slip(draw, request.text) if draw.chance(_SLIP) else request.text
    return fill_in(draw, declared, request, worded(draw, template, request.language))


def fill_in(
    draw: Draw, declared: Declared, request: Request, template: str
) -> tuple[str, tuple[Filled, ...]]:
    """The template with values, and all values of the request, those that it implies too."""
    fixed, filled = dict(request.fixed), list[Filled]()
    said: dict[str, Filled] = {}
    for parameter, field in declared.fields:
        if parameter.name in fixed:
            value = fixed[parameter.name]
            one = Filled(field, value, str(value))
        elif parameter.name in request.mentioned:
            one = Filled(field, *draw_value(draw, parameter))
        else:
            continue
        filled.append(one)
        said[parameter.name] = one

    def spoken(match: re.Match[str]) -> str:
        one = said[match[1]]
        if match[2] is None:
            return one.text
        return match[2] if one.value else match[3]

    return PLACEHOLDER.sub(spoken, template), tuple(filled)


def _pick(draw: Draw, kind: Kind) -> Request:
    foreign = [request for request in kind.requests if request.language != "en"]
    if foreign and draw.chance(_FOREIGN * 2):
        return draw.pick(foreign)
    return draw.pick([request for request in kind.requests if request.language == "en"])


def plain(draw: Draw) -> tuple[FunctionTool, str, tuple[Filled, ...]]:
    """A function of flat parameters, a request for it in plain words, its values."""
    declared = declare(draw, draw.pick([kind for kind in kinds(draw.split) if kind.flat]))
    requests = [r for r in declared.kind.requests if r.language == "en" and r.text[0] != "{"]
    request = draw.pick(requests or declared.kind.requests)
    text, filled = fill_in(draw, declared, request, request.text)
    return declared.tool, text, filled
