"""Everyday functions as they are declared, and requests for them with their values."""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from demo.skills import catalogue
from demo.skills.case import Draw
from demo.skills.catalogue import invented, linked, related, renaming
from demo.skills.catalogue.kinds import PLACEHOLDER, Kind, Parameter, Request
from demo.skills.catalogue.values import draw_value, json_type, schema
from demo.skills.catalogue.wording import as_written, chatty, reworded, with_slip
from demo.skills.forms import Field, Filled
from demo.skills.words import Split
from harmony.messages import FunctionTool

_FOREIGN = 0.1
_SLIP = 0.06
_POPULAR_WEIGHT = 6
_WITH_INVENTED = 0.45
_LINKED = 0.35
_PLAINLY_INVENTED = 0.4
_MORE, _LESS, _LONGER = 0.3, 0.15, 0.25
_TYPED, _TOLD = 0.5, 0.15
_ABOUT_TYPES: Mapping[str, Sequence[str]] = {
    "place": (
        "The {}, e.g. Paris",
        "{} (name of a city)",
        "A city or town: the {}",
        "The {}, for example Chicago",
        "{}, as the user names it",
    ),
    "person": ("Name of the {}", "The {}: a person's name", "Who: the {}", "{} (full name)"),
    "date": (
        "The {} in the form YYYY-MM-DD",
        "{} as an ISO date",
        "{} (YYYY-MM-DD)",
        "The {}, e.g. 2024-05-31",
    ),
    "time": ("The {} in the form HH:MM", "{} (24 hours)", "The {}, e.g. 18:30", "{} as HH:MM"),
    "int": (
        "The {}, a whole number",
        "Number: {}",
        "{} as an integer, e.g. 3",
        "How large the {} is",
        "The {} (default: 10)",
    ),
    "number": (
        "The {}, a number",
        "{} as a number, e.g. 2.5",
        "Value of the {}",
        "The {} without its unit",
    ),
    "bool": (
        "Whether {} applies",
        "True for {}",
        "If true, {}",
        "Set this for {}",
        "{}: yes or no",
        "Turns {} on or off",
    ),
    "enum": (
        "Which {}",
        "One of the values of {}",
        "The kind of {}",
        "The {} to choose",
        "{}: one of these",
    ),
    "email": ("Mail address: {}", "The {}, e.g. someone@example.com", "{} (an email address)"),
    "path": ("Path: {}", "The {}, absolute or relative", "{}, e.g. docs/readme.md"),
    "list": ("List of {}", "All {}, one entry each", "The {} as an array", "{} (one or more)"),
    "other": (
        "The {} as a text",
        "{}, in the user's words",
        "What the user gives as {}",
        "Text of the {}",
        "The {}, taken from the request",
    ),
}
_MORE_TOLD = (
    "Use it when the user asks for this.",
    "Returns JSON.",
    "Returns an error if that fails.",
    "Call it once.",
    "Ask for what is missing.",
    "Needs no login.",
    "Leave out what the user does not mention.",
    "Optional parameters have defaults.",
    "Works for all users.",
    "This may take some seconds.",
    "Do not use it for anything else.",
    "Examples are in the documentation.",
)
_VERBS = frozenset((
    "get", "set", "find", "search", "create", "add", "delete", "remove", "update", "send", "list",
    "book", "cancel", "start", "stop", "open", "close", "check", "make", "show", "look", "lookup",
    "fetch", "calculate", "calc", "compute", "order", "reserve", "change", "edit", "new", "current",
    "control", "status", "info", "data", "read", "write", "turn", "switch", "manage", "schedule",
    "ask", "for", "the", "all", "item", "items", "name", "one", "now",
))  # fmt: skip


@dataclass(frozen=True, slots=True)
class Declared:
    """A kind's function as one application declares it, with a field for each parameter."""

    kind: Kind
    tool: FunctionTool
    fields: tuple[tuple[Parameter, Field], ...]


def subjects(kind: Kind) -> frozenset[str]:
    """The words in the names of a kind that say what it is about."""
    words = re.findall(r"[A-Z]?[a-z]+", " ".join(kind.names))
    return frozenset(word.lower().rstrip("s") for word in words) - _VERBS


