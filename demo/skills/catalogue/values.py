"""Values for the parameters of everyday functions, and the JSON Schemas that declare them."""

import re
from dataclasses import replace
from functools import cache
from typing import Any

from demo.skills.case import Draw
from demo.skills.catalogue import clauses, series, spans
from demo.skills.catalogue.domains import domains
from demo.skills.catalogue.domains import values as named
from demo.skills.catalogue.kinds import Parameter
from demo.skills.forms import compact
from demo.skills.phrases import enumerated
from demo.skills.words import (
    Split,
    aligned,
    begins_spelt,
    may_stand_apart,
    names,
    person,
    spelt_alone,
    split_of,
    text_value,
    words,
)
from harmony.tokenizer import encode

_PLACES = (
    "Paris", "Berlin", "Rome", "London", "Madrid", "Tokyo", "Vienna", "Lisbon", "Dublin", "Oslo",
    "Boston", "Chicago", "Denver", "Miami", "Seattle", "Toronto", "Sydney", "Munich", "Hamburg",
    "Prague", "Warsaw", "Athens", "Cairo", "Delhi", "Mumbai", "Seoul", "Lima", "Brussels",
    "Helsinki", "Stockholm", "Copenhagen", "Amsterdam", "Zurich", "Geneva", "Milan", "Naples",
    "Barcelona", "Porto", "Budapest", "Istanbul", "Dubai", "Bangkok", "Singapore", "Melbourne",
    "Dallas", "Houston", "Austin", "Atlanta", "Phoenix", "Montreal", "Vancouver", "Glasgow",
    "Liverpool", "Manchester", "Cologne", "Frankfurt", "Lyon", "Venice", "Florence", "Kyoto",
    "New York", "San Francisco", "Los Angeles", "Hong Kong", "Cape Town", "Buenos Aires",
    "San Diego", "Las Vegas", "Mexico City", "Tel Aviv",
)  # fmt: skip
_ENDINGS = ("com", "org", "net")
# After an @ these are one token with it, other words are not.
_HOSTS = ("example", "gmail", "mail", "email", "yahoo", "hotmail", "qq", "student", "login", "app")
_FILES = ("txt", "md", "py", "csv", "json", "pdf", "log", "html")

_NATURAL = 0.6
"""How often a value is one that people name. Else it is made of any words: a model that has met
each value in training knows it, and would not copy it."""

_SPANS = {"word": 0.7, "text": 0.8, "title": 0.7, "person": 0.35}
"""How often a value of a type is one of `spans`."""
_PASSAGES = 0.15
_LONG = frozenset({"text", "message", "note", "sentence", "question", "problem", "task", "search"})
"""The types whose values are long texts at times."""

_CLAUSES = 0.5
"""How often a sentence is put together from parts."""

_LARGE, _IN_WORDS = 0.08, 0.15
_NUMBERS = (
    "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven",
    "twelve",
)  # fmt: skip
_MAXIMA = (1000, 2000, 5000, 9999)

_JSON_TYPES = {"int": "integer", "number": "number", "bool": "boolean", "object": "object"}


@cache
def places(split: Split) -> tuple[str, ...]:
    """The known places of a split."""
    return tuple(p for p in _PLACES if aligned(p) and split_of(p) is split)


def copyable(value: str) -> bool:
    """Whether the value's tokens in a request say what they are between quotes in JSON.

    They are the same there, or the first word, one token after a space, is spelt after a quote. (A
    space before a digit is a token of its own, so a date keeps its tokens after one.)
    """
    ids = encode(value)
    quoted = encode(compact({"a": value}))
    found = any(quoted[i : i + len(ids)] == ids for i in range(len(quoted)))
    return found and (value[0].isdigit() or spelt_alone(value) or aligned(value))


def draw_value(draw: Draw, parameter: Parameter) -> tuple[Any, str]:
    """A value, and how a person words it."""
    if parameter.type == "enum":
        value, spoken = draw.pick(parameter.choices)
        return value, value if draw.chance(0.1) else spoken
    if parameter.type == "object":
        pairs = [(p.name, *draw_value(draw, p)) for p in parameter.properties]
        text = ", ".join(f"{name.replace('_', ' ')} {said}" for name, _, said in pairs)
        return {name: value for name, value, _ in pairs}, text
    if draw.split is Split.TRAIN:
        match parameter.type:
            case long if long == "passage" or (long in _LONG and draw.chance(_PASSAGES)):
                text = spans.passage(draw)
                return text, spans.quoted(draw, text)
            case "number[][]":
                return series.rows(draw)
            case "number[]" | "int[]":
                return series.numbers(draw, whole=parameter.type == "int[]")
    if parameter.type.endswith("[]"):
        return _several(draw, parameter.type.removesuffix("[]"))
    return _one(draw, parameter.type)


def _several(draw: Draw, type_: str) -> tuple[Any, str]:
    drawn = dict(_one(draw, type_)[::-1] for _ in range(draw.pick((1, 2, 2, 2, 3, 3, 4))))
    return list(drawn.values()), enumerated(list(drawn))


def _one(draw: Draw, type_: str) -> tuple[Any, str]:
    rng = draw.rng
    match type_:
        case "int":
            whole = rng.choice((rng.randint(1, 12), rng.randint(1, 99), rng.randint(1, 999)))
            return _as_told(draw, whole) if draw.split is Split.TRAIN else (whole, str(whole))
        case "number":
            number = (
                rng.randint(1, 99) + rng.choice((0, rng.randint(1, 9), rng.randint(1, 99))) / 10
            )
            plain = int(number) if number == int(number) else round(number, 1)
            return plain, str(plain)
        case "bool":
            truth = draw.chance(0.5)
            return truth, draw.pick(("on", "yes", "true") if truth else ("off", "no", "false"))
        case _:
            text = _text(draw, type_)
            while not copyable(text):
                text = _text(draw, type_)
            return text, text


