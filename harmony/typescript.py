"""JSON Schema as the TypeScript-like types in which functions are declared to the model.

The text equals openai-harmony 0.0.8 wherever that says all that the schema says. It is total:
whatever cannot be said is `any`, with what it was in a comment. Where it differs:

T1.  `anyOf`, `allOf` and `$ref` are spelled out; a `$ref` that leads back into itself is
     `any /* recursive: Name */`. The library says `any`.
T2.  `const` and enums of any JSON values are their literals. The library knows enums of strings.
T3.  A list of types keeps each type's own enum, items and properties. The library names the types.
T4.  `null`, `false` (`never`), tuples and schemas that only imply their type are said. The library
     says `any`.
T5.  `additionalProperties` and `patternProperties` are `[key: string]: T`. The library omits them.
T6.  `nullable` counts at every depth, and is seen when a value's text merely contains "null".
T7.  Unions in arrays stand in parentheses. The library's `[]` binds to the last alternative.
T8.  A property's `oneOf` keeps all descriptions. The library drops the first alternative's below
     the property's own, and both where they are equal.
T9.  A shape beside `oneOf` is kept: `{…} & (…)`. The library drops it.
T10. Comments of several lines are comments on each line, or one line where they trail. In the
     library the second line is no comment, and a trailing comment swallows what follows. Lines end
     as in `literal.lines_of`; what ends a line within a JSON literal is escaped.
T11. Strings are JSON literals, and so are property names that are no identifiers. The library
     quotes without escaping.
T12. Examples of any JSON value are listed. The library lists strings.
T13. Descriptions of array items are kept in `/* */`. The library drops them.
T14. Numbers in defaults are written as Python's json does (`1e-05`). The library writes `0.00001`.
T15. A schema that says something and names no type is quoted in a comment after `any`.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from harmony import pointers
from harmony.literal import aside, comment, json_text, one_line

_DEEPEST = 40
_LONGEST_QUOTE = 400
_MOST_REFERENCED = 200_000  # characters of schema that references may repeat: they can double

_IDENTIFIER = re.compile(r"[A-Za-z_$][A-Za-z0-9_$]*")
_SIMPLE = {"string": "string", "number": "number", "integer": "number", "boolean": "boolean"}
_IMPLIED = {
    "object": ("properties", "additionalProperties", "patternProperties"),
    "array": ("items", "prefixItems"),
}
_UNIONS = ("oneOf", "anyOf")
_SHAPE = ("enum", *_IMPLIED["object"], *_IMPLIED["array"])
_ANNOTATIONS = frozenset(
    {
        *("title", "description", "default", "examples", "nullable", "deprecated"),
        *("readOnly", "writeOnly", "$comment", "$schema", "$id", "$anchor", "$defs", "definitions"),
    }
)


def type_of(schema: object) -> str:
    """The type that `schema` describes, in one or more lines; never raises."""
    return _Writer(schema).write(schema, _Place()).text


_Schema = Mapping[str, object]


class _Place(NamedTuple):
    """Where a type stands: its indent, the references being spelled out, the depth of nesting."""

    indent: str = ""
    open_refs: frozenset[tuple[str, ...]] = frozenset()
    depth: int = 0

    def inner(self, indent: str = "") -> "_Place":
        return _Place(self.indent + indent, self.open_refs, self.depth + 1)


@dataclass(frozen=True, slots=True)
class _Type:
    """A type's text. `compound`: it binds weaker than `[]` and `&`; `null`: it admits null."""

    text: str
    compound: bool = False
    null: bool = False

    @property
    def atom(self) -> str:
        return f"({self.text})" if self.compound else self.text


class _Variant(NamedTuple):
    """One alternative of a union, with the schema that its comments come from."""

    type: _Type
    schema: object


_NULL = _Type("null", null=True)