def draw_box(draw: Draw, count: int, other_than: Sequence[Kind] = ()) -> list[Declared]:
    """Functions of `count` kinds that differ in what they are about."""
    boxed: list[Declared] = []
    made_up = draw.split is Split.TRAIN and draw.chance(_WITH_INVENTED)
    drawn = _with_invented(draw) if made_up else iter(_shuffled(draw))
    by_tags = draw.split is Split.TRAIN and (made_up or len(other_than) > 0)
    taken = {mark for kind in other_than for mark in _marks(kind, by_tags=by_tags)}
    for kind in drawn:
        if len(boxed) == count:
            break
        marks = _marks(kind, by_tags=by_tags)
        if not taken & marks:
            boxed.append(declare(draw, adapted(draw, kind)))
            taken |= marks
    return boxed


def linked_box(draw: Draw, count: int) -> list[Declared]:
    """Functions whose values hang together (`linked`), with names of their own."""
    boxed: dict[str, Declared] = {}
    while len(boxed) < count:
        declared = declare(draw, adapted(draw, linked.linked(draw)))
        boxed[declared.tool.name] = declared
    return list(boxed.values())


def family(draw: Draw, count: int) -> list[Declared]:
    """Functions that do different things to one thing."""
    return [declare(draw, adapted(draw, kind)) for kind in invented.family(draw, count)]


def _with_invented(draw: Draw) -> Iterator[Kind]:
    """Kinds without an end, some or all of them invented."""
    share = draw.pick((0.3, 0.6, 1.0))
    known = catalogue.FUNCTIONS[draw.split]
    while True:
        if draw.chance(_LINKED):
            yield linked.linked(draw)
            continue
        yield invented.invented(draw) if draw.chance(share) else draw.pick(known)


def _marks(kind: Kind, *, by_tags: bool) -> frozenset[str]:
    """The subjects of a kind; by_tags: and what these are about."""
    words = subjects(kind)
    if not by_tags:
        return words
    return words.union(*(related.topics(word) for word in words))


def adapted(draw: Draw, kind: Kind) -> Kind:
    """The kind, in training at times with further optional parameters or without one of its own.

    Most requests do not mention these, so the model learns to leave out what is not said.
    """
    if draw.split is Split.HELD_OUT:
        return kind
    if draw.chance(_LESS):
        kind = _without_one(draw, kind)
    if draw.chance(_LONGER):
        kind = invented.extended(draw, kind)
    if draw.chance(_MORE):
        more = invented.extra(draw, kind.parameters, draw.pick((1, 1, 2, 3)))
        kind = replace(kind, parameters=(*kind.parameters, *more))
    return kind


def _without_one(draw: Draw, kind: Kind) -> Kind:
    optional = [parameter for parameter in kind.parameters if parameter.optional]
    if not optional:
        return kind
    lost = draw.pick(optional)
    left = tuple(
        request
        for request in kind.requests
        if lost.name not in request.mentioned and lost.name not in dict(request.fixed)
    )
    if not any(request.language == "en" for request in left):
        return kind
    parameters = tuple(parameter for parameter in kind.parameters if parameter is not lost)
    return replace(kind, parameters=parameters, requests=left)


def _shuffled(draw: Draw) -> list[Kind]:
    """All kinds in random order, popular ones earlier than others."""

    def place(kind: Kind) -> float:
        weight = _POPULAR_WEIGHT if kind.names[0] in catalogue.POPULAR else 1
        return -math.pow(draw.rng.random(), 1 / weight)

    return sorted(catalogue.FUNCTIONS[draw.split], key=place)


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
        abouts = [_about(draw, spoken, parameter)] if described or not tells else []
        if parameter.about:
            abouts.append(parameter.about)
        if abouts:
            made = {"type": made["type"], "description": ". ".join(abouts), **made}
        properties[name] = made
        choices = tuple(value for value, _ in parameter.choices)
        fields.append((parameter, Field(name, json_type(parameter), None, choices)))
    required = [field.name for parameter, field in fields if not parameter.optional]
    whole: dict[str, Any] = {"type": "object", "properties": properties, "required": required}
    if strict:
        whole["additionalProperties"] = False
    about = original = draw.pick(kind.descriptions)
    if draw.split is Split.TRAIN:
        about = reworded(draw, about)
    name, tells = renaming.function_name(draw, draw.pick(kind.names))
    about = about if tells else original
    description = draw.pick((about, about, f"{about}.", None if tells else about))
    if description and draw.split is Split.TRAIN and draw.chance(_TOLD):
        description = f"{description.removesuffix('.')}. {draw.pick(_MORE_TOLD)}"
    return Declared(kind, FunctionTool(name, description, whole), tuple(fields))


