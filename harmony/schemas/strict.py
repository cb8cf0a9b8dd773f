"""Checks whether JSON Schemas can be enforced strictly, before a request is accepted.

The rules are those of OpenAI's structured outputs
(https://platform.openai.com/docs/guides/structured-outputs, "Supported schemas"): the root is an
object, every object is closed and requires all its properties, sizes are bounded. What llguidance
enforces beyond this subset (its docs/json_schema.md) is supported too. Unknown keywords are
annotations, as in JSON Schema.

Two keywords are enforced by llguidance otherwise than defined. The formats of dates are less
strict: February has 29 days in every year. A `multipleOf` is more strict: it permits no negative
number. So it is refused beside a bound, a constant or an enum that is negative.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from harmony import pointers
from harmony.schemas.keywords import FORMATS, inexact, named_types, without_effect
from harmony.schemas.places import TYPES, Place, UnsupportedSchema, of_kind, places

MAX_PROPERTIES = 5_000
MAX_ENUM_VALUES = 1_000
MAX_NAME_CHARACTERS = 120_000

_REFUSED = frozenset(
    {
        *("not", "if", "then", "else", "dependentRequired", "dependentSchemas", "dependencies"),
        *("contains", "minContains", "maxContains", "uniqueItems", "propertyNames"),
        *("unevaluatedItems", "unevaluatedProperties", "additionalItems"),
        *("$dynamicRef", "$dynamicAnchor", "$recursiveRef", "$recursiveAnchor", "$anchor"),
    }
)
_OBJECT_WORDS = frozenset({"required", "additionalProperties", "patternProperties"})
_COUNTED = frozenset({"properties", "$defs", "enum", "const"})


def check_strict(schema: Mapping[str, Any]) -> None:
    """Raises UnsupportedSchema, with the path, for the first fault that strict mode refuses."""
    if schema.get("type") != "object":
        raise UnsupportedSchema((), "the root has to be of type 'object'")
    if "anyOf" in schema:
        raise UnsupportedSchema(("anyOf",), "the root may not be a choice")
    sizes = _Sizes()
    references = _References(schema)
    seen: set[int] = set()
    waiting = [Place((), schema, 0)]
    while waiting:
        for place in places(waiting.pop(), seen):
            sizes.add(place)
            _check(place)
            # The target of a reference may be under an unknown keyword.
            waiting += references.check(place)


class _Sizes:
    """Checks the limits that apply to a schema as a whole."""

    def __init__(self) -> None:
        self._properties = 0
        self._values = 0
        self._characters = 0

    def add(self, place: Place) -> None:
        """Add a schema inside it. Raises UnsupportedSchema if a limit is exceeded."""
        if _COUNTED.isdisjoint(place.schema):
            return
        properties = of_kind(place, "properties", Mapping, {})
        names = [*properties, *of_kind(place, "$defs", Mapping, {})]
        values = of_kind(place, "enum", list, [])
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


def _check(place: Place) -> None:
    schema, path = place.schema, place.path
    idle = {*without_effect(schema)}
    for word in schema:
        if word in _REFUSED and word not in idle:
            raise UnsupportedSchema((*path, word), f"'{word}' is not supported")
    types = _types(place)
    if "object" in types or "properties" in schema or _implies_object(schema):
        _check_object(place)
    if "array" in types and not {"items", "prefixItems"} & schema.keys():
        raise UnsupportedSchema(path, "an array needs 'items'")
    if "format" in schema and schema["format"] not in FORMATS:
        named = ", ".join(FORMATS)
        raise UnsupportedSchema((*path, "format"), f"supported formats are {named}")
    if not isinstance(schema.get("pattern", ""), str):
        raise UnsupportedSchema((*path, "pattern"), "expected a string")
    for word, reason in inexact(schema):
        raise UnsupportedSchema((*path, word), reason)


def _implies_object(schema: Mapping[str, Any]) -> bool:
    """Whether a schema without a type describes objects: of any keys, if it does not close them."""
    return "type" not in schema and not _OBJECT_WORDS.isdisjoint(schema)


def _types(place: Place) -> list[str]:
    types = named_types(place.schema)
    for one in types:
        if not isinstance(one, str) or one not in TYPES:
            raise UnsupportedSchema((*place.path, "type"), f"{one!r} is not a type")
    return types


def _check_object(place: Place) -> None:
    schema, path = place.schema, place.path
    if schema.get("additionalProperties") is not False:
        raise UnsupportedSchema((*path, "additionalProperties"), "has to be given, and to be false")
    required = of_kind(place, "required", list, [])
    properties = schema.get("properties", {})
    named = {name for name in required if isinstance(name, str)}
    for name in properties:
        if name not in named:
            raise UnsupportedSchema((*path, "required"), f"has to name '{name}' too")
    for name in required:
        if not isinstance(name, str) or name not in properties:
            raise UnsupportedSchema((*path, "required"), f"names {name!r}, which is no property")


class _References:
    """Checks that references in `root` lead to schemas in it, without cycles of references only."""

    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root
        self._valid: set[tuple[str, ...]] = set()

    def check(self, place: Place) -> Iterator[Place]:
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
                yield Place(steps, schema, 0)
        self._valid.update(followed)


def _invalid_reference(place: Place, reference: object, reason: str) -> UnsupportedSchema:
    return UnsupportedSchema((*place.path, "$ref"), f"{reference!r} {reason}")