class _Writer:
    """Writes the types of one schema document, to whose root its references point."""

    def __init__(self, root: object) -> None:
        self._root = root
        self._left = _MOST_REFERENCED
        self._sizes: dict[tuple[str, ...], int] = {}

    def write(self, schema: object, place: _Place) -> _Type:
        """The type of a schema: its own shape and its combinations, joined by `&`."""
        if place.depth > _DEEPEST:
            return _unsaid("nested too deeply")
        schema, place = self._followed(schema, place)
        if isinstance(schema, bool):
            return _Type("any" if schema else "never")
        if not isinstance(schema, Mapping):
            return _unsaid(json_text(schema))
        if "$ref" in schema:
            return _unsaid(_reference(schema["$ref"], place))
        parts = [self._union(schema, key, place) for key in _UNIONS if _list(schema, key)]
        parts += [self.write(part, place.inner()) for part in _list(schema, "allOf")]
        if not parts or _has_shape(schema):
            parts.insert(0, self._shape(schema, place))
        return _nullable(schema, _intersection(parts))

    def _followed(self, schema: object, place: _Place) -> tuple[object, _Place]:
        """`schema` with its reference replaced; a `$ref` that stays cannot be spelled out here."""
        while isinstance(schema, Mapping) and isinstance(ref := schema.get("$ref"), str):
            beside = {key: value for key, value in schema.items() if key != "$ref"}
            if not _ANNOTATIONS.issuperset(beside):
                return {**beside, "allOf": [{"$ref": ref}, *_list(beside, "allOf")]}, place
            steps = pointers.steps(ref)
            if steps is None or steps in place.open_refs or not self._affordable(steps, ref):
                return schema, place
            target = pointers.resolve(ref, self._root)
            schema = {**target, **beside} if isinstance(target, Mapping) else target
            place = place._replace(open_refs=place.open_refs | {steps})
        return schema, place

    def _affordable(self, steps: tuple[str, ...], ref: str) -> bool:
        """Whether `ref` has a target and may be spelled out once more; if so, pays for it."""
        if steps not in self._sizes:
            target = pointers.resolve(ref, self._root)
            self._sizes[steps] = _MOST_REFERENCED if target is None else len(json_text(target))
        affordable = self._sizes[steps] < self._left
        self._left -= self._sizes[steps] if affordable else 0
        return affordable

    def _union(self, schema: _Schema, key: str, place: _Place) -> _Type:
        variants = self._variants(schema, key, place)
        if _fit_a_line(key, variants):
            return _either([variant.type for variant in variants])
        text = "".join(
            f"\n{place.indent} | {variant.type.text}{_trailing(_remarks(variant.schema))}"
            for variant in variants
        )
        if _remarks(variants[-1].schema):
            text += f"\n{place.indent}"
        return _Type(text, compound=True, null=any(variant.type.null for variant in variants))

    def _variants(self, schema: _Schema, key: str, place: _Place) -> list[_Variant]:
        variants = []
        for alternative in _list(schema, key):
            followed, inner = self._followed(alternative, place.inner("   "))
            variants.append(_Variant(self.write(followed, inner), followed))
        if schema.get("nullable") is True and not any(variant.type.null for variant in variants):
            variants.append(_Variant(_NULL, {}))
        return variants

    def _shape(self, schema: _Schema, place: _Place) -> _Type:
        """The type of a schema's own keywords, its combinations left aside."""
        if "const" in schema:
            return _literals([schema["const"]])
        kinds = _kinds(schema)
        values = [v for v in _list(schema, "enum") if not kinds or _is_any_of(v, kinds)]
        if values:
            return _literals(values)
        if kinds:
            return _either([self._kind(kind, schema, place) for kind in kinds])
        said = {key: value for key, value in schema.items() if key not in _ANNOTATIONS}
        return _unsaid(json_text(said)) if said else _Type("any")

    def _kind(self, kind: str, schema: _Schema, place: _Place) -> _Type:
        match kind:
            case "object":
                return _Type(self._object(schema, place))
            case "array":
                return _Type(self._array(schema, place))
            case "null":
                return _NULL
            case _:
                return _Type(_SIMPLE[kind]) if kind in _SIMPLE else _unsaid(kind)

    def _object(self, schema: _Schema, place: _Place) -> str:
        required = {name for name in _list(schema, "required") if isinstance(name, str)}
        members = [
            self._member(_name(name) + ("" if name in required else "?"), value, place)
            for name, value in _items(schema, "properties")
        ]
        for pattern, value in _items(schema, "patternProperties"):
            members.append(comment(f"keys that match {pattern}", place.indent))
            members.append(self._member("[key: string]", value, place))
        others = schema.get("additionalProperties")
        if others is not None and others is not False:
            members.append(self._member("[key: string]", others, place))
        return f"{_described(schema, place.indent)}{{\n{''.join(members)}{place.indent}}}"

    def _member(self, name: str, value: object, place: _Place) -> str:
        """The lines of one property: comments, `name: type,` and a trailing default."""
        followed, place = self._followed(value, place)
        schema = followed if isinstance(followed, Mapping) else {}
        key = _sole_union(schema)
        if key is not None:
            variants = self._variants(schema, key, place)
            if not _fit_a_line(key, variants):
                return _union_member(name, schema, variants, place.indent)
        written = self.write(followed, place.inner("    ")).text
        return (
            _titled(schema, place.indent)
            + _described(schema, place.indent)
            + _exemplified(schema, place.indent)
            + f"{place.indent}{name}: {written},{_trailing(_default(schema))}\n"
        )

    def _array(self, schema: _Schema, place: _Place) -> str:
        items = schema.get("items")
        prefix = _list(schema, "prefixItems") or _list(schema, "items")
        if prefix:
            rest = schema.get("additionalItems") if isinstance(items, list) else items
            closed = rest is False or schema.get("maxItems") == len(prefix)
            parts = [self.write(item, place.inner()).text for item in prefix]
            if not closed:
                parts.append(f"...{self._item(True if rest is None else rest, place)}[]")
            return f"[{', '.join(parts)}]"
        return f"{self._item(items, place)}[]" if "items" in schema else "Array<any>"

    def _item(self, value: object, place: _Place) -> str:
        """The type of an array's items, such that `[]` can follow it."""
        schema, place = self._followed(value, place.inner())
        written = self.write(schema, place)
        if not isinstance(schema, Mapping) or "object" in _kinds(schema):
            return written.atom
        description = schema.get("description")
        if not isinstance(description, str):
            return written.atom
        return f"({written.text} {aside(description)})"


