"""Fields with values, as a function's parameters or a structured answer's properties have them."""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from demo.skills.case import Draw
from demo.skills.catalogue import spans
from demo.skills.phrases import enumerated
from demo.skills.words import Split, nouns, text_value

_SPANS, _PASSAGES, _SPELT = 0.5, 0.06, 0.3

_COMMON = (
    "name", "title", "city", "date", "time", "count", "amount", "color", "size", "email", "subject",
    "message", "query", "id", "language", "unit", "format", "status", "note", "topic", "address",
    "place", "user", "limit", "page", "price", "level", "mode", "type", "category", "room", "team",
    "label", "reason", "day", "month", "year", "number", "quantity", "code", "country", "location",
    "priority", "text",
)  # fmt: skip
_KINDS = {"string": 50, "integer": 18, "number": 8, "boolean": 10, "enum": 14}


@dataclass(frozen=True, slots=True)
class Field:
    """A named value of a JSON type; `choices` for enums; `about` is the schema's description."""

    name: str
    kind: str
    about: str | None = None
    choices: tuple[str, ...] = ()

    @property
    def words(self) -> str:
        """The name as a person says it."""
        return self.name.replace("_", " ")

    def schema(self) -> dict[str, Any]:
        """The field's JSON Schema."""
        schema: dict[str, Any] = {"type": "string" if self.kind == "enum" else self.kind}
        if self.about:
            schema["description"] = self.about
        if self.choices:
            schema["enum"] = list(self.choices)
        return schema


@dataclass(frozen=True, slots=True)
class Filled:
    """A field with its value, and how a request words the value."""

    field: Field
    value: Any
    text: str


def draw_name(draw: Draw, taken: Collection[str] = ()) -> str:
    """A field's name that is not `taken`: a common one, an unusual one, or two words."""
    while (name := _any_name(draw)) in taken:
        pass
    return name


def _any_name(draw: Draw) -> str:
    roll = draw.rng.random()
    if roll < 0.35:
        return draw.pick(_COMMON)
    if roll < 0.8:
        return draw.pick(nouns(draw.split))
    return f"{draw.pick(nouns(draw.split))}_{draw.pick(nouns(draw.split))}"


def _draw_field(draw: Draw, taken: Collection[str]) -> Field:
    name = draw_name(draw, taken)
    kind = draw.weighted(_KINDS)
    choices: tuple[str, ...] = ()
    if kind == "enum":
        picked = draw.rng.sample(nouns(draw.split), draw.rng.randint(2, 4))
        choices = tuple(picked)
        if draw.split is Split.TRAIN and draw.chance(_SPELT):
            choices = tuple(dict.fromkeys(spans.word(draw) for _ in picked))
    words = name.replace("_", " ")
    about = draw.pick((None, None, f"The {words}", f"The {words} to use", f"{words}."))
    return Field(name, kind, about, choices)


def draw_fields(draw: Draw, count: int) -> tuple[Field, ...]:
    """`count` fields with different names."""
    fields: dict[str, Field] = {}
    while len(fields) < count:
        field = _draw_field(draw, fields)
        fields[field.name] = field
    return tuple(fields.values())


def fill(draw: Draw, field: Field) -> Filled:
    """A value for `field`."""
    rng = draw.rng
    match field.kind:
        case "integer":
            value = rng.choice((rng.randint(0, 12), rng.randint(0, 999), rng.randint(0, 9999)))
            return Filled(field, value, str(value))
        case "number":
            number = rng.randint(1, 99) + rng.randint(1, 9) / 10
            return Filled(field, number, str(number))
        case "boolean":
            truth = draw.chance(0.5)
            text = draw.pick(("true", "yes", "on") if truth else ("false", "no", "off"))
            return Filled(field, truth, text)
        case "enum":
            choice = draw.pick(field.choices)
            return Filled(field, choice, choice)
        case "array":
            texts = [_text(draw) for _ in range(rng.randint(1, 3))]
            return Filled(field, texts, enumerated(texts))
        case _ if draw.split is Split.TRAIN and draw.chance(_PASSAGES):
            text = spans.passage(draw)
            return Filled(field, text, spans.quoted(draw, text))
        case _:
            text = _text(draw)
            return Filled(field, text, text)