def _within_bounds(kind: Kind, parameter: Parameter) -> bool:
    fixed = [dict(request.fixed).get(parameter.name, 0) for request in kind.requests]
    return all(isinstance(value, str) or 0 <= value <= 1000 for value in fixed)


def _about(draw: Draw, name: str, parameter: Parameter) -> str:
    words = re.sub(r"(?<=[a-z])([A-Z])", r" \1", name).replace("_", " ").lower()
    if draw.split is Split.TRAIN and draw.chance(_TYPED):
        sort = parameter.type if parameter.type in _ABOUT_TYPES else "other"
        sort = "list" if parameter.type.endswith("[]") else sort
        return draw.pick(_ABOUT_TYPES[sort]).format(words)
    return draw.pick((f"The {words}", f"The {words} to use", f"{words.capitalize()}.", words))


def draw_request(draw: Draw, declared: Declared) -> tuple[str, tuple[Filled, ...]]:
    """What a person writes to have the function called, and the values, in the schema's order."""
    request = _pick(draw, declared.kind)
    template = request.text
    if draw.split is Split.TRAIN and request.language == "en" and not request.fixed:
        template = reworded(draw, template)
    template = with_slip(draw, template) if draw.chance(_SLIP) else template
    template = as_written(draw, template, request.language)
    if draw.split is Split.TRAIN:
        template = chatty(draw, template, request.language)
    else:
        template = _without_mark(declared.kind, template)
    return fill_in(draw, declared, request, template)


def _without_mark(kind: Kind, template: str) -> str:
    """The template without a mark behind a sentence at its end, which could be the sentence's own.

    What follows has a line of its own.
    """
    sentences = "|".join(p.name for p in kind.parameters if p.type == "sentence")
    text = re.sub(rf"(\{{(?:{sentences})\}})[.!?](?: |$)", r"\1\n", template)
    return text.removesuffix("\n")


def fill_in(
    draw: Draw, declared: Declared, request: Request, template: str
) -> tuple[str, tuple[Filled, ...]]:
    """The template with values, and all values of the request, those that it implies too."""
    fixed, filled = dict(request.fixed), list[Filled]()
    given = {name: (value, text) for name, value, text in request.given}
    said: dict[str, Filled] = {}
    for parameter, field in declared.fields:
        if parameter.name in given:
            one = Filled(field, *given[parameter.name])
        elif parameter.name in fixed:
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
        if match[2] is None or match[1] in given:
            around = template[match.start() - 1 : match.start()], template[match.end() :][:1]
            quoted = around[0] == around[1] and around[0] in ("'", '"')
            bare = quoted and isinstance(one.value, str) and one.value in one.text
            return one.value if bare else one.text
        return match[2] if one.value else match[3]

    return PLACEHOLDER.sub(spoken, template), tuple(filled)


def _pick(draw: Draw, kind: Kind) -> Request:
    foreign = [request for request in kind.requests if request.language != "en"]
    if foreign and draw.chance(_FOREIGN * 2):
        return draw.pick(foreign)
    return draw.pick([request for request in kind.requests if request.language == "en"])


def plain(draw: Draw) -> tuple[FunctionTool, str, tuple[Filled, ...]]:
    """A function of flat parameters, a request for it in plain words, its values."""
    declared = declare(draw, _flat(draw))
    requests = [r for r in declared.kind.requests if r.language == "en" and r.text[0] != "{"]
    request = draw.pick(requests or declared.kind.requests)
    text, filled = fill_in(draw, declared, request, request.text)
    return declared.tool, text, filled


def _flat(draw: Draw) -> Kind:
    if draw.split is Split.TRAIN and draw.chance(_PLAINLY_INVENTED):
        kind = invented.invented(draw)
        if kind.flat:
            return kind
    return draw.pick([kind for kind in catalogue.FUNCTIONS[draw.split] if kind.flat])
