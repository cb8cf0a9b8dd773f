"""Checks whether JSON Schemas can be enforced strictly, before a request is accepted.

The rules are those of OpenAI's structured outputs
(https://platform.openai.com/docs/guides/structured-outputs, "Supported schemas"): the root is an
object, every object is closed and requires all its properties, sizes are bounded. What llguidance
enforces beyond this subset (its docs/json_schema.md) is supported too. Unknown keywords are
annotations, as in JSON Schema. The formats of dates are less strict than their definition: for
llguidance, February has 29 days in every year.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from harmony import pointers

Path = tuple[str | int, ...]

MAX_PROPERTIES = 5_000
MAX_DEPTH = 10
MAX_ENUM_VALUES = 1_000
MAX_NAME_CHARACTERS = 120_000
MAX_EXACT_INTEGER = 1 << 53

FORMATS = (
    *("date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"),
    "uri",
)
_TYPES = frozenset({"string", "number", "boolean", "integer", "object", "array", "null"})
_REFUSED = frozenset(
    {
        *("not", "if", "then", "else", "dependentRequired", "dependentSchemas", "dependencies"),
        *("contains", "minContains", "maxContains", "uniqueItems", "propertyNames"),
        *("unevaluatedItems", "unevaluatedProperties", "additionalItems"),
        *("$dynamicRef", "$dynamicAnchor", "$recursiveRef", "$recursiveAnchor", "$anchor"),
    }
)
# llguidance compares these numbers as doubles.
_VALUES = frozenset(
    {
        *("const", "enum", "multipleOf"),
        *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"),
    }
)
_COMPOSING = ("$ref", "anyOf", "oneOf", "allOf")
_SCHEMA_MAPS = ("properties", "$defs", "definitions", "patternProperties")
_SCHEMA_LISTS = ("anyOf", "oneOf", "allOf", "prefixItems")
_INNER = (*_SCHEMA_MAPS, *_SCHEMA_LISTS, "items", "additionalProperties")
_INNER_WORDS = frozenset(_INNER)
_COUNTED = frozenset({"properties", "$defs", "enum", "const"})
_NESTING = frozenset({"properties", "patternProperties", "items", "prefixItems"})


class UnsupportedSchema(ValueError):
    """A schema that cannot be enforced strictly. path: the steps from the root to the fault."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"{path_text(path)}: {reason}")
        self.path = path
        self.reason = reason


def root_type(schema: Mapping[str, Any]) -> str | None:
    """The value of `type` at the root of `schema` if it is one JSON type, else None."""
    named = schema.get("type")
    return named if isinstance(named, str) and named in _TYPES else None