def _text(draw: Draw) -> str:
    """A text; in training many begin with a word that has to be spelt, or with an article."""
    if draw.split is Split.TRAIN and draw.chance(_SPANS):
        return draw.pick((spans.phrase, spans.phrase, spans.title))(draw)
    return text_value(draw.rng, draw.split)


def to_json(filled: Sequence[Filled]) -> str:
    """The values as compact JSON, the way the model is to write it."""
    return compact({f.field.name: f.value for f in filled})


def compact(value: Any) -> str:
    """JSON without white space."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def object_schema(fields: Sequence[Field], required: Sequence[Field], *, strict: bool) -> Any:
    """An object's JSON Schema; `strict` adds `additionalProperties: false`."""
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {f.name: f.schema() for f in fields},
        "required": [f.name for f in required],
    }
    if strict:
        schema["additionalProperties"] = False
    return schema


def fields_of(schema: Mapping[str, Any]) -> tuple[Field, ...]:
    """The fields that `object_schema` made a schema of."""
    return tuple(
        Field(
            name,
            "enum" if "enum" in one else one["type"],
            one.get("description"),
            tuple(one.get("enum", ())),
        )
        for name, one in schema.get("properties", {}).items()
    )


def mention(draw: Draw, filled: Sequence[Filled]) -> str:
    """A clause that names each value: `with city Berlin and count 4`; empty for no values."""
    if not filled:
        return ""
    ordered = list(filled)
    if draw.chance(0.3) and (natural := _natural(draw, ordered)):
        return natural
    if draw.chance(0.2):
        draw.rng.shuffle(ordered)
    style = draw.rng.randrange(6)
    if style == 0:
        return ": " + ", ".join(f"{f.field.words} {f.text}" for f in ordered)
    if style == 1:
        return ", " + ", ".join(f"{f.field.words}: {f.text}" for f in ordered)
    if style == 2:
        return " with " + enumerated([f"{f.field.words} {f.text}" for f in ordered])
    if style == 3:
        return ". " + " ".join(f"The {f.field.words} is {f.text}." for f in ordered)
    if style == 4:
        return " with " + ", ".join(f"{f.field.name} = {f.text}" for f in ordered)
    return " where " + enumerated([f"the {f.field.words} is {f.text}" for f in ordered])


def _natural(draw: Draw, filled: Sequence[Filled]) -> str:
    """A clause without the fields' names, where the kinds alone tell which value is which."""
    kinds = [f.field.kind for f in filled]
    numbers = [kind in ("integer", "number") for kind in kinds]
    if len(filled) > 2 or kinds.count("string") > 1 or sum(numbers) > 1:
        return ""
    return "".join(" " + _natural_part(draw, f) for f in filled)


def _natural_part(draw: Draw, filled: Filled) -> str:
    words = filled.field.words
    match filled.field.kind:
        case "boolean":
            return f"{'with' if filled.value else 'without'} {words}"
        case "integer" | "number":
            return draw.pick(
                (f"with {filled.text} {words}", f"for {filled.text}", f"{filled.text}")
            )
        case "enum":
            return draw.pick(("in", "as", "on", "with")) + f" {filled.text}"
        case _:
            return draw.pick(("in", "for", "called", "of", "about", "from", "to", "by")) + (
                f" {filled.text}"
            )


def listed_values(filled: Sequence[Filled]) -> str:
    """The values as reasoning lists them: `city = Berlin; count = 4`."""
    if not filled:
        return "none"
    return "; ".join(f"{f.field.name} = {_plain(f.value)}" for f in filled)


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else compact(value)
