"""A small language for declared functions and the requests that people make of them.

    get_weather|weather
    Get the weather|Look up the weather
    city|town:place unit:celsius/fahrenheit?
    weather in {city}
    is it freezing in {city}, in Fahrenheit => unit=fahrenheit

First the names of the function, then its descriptions, then the parameters (`name|alias:type`, with
a trailing `?` if optional), then requests; an empty line ends a kind, `#` begins a comment. In a
request `{city}` is the value of a parameter, `{on:on|off}` a text for a true and one for a false
value, and ` => key=value` fixes values that the wording implies. A request may begin with `de:`,
`fr:` or `es:`.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from demo.skills.catalogue.domains import domains
from demo.skills.catalogue.files import blocks

Value = str | int | float | bool

SIMPLE = frozenset((
    "place", "person", "text", "word", "title", "name", "int", "number", "bool", "date", "time",
    "email", "path", "url", "code", "passage", *domains(),
))  # fmt: skip
"""The types of one value, the domains' among them; the others are enums, lists `word[]`,
rows of numbers `number[][]` and objects `{a:word,b:int}`. A `passage` is quoted in requests."""

PLACEHOLDER = re.compile(r"\{(\w+)(?::([^|{}]*)\|([^{}]*))?\}")
"""A parameter in a request, with the texts for true and false if it has them."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter: its names, its type and, by type, the choices, the item or the properties.

    about: what every declaration says of it; each finds words of its own if this is empty.
    """

    names: tuple[str, ...]
    type: str
    optional: bool = False
    choices: tuple[tuple[str, str], ...] = ()
    properties: tuple["Parameter", ...] = ()
    about: str = ""

    @property
    def name(self) -> str:
        """The name by which requests refer to the parameter."""
        return self.names[0]

    @property
    def flat(self) -> bool:
        """Whether the value is neither a list nor an object."""
        return self.type in SIMPLE or self.type == "enum"


@dataclass(frozen=True, slots=True)
class Request:
    """A request's text with placeholders, its language, and the values that it implies.

    given: parameters whose values are part of the request, with these and how they are said.
    """

    text: str
    language: str = "en"
    fixed: tuple[tuple[str, Value], ...] = ()
    given: tuple[tuple[str, Any, str], ...] = ()

    @property
    def mentioned(self) -> frozenset[str]:
        """The parameters that the text gives a value of."""
        return frozenset(match[1] for match in PLACEHOLDER.finditer(self.text))


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of function: what it may be called, its parameters, and requests for it."""

    names: tuple[str, ...]
    descriptions: tuple[str, ...]
    parameters: tuple[Parameter, ...]
    requests: tuple[Request, ...]

    @property
    def flat(self) -> bool:
        """Whether no parameter is a list or an object."""
        return all(parameter.flat for parameter in self.parameters)


def parse(text: str) -> Iterator[Kind]:
    """The kinds of a whole text; ValueError with a kind's name for a mistake in it."""
    for block in blocks(text):
        yield kind(*block)


def kind(names: str, descriptions: str, parameters: str, *requests: str) -> Kind:
    """The kind that the texts describe; ValueError with its name for a mistake in them."""
    name = names.split("|")[0]
    try:
        parsed = tuple(parse_parameter(text) for text in _split(parameters))
        known = {parameter.name: parameter for parameter in parsed}
        if len(known) < len(parsed) or not requests:
            raise ValueError("a parameter is there twice, or there is no request")
        asked = tuple(parse_request(text, known) for text in requests)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from error
    return Kind(tuple(names.split("|")), tuple(descriptions.split("|")), parsed, asked)


def _split(parameters: str) -> list[str]:
    """The parameters' texts; a word without a type belongs to the spoken choice before it."""
    parts: list[str] = []
    for word in parameters.split():
        if ":" in word or not parts:
            parts.append(word)
        else:
            parts[-1] += f" {word}"
    return parts


def parse_parameter(text: str) -> Parameter:
    """The parameter that a text like `city|town:place?` declares; ValueError for a mistake."""
    optional = text.endswith("?")
    names, colon, type_ = text.removesuffix("?").partition(":")
    aliases = tuple(names.split("|"))
    if not colon or not all(re.fullmatch(r"[A-Za-z]\w*", alias) for alias in aliases):
        raise ValueError(f"not a parameter: {text}")
    if type_.startswith("{") and type_.endswith("}"):
        properties = tuple(parse_parameter(part) for part in type_[1:-1].split(","))
        return Parameter(aliases, "object", optional, properties=properties)
    if type_ in SIMPLE or type_.removesuffix("[]") in SIMPLE or type_ == "number[][]":
        return Parameter(aliases, type_, optional)
    choices = tuple(_choice(part) for part in type_.split("/"))
    if len(choices) < 2:
        raise ValueError(f"unknown type: {type_}")
    return Parameter(aliases, "enum", optional, choices)


def _choice(text: str) -> tuple[str, str]:
    value, _, spoken = text.partition("=")
    return value, spoken or value.replace("_", " ")


def parse_request(text: str, known: dict[str, Parameter]) -> Request:
    """The request that a text asks with, for the `known` parameters; ValueError for a mistake."""
    language = "en"
    if text[:4] in ("de: ", "fr: ", "es: "):
        language, text = text[:2], text[4:]
    text, _, implied = text.partition(" => ")
    pairs = [part.strip().partition("=") for part in implied.split(", ")] if implied else []
    for name in [match[1] for match in PLACEHOLDER.finditer(text)] + [key for key, _, _ in pairs]:
        if name not in known:
            raise ValueError(f"unknown parameter {name} in: {text}")
    fixed = tuple((key, _constant(known[key], value)) for key, _, value in pairs)
    made = Request(text.strip(), language, fixed)
    if "{" in PLACEHOLDER.sub("", text) or "}" in PLACEHOLDER.sub("", text):
        raise ValueError(f"a brace without its twin in: {text}")
    given = made.mentioned | {key for key, _ in fixed}
    missing = [p.name for p in known.values() if not p.optional and p.name not in given]
    if missing:
        raise ValueError(f"missing {', '.join(missing)} in: {text}")
    return made


def _constant(parameter: Parameter, text: str) -> Value:
    match parameter.type:
        case "bool" if text in ("true", "false"):
            return text == "true"
        case "int":
            return int(text)
        case "number":
            return float(text)
        case "enum" if text in dict(parameter.choices):
            return text
        case simple if simple in SIMPLE and simple != "bool":
            return text
        case _:
            raise ValueError(f"{text} is no value of {parameter.name}")