def path_text(path: Path) -> str:
    """A path as text, such as `$` or `$.properties.a.anyOf[0]`."""
    steps = (f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
    return "$" + "".join(steps)


def check_strict(schema: Mapping[str, Any]) -> None:
    """Raises UnsupportedSchema, with the path, for the first fault that strict mode refuses."""
    if schema.get("type") != "object":
        raise UnsupportedSchema((), "the root has to be of type 'object'")
    if "anyOf" in schema:
        raise UnsupportedSchema(("anyOf",), "the root may not be a choice")
    sizes = _Sizes()
    references = _References(schema)
    checked: set[int] = set()
    waiting = [_root(schema)]
    while waiting:
        start = waiting.pop()
        for place in _places(start) if id(start.schema) not in checked else ():
            if id(place.schema) not in checked:
                checked.add(id(place.schema))
                sizes.add(place)
                _check(place)
                # The target of a reference may be under an unknown keyword.
                waiting += references.check(place)


def without_dialects(schema: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of `schema` without `$schema` and `$id`, which llguidance reads like `check_strict`.

    In llguidance an older dialect disables `prefixItems` in its schema, and references inside a
    schema with an identifier are relative to that schema.
    """
    return _rewritten(schema, _drop_dialect)


def _drop_dialect(place: dict[str, Any]) -> None:
    place.pop("$schema", None)
    place.pop("$id", None)


def for_llguidance(schema: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of `schema` that llguidance understands.

    References become URIs, the only form that it resolves. OpenAPI's `nullable`
    (https://spec.openapis.org/oas/v3.0.3#schema-object), which it does not know, becomes a type or
    an alternative; at the root, whose value is an object, it has no effect.
    """
    return _rewritten({k: v for k, v in schema.items() if k != "nullable"}, _translate)


def _translate(place: dict[str, Any]) -> None:
    if isinstance(reference := place.get("$ref"), str):
        place["$ref"] = pointers.canonical(reference)
    if place.pop("nullable", False) is True:
        _allow_null(place)


def _allow_null(place: dict[str, Any]) -> None:
    """Let a place be null too. What references may lead to keeps its path, as far as possible."""
    composing = [word for word in _COMPOSING if word in place]
    if len(composing) > 1:  # no single keyword holds the alternatives
        return
    if "anyOf" in place:
        if isinstance(place["anyOf"], list):
            place["anyOf"] = [*place["anyOf"], {"type": "null"}]
    elif composing:
        word = composing[0]
        place["anyOf"] = [{word: place.pop(word)}, {"type": "null"}]
    if "const" in place:
        place["enum"] = [place.pop("const")]
    if "type" in place:
        named = place["type"]
        place["type"] = [*(named if isinstance(named, list) else [named]), "null"]
    if isinstance(place.get("enum"), list):
        place["enum"] = [*place["enum"], None]


def _rewritten(
    schema: Mapping[str, Any], rewrite: Callable[[dict[str, Any]], object]
) -> dict[str, Any]:
    """A copy of `schema` in which `rewrite` was called with it and with each schema inside."""
    waiting = [whole := dict(schema)]

    def copied(value: Any) -> Any:
        if not isinstance(value, Mapping):
            return value
        waiting.append(copy := dict(value))
        return copy

    while waiting:
        place = waiting.pop()
        rewrite(place)
        for word in place.keys() & _INNER_WORDS:
            value = place[word]
            if isinstance(value, list):
                place[word] = [copied(inner) for inner in value]
            elif word in _SCHEMA_MAPS and isinstance(value, Mapping):
                place[word] = {name: copied(inner) for name, inner in value.items()}
            else:
                place[word] = copied(value)
    return whole


@dataclass(frozen=True, slots=True)
class _Place:
    """A schema inside a schema. depth: the number of values around the value that it describes."""

    path: Path
    schema: Mapping[str, Any]
    depth: int


def _root(schema: Mapping[str, Any]) -> _Place:
    return _Place((), schema, 0)


def _places(root: _Place) -> Iterator[_Place]:
    """All schemas in `root`, itself first. Raises UnsupportedSchema for a value of a wrong type."""
    waiting = [root]
    while waiting:
        place = waiting.pop()
        yield place
        found = (_place(place, path, value) for path, value in _inner(place))
        waiting += reversed([inner for inner in found if inner is not None])


def _inner(place: _Place) -> Iterator[tuple[Path, Any]]:
    schema = place.schema
    for word in _INNER:
        if word not in schema:
            continue
        if word in _SCHEMA_MAPS:
            for name, value in _of_kind(place, word, Mapping, {}).items():
                yield (word, name), value
        elif word in _SCHEMA_LISTS:
            for index, value in enumerate(_of_kind(place, word, list, [])):
                yield (word, index), value
        else:
            yield (word,), schema[word]


def _place(outer: _Place, steps: Path, value: Any) -> _Place | None:
    path = (*outer.path, *steps)
    if isinstance(value, bool):
        return None
    if not isinstance(value, Mapping):
        raise UnsupportedSchema(path, "expected a schema")
    depth = outer.depth + (steps[0] in _NESTING)
    if depth > MAX_DEPTH:
        raise UnsupportedSchema(path, f"nested in more than {MAX_DEPTH} levels")
    return _Place(path, value, depth)


def _of_kind(place: _Place, word: str, kind: type, missing: Any) -> Any:
    value = place.schema.get(word, missing)
    if not isinstance(value, kind):
        expected = "a list" if kind is list else "an object"
        raise UnsupportedSchema((*place.path, word), f"expected {expected}")
    return value


class _Sizes:
    """Checks the limits that apply to a schema as a whole."""

    def __init__(self) -> None:
        self._properties = 0
        self._values = 0
        self._characters = 0

    def add(self, place: _Place) -> None:
        """Add a schema inside it. Raises UnsupportedSchema if a limit is exceeded."""
        if _COUNTED.isdisjoint(place.schema):
            return
        properties = _of_kind(place, "properties", Mapping, {})
        names = [*properties, *_of_kind(place, "$defs", Mapping, {})]
        values = _of_kind(place, "enum", list, [])
        values_and_names = (*names, *values, place.schema.get("const"))
        texts = [text for text in values_and_names if isinstance(text, str)]
        self._properties += len(properties)
        self._values += len(values)
        self._characters += sum(map(len, texts))
        for size, limit, named in (
            (self._properties, MAX_PROPERTIES, "properties"),
            (self._values, MAX_ENUM_VALUES, "enum values"),
            (self._characters, MAX_NAME_CHARACTERS, "characters of names and values"),
        ):
            if size > limit:
                raise UnsupportedSchema(place.path, f"the schema has more than {limit:,} {named}")


def _check(place: _Place) -> None:
    schema, path = place.schema, place.path
    for word in schema:
        if word in _REFUSED:
            raise UnsupportedSchema((*path, word), f"'{word}' is not supported")
    types = _types(place)
    if "object" in types or "properties" in schema:
        _check_object(place)
    if "array" in types and not {"items", "prefixItems"} & schema.keys():
        raise UnsupportedSchema(path, "an array needs 'items'")
    if "format" in schema and schema["format"] not in FORMATS:
        named = ", ".join(FORMATS)
        raise UnsupportedSchema((*path, "format"), f"supported formats are {named}")
    if not isinstance(schema.get("pattern", ""), str):
        raise UnsupportedSchema((*path, "pattern"), "expected a string")
    for word in _VALUES & schema.keys():
        _check_exact((*path, word), schema[word])


def _check_exact(path: Path, value: Any) -> None:
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, int) and abs(one) > MAX_EXACT_INTEGER:
            raise UnsupportedSchema(path, f"{one} is beyond the integers that are exact, 2 ** 53")
        if isinstance(one, Mapping):
            waiting += one.values()
        elif isinstance(one, list):
            waiting += one


def _types(place: _Place) -> list[str]:
    named = place.schema.get("type", [])
    types = named if isinstance(named, list) else [named]
    for one in types:
        if not isinstance(one, str) or one not in _TYPES:
            raise UnsupportedSchema((*place.path, "type"), f"{one!r} is not a type")
    return types


def _check_object(place: _Place) -> None:
    schema, path = place.schema, place.path
    if schema.get("additionalProperties") is not False:
        raise UnsupportedSchema((*path, "additionalProperties"), "has to be given, and to be false")
    required = _of_kind(place, "required", list, [])
    properties = schema.get("properties", {})
    for name in properties:
        if name not in required:
            raise UnsupportedSchema((*path, "required"), f"has to name '{name}' too")
    for name in required:
        if not isinstance(name, str) or name not in properties:
            raise UnsupportedSchema((*path, "required"), f"names {name!r}, which is no property")


class _References:
    """Checks that references in `root` lead to schemas in it, without cycles of references only."""

    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root
        self._valid: set[tuple[str, ...]] = set()

    def check(self, place: _Place) -> Iterator[_Place]:
        """The targets of the reference of a place. Raises UnsupportedSchema for an invalid one."""
        followed: dict[tuple[str, ...], None] = {}
        schema: Any = place.schema
        while isinstance(schema, Mapping) and "$ref" in schema:
            reference = schema["$ref"]
            steps = pointers.steps(reference)
            if steps in self._valid:
                break
            if steps in followed:
                raise _invalid_reference(place, reference, "leads back to itself")
            schema = pointers.resolve(reference, self._root)
            if steps is None or not isinstance(schema, Mapping | bool):
                raise _invalid_reference(place, reference, "leads to no schema in this one")
            followed[steps] = None
            if isinstance(schema, Mapping):
                yield _Place(steps, schema, 0)
        self._valid.update(followed)


def _invalid_reference(place: _Place, reference: object, reason: str) -> UnsupportedSchema:
    return UnsupportedSchema((*place.path, "$ref"), f"{reference!r} {reason}")


MAX_OPEN = 400
"""The maximum of optional properties that a value may begin with, over all its alternatives.

llguidance stores about four items for each, and has a limit of 2,000 items (its default). A schema
with more properties compiles, but sampling fails at the beginning of such a value.
"""


def is_wide(schema: Mapping[str, Any]) -> bool:
    """Whether a value of `schema` may begin with more than `MAX_OPEN` optional properties."""
    choices = _Choices(schema)
    try:
        return any(choices.open(place.schema) > MAX_OPEN for place in _places(_root(schema)))
    except UnsupportedSchema:  # reported by `check_strict`
        return False


class _Choices:
    """Counts the optional properties of values. root: the schema that references refer to."""

    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root
        self._known: dict[int, int] = {}

    def open(self, schema: Any, depth: int = 0) -> int:
        """The number of optional properties that a value may begin with.

        Schemas that are nested too deep, or in themselves, count as 0. Keywords beside alternatives
        apply to each alternative.
        """
        if not isinstance(schema, Mapping) or depth > MAX_DEPTH:
            return 0
        if id(schema) in self._known:
            return self._known[id(schema)]
        self._known[id(schema)] = 0
        common = _optional(schema) + self.open(
            pointers.resolve(schema.get("$ref"), self._root), depth + 1
        )
        common += sum(self.open(each, depth + 1) for each in _listed(schema, "allOf"))
        ways = [*_listed(schema, "anyOf"), *_listed(schema, "oneOf")]
        count = sum(common + self.open(each, depth + 1) for each in ways) if ways else common
        self._known[id(schema)] = count
        return count


def _optional(schema: Mapping[str, Any]) -> int:
    properties = schema.get("properties")
    if not isinstance(properties, Mapping):
        return 0
    required = {name for name in _listed(schema, "required") if isinstance(name, str)}
    return len(properties.keys() - required)


def _listed(schema: Mapping[str, Any], word: str) -> list[Any]:
    value = schema.get(word)
    return value if isinstance(value, list) else []


_PLAIN_WORDS = frozenset(
    {
        *("type", "properties", "required", "additionalProperties", "items", "enum"),
        *("description", "title", "minLength", "maxLength"),
    }
)
_PLAIN_PLACES = 100
_PLAIN_CHARACTERS = 1_000


def is_plain(schema: Mapping[str, Any]) -> bool:
    """Whether a schema is so simple that it certainly compiles, and fast.

    It may have objects, arrays, scalars and enums of strings, within limits, but no references,
    patterns, bounds of numbers or unions.
    """
    try:
        for count, place in enumerate(_places(_root(schema))):
            if count == _PLAIN_PLACES or not _is_plain(place):
                return False
    except UnsupportedSchema:
        return False
    return True


def _is_plain(place: _Place) -> bool:
    schema = place.schema
    if not schema.keys() <= _PLAIN_WORDS or "type" not in schema:
        return False
    kind = schema["type"]
    if not isinstance(kind, str) or kind not in _TYPES or (kind == "array") != ("items" in schema):
        return False
    if not {"properties", "required", "additionalProperties"}.isdisjoint(schema):
        if kind != "object" or schema.get("additionalProperties", False) is not False:
            return False
        required, properties = schema.get("required", []), schema.get("properties", {})
        if not isinstance(required, list) or not isinstance(properties, Mapping):
            return False
        if not set(map(str, required)) <= properties.keys():
            return False
    return _plain_texts(schema, kind)


def _plain_texts(schema: Mapping[str, Any], kind: str) -> bool:
    sizes = [schema[word] for word in ("minLength", "maxLength") if word in schema]
    if sizes and (kind != "string" or len(sizes) == 2 or "enum" in schema):
        return False
    if any(type(size) is not int or not 0 <= size <= _PLAIN_CHARACTERS for size in sizes):
        return False
    values = schema.get("enum", [""])
    return (
        isinstance(values, list)
        and 0 < len(values) <= _PLAIN_PLACES
        and all(isinstance(value, str) and len(value) <= _PLAIN_CHARACTERS for value in values)
        and ("enum" not in schema or kind == "string")
    )