def _list(schema: _Schema, key: str) -> Sequence[object]:
    value = schema.get(key)
    return value if isinstance(value, list | tuple) else ()


def _items(schema: _Schema, key: str) -> Iterable[tuple[object, object]]:
    value = schema.get(key)
    return value.items() if isinstance(value, Mapping) else ()


def _kinds(schema: _Schema) -> list[str]:
    """The JSON types that a schema names or, where it names none, implies."""
    named = schema.get("type")
    kinds = [named] if isinstance(named, str) else _list(schema, "type")
    strings = [kind for kind in kinds if isinstance(kind, str)]
    return list(dict.fromkeys(strings)) or [
        kind for kind, keys in _IMPLIED.items() if any(key in schema for key in keys)
    ]


def _is_any_of(value: object, kinds: list[str]) -> bool:
    match value:
        case None:
            return "null" in kinds
        case bool():
            return "boolean" in kinds
        case int() | float():
            return "number" in kinds or "integer" in kinds
        case str():
            return "string" in kinds
        case Mapping():
            return "object" in kinds
        case _:
            return "array" in kinds


def _has_shape(schema: _Schema) -> bool:
    """Whether a schema says more of itself than its type's name."""
    return "const" in schema or any(schema.get(key) for key in _SHAPE)


def _sole_union(schema: _Schema) -> str | None:
    """`oneOf` or `anyOf` where a schema is nothing else."""
    keys = [key for key in (*_UNIONS, "allOf") if _list(schema, key)]
    sole = len(keys) == 1 and keys[0] in _UNIONS and not _has_shape(schema)
    return keys[0] if sole else None