def _as_told(draw: Draw, whole: int) -> tuple[int, str]:
    """The number, at times in a word if it is small; or a large one."""
    if draw.chance(_LARGE):
        whole = draw.rng.choice((draw.rng.randint(1, 99) * 1000, draw.rng.randint(1000, 99999)))
    if whole <= len(_NUMBERS) and draw.chance(_IN_WORDS):
        return whole, _NUMBERS[whole - 1]
    return whole, str(whole)


def _text(draw: Draw, type_: str) -> str:
    if type_ not in domains():
        return _made_text(draw, type_)
    if draw.split is Split.TRAIN and type_ in clauses.MADE and draw.chance(_CLAUSES):
        return clauses.MADE[type_](draw)
    if draw.split is Split.HELD_OUT or draw.chance(_NATURAL):
        text = draw.pick(named(type_, draw.split))
        if draw.split is Split.TRAIN and not begins_spelt(text):
            text = draw.pick(named(type_, draw.split))
        return text
    return _made_text(draw, domains()[type_].stand_in)


def _made_text(draw: Draw, type_: str) -> str:
    if draw.split is Split.TRAIN and type_ in spans.MADE and draw.chance(_SPANS[type_]):
        return spans.MADE[type_](draw)
    return _plain_text(draw, type_)


def _plain_text(draw: Draw, type_: str) -> str:
    rng, plain, capital = draw.rng, words(draw.split), names(draw.split)
    match type_:
        case "place":
            return draw.pick(places(draw.split) if draw.chance(0.5) else capital)
        case "person":
            return _person(draw)
        case "word":
            return draw.pick(plain)
        case "title":
            return " ".join(draw.pick(capital) for _ in range(rng.choice((1, 2, 2, 3))))
        case "name":
            return draw.pick(capital) if draw.chance(0.4) else _made_up(draw)
        case "date":
            return f"{rng.randint(2024, 2029)}-{rng.randint(1, 12):02}-{rng.randint(1, 28):02}"
        case "time":
            return f"{rng.randint(0, 23):02}:{rng.choice((0, 15, 30, 45, rng.randint(0, 59))):02}"
        case "email":
            host = draw.pick(_HOSTS) if draw.chance(0.5) else draw.pick(plain)
            return f"{draw.pick(plain)}@{host}.{draw.pick(_ENDINGS)}"
        case "path":
            folders = "".join(f"{draw.pick(plain)}/" for _ in range(rng.choice((0, 1, 1, 2))))
            return f"{draw.pick(('', '', '/'))}{folders}{draw.pick(plain)}.{draw.pick(_FILES)}"
        case "url":
            return f"https://{draw.pick(plain)}.{draw.pick(_ENDINGS)}/{draw.pick(plain)}"
        case "code":
            return f"{draw.pick(plain)}{rng.choice('-_')}{rng.randint(1, 999)}"
        case _:
            return " ".join(draw.pick(plain) for _ in range(rng.choice((1, 2, 2, 3))))


def _person(draw: Draw) -> str:
    """A name, without a first word that could stand before it: who left in `Hence Ada left`?"""
    first, *last = person(draw.rng, draw.split).split()
    return last[0] if last and may_stand_apart(first) else " ".join((first, *last))


def _made_up(draw: Draw) -> str:
    while True:
        word = text_value(draw.rng, draw.split)
        if re.fullmatch(r"[A-Z]?[a-z]+", word):
            return word


def json_type(parameter: Parameter) -> str:
    """The kind of a field for the parameter: its JSON type, or `enum`."""
    if parameter.type.endswith("[]"):
        return "array"
    return "enum" if parameter.type == "enum" else _JSON_TYPES.get(parameter.type, "string")


def schema(draw: Draw, parameter: Parameter, *, bounded: bool = True) -> dict[str, Any]:
    """A JSON Schema for the parameter; some numbers have bounds if `bounded` allows it."""
    if parameter.type == "object":
        return {
            "type": "object",
            "properties": {p.name: schema(draw, p) for p in parameter.properties},
            "required": [p.name for p in parameter.properties],
        }
    if parameter.type.endswith("[]"):
        inner = parameter.type.removesuffix("[]")
        if inner.endswith("[]"):
            return {"type": "array", "items": schema(draw, replace(parameter, type=inner))}
        return {"type": "array", "items": {"type": _JSON_TYPES.get(inner, "string")}}
    made: dict[str, Any] = {"type": _JSON_TYPES.get(parameter.type, "string")}
    if parameter.type == "enum":
        made["enum"] = [value for value, _ in parameter.choices]
        if draw.chance(0.3):
            draw.rng.shuffle(made["enum"])
    if parameter.type in ("int", "number") and bounded and draw.chance(0.2):
        made["minimum"] = 0
        if draw.chance(0.5):
            most = (100_000, 200_000, 1_000_000) if draw.split is Split.TRAIN else _MAXIMA
            made["maximum"] = draw.pick(most)
    if parameter.optional and draw.chance(0.15):
        made |= _default(draw, parameter)
    return made


def _default(draw: Draw, parameter: Parameter) -> dict[str, Any]:
    match parameter.type:
        case "enum":
            return {"default": draw.pick(parameter.choices)[0]}
        case "int":
            return {"default": draw.pick((1, 5, 10, 20))}
        case "bool":
            return {"default": False}
        case _:
            return {}