def _fit_a_line(key: str, variants: list[_Variant]) -> bool:
    # The library gives every alternative of a oneOf its line; anyOf is ours to lay out.
    return key == "anyOf" and not any(
        "\n" in variant.type.text or _remarks(variant.schema) for variant in variants
    )


def _literals(values: Iterable[object]) -> _Type:
    return _either([_Type(json_text(value), null=value is None) for value in values])


def _either(types: list[_Type]) -> _Type:
    texts = list(dict.fromkeys(t.text for t in types))
    compound = len(texts) > 1 or types[0].compound
    return _Type(" | ".join(texts), compound, null=any(t.null for t in types))


def _intersection(types: list[_Type]) -> _Type:
    if len(types) == 1:
        return types[0]
    return _Type(" & ".join(t.atom for t in types), compound=True)


def _nullable(schema: _Schema, written: _Type) -> _Type:
    wanted = schema.get("nullable") is True and not written.null
    return _either([written, _NULL]) if wanted else written


def _reference(ref: object, place: _Place) -> str:
    steps = pointers.steps(ref)
    if steps is not None and steps in place.open_refs:
        return f"recursive: {steps[-1] if steps else ref}"
    return json_text({"$ref": ref})


def _unsaid(what: str) -> _Type:
    short = what if len(what) <= _LONGEST_QUOTE else what[:_LONGEST_QUOTE] + "…"
    return _Type(f"any {aside(short)}", compound=True)


def _name(name: object) -> str:
    text = str(name)
    return text if _IDENTIFIER.fullmatch(text) else json_text(text)


def _titled(schema: _Schema, indent: str) -> str:
    title = schema.get("title")
    return f"{comment(title, indent)}{indent}//\n" if isinstance(title, str) else ""


def _described(schema: _Schema, indent: str) -> str:
    description = schema.get("description")
    return comment(description, indent) if isinstance(description, str) else ""


def _exemplified(schema: _Schema, indent: str) -> str:
    examples = _list(schema, "examples")
    listed = "".join(f"{indent}// - {json_text(example)}\n" for example in examples)
    return f"{indent}// Examples:\n{listed}" if examples else ""


def _default(schema: _Schema, *, bare: bool = True) -> list[str]:
    """The remark on a default. `bare`: one of an enum's strings stands without quotes."""
    if "default" not in schema:
        return []
    default = schema["default"]
    unquoted = bare and isinstance(default, str) and _list(schema, "enum")
    return [f"default: {default if unquoted else json_text(default)}"]


def _remarks(schema: object, *, bare: bool = False, said: object = None) -> list[str]:
    """What stands after an alternative; `said` is a description that need not be repeated."""
    if not isinstance(schema, Mapping):
        return []
    description = schema.get("description")
    told = [description] if isinstance(description, str) and description != said else []
    return told + _default(schema, bare=bare)


def _trailing(remarks: list[str]) -> str:
    return f" // {one_line(' '.join(remarks))}" if remarks else ""


def _union_member(name: str, schema: _Schema, variants: list[_Variant], indent: str) -> str:
    """A property whose alternatives take a line each."""
    above = _titled(schema, indent) + _exemplified(schema, indent) + _described(schema, indent)
    default = "".join(comment(text, indent) for text in _default(schema))
    said = schema.get("description")
    alternatives = "".join(
        f"{indent} | {variant.type.text}"
        f"{_trailing(_remarks(variant.schema, bare=True, said=said))}\n"
        for variant in variants
    )
    return f"{above}{default}{indent}{name}:\n{alternatives}{indent},\n"
