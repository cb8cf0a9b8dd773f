"""Writes JSON Schemas as the TypeScript-like types in which functions are declared to the model.

The text equals that of openai-harmony 0.0.8, except where the library loses parts of the schema.
Every schema gives a type. A part without an equivalent type becomes `any`, with the part in a
comment, and so does one whose lines would be very many. The differences are:

T1.  `anyOf`, `allOf` and `$ref` are spelled out; a `$ref` that leads back into itself is
     `any /* recursive: Name */`. The library writes `any`.
T2.  `const` and enums of any JSON values are their literals. The library knows enums of strings.
T3.  A list of types keeps each type's own enum, items and properties. The library names the types.
T4.  `null`, `false` (`never`), tuples and schemas that only imply their type have types. The
     library writes `any`.
T5.  `additionalProperties` and `patternProperties` are `[key: string]: T`. The library omits them.
T6.  `nullable` applies at every depth, and next to a value whose text contains "null".
T7.  Unions in arrays have parentheses. In the library `[]` binds to the last alternative.
T8.  A property's `oneOf` keeps all descriptions. The library drops the first alternative's below
     the property's own, and both where they are equal.
T9.  A shape beside `oneOf` is kept: `{…} & (…)`. The library drops it.
T10. Comments of several lines are comments on each line, or one line where they trail. In the
     library the second line is no comment, and a trailing comment swallows what follows. Lines end
     as in `literal.lines_of`; what ends a line within a JSON literal is escaped.
T11. Strings are JSON literals, and so are property names that are no identifiers. The library
     quotes without escaping.
T12. Examples of any JSON value are listed. The library lists strings.
T13. Descriptions of array items are kept in `/* */` unless they are blank. The library drops them.
T14. Numbers in defaults are written as Python's json does (`1e-05`, `1e+20`). The library writes
     `0.00001` and `1e20`.
T15. A schema with keywords but without a type is quoted in a comment after `any`.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from harmony import pointers
from harmony.literal import comment, inline_comment, json_text, lines_of, one_line
from harmony.schemas.keywords import ANNOTATIONS

_MAX_DEPTH = 40
_MAX_QUOTE = 400
# Characters of schema that references may repeat. Without a limit the text can grow exponentially.
_MAX_REFERENCED = 200_000
# Characters of what references lead to, also where that is too large to be repeated. References
# into one deep value would else measure it once for each level.
_MAX_MEASURED = 20_000_000
# Characters of indents and signs at the beginnings of lines. Without a limit, a schema of 2 MB can
# give 156 MB: each line of a description has the whole indent of its place.
_MAX_INDENTS = 4_000_000
_LINE_SIGNS = 8

_IDENTIFIER = re.compile(r"[A-Za-z_$][A-Za-z0-9_$]*")
_SIMPLE = {"string": "string", "number": "number", "integer": "number", "boolean": "boolean"}
_IMPLIED = {
    "object": ("properties", "additionalProperties", "patternProperties"),
    "array": ("items", "prefixItems"),
}
_UNIONS = ("oneOf", "anyOf")
_SHAPE = ("enum", *_IMPLIED["object"], *_IMPLIED["array"])


def type_of(schema: object) -> str:
    """The type that `schema` describes, in one or more lines. Never raises."""
    return _Writer(schema).write(schema, _Position()).text


_Schema = Mapping[str, object]


class _Position(NamedTuple):
    """The position of a type: its indent, the references being expanded, the depth of nesting."""

    indent: str = ""
    open_refs: frozenset[tuple[str, ...]] = frozenset()
    depth: int = 0

    def inner(self, indent: str = "") -> "_Position":
        return _Position(self.indent + indent, self.open_refs, self.depth + 1)


@dataclass(frozen=True, slots=True)
class _Type:
    """The text of a type. compound: it binds weaker than `[]` and `&`. null: it allows null."""

    text: str
    compound: bool = False
    null: bool = False

    @property
    def atom(self) -> str:
        return f"({self.text})" if self.compound else self.text


class _Variant(NamedTuple):
    """One alternative of a union, and the schema with its comments."""

    type: _Type
    schema: object


_NULL = _Type("null", null=True)


class _Writer:
    """Writes the types of one schema document; `root` is the document that references refer to."""

    def __init__(self, root: object) -> None:
        self._root = root
        self._budget = _MAX_REFERENCED
        self._sizes: dict[tuple[str, ...], int] = {}
        self._measurable = _MAX_MEASURED
        self._indents = _MAX_INDENTS

    def write(self, schema: object, position: _Position) -> _Type:
        """The type of a schema: its own shape and its combinations, joined by `&`."""
        if position.depth > _MAX_DEPTH:
            return _any_type("nested too deeply")
        schema, position = self._resolved(schema, position)
        if isinstance(schema, bool):
            return _Type("any" if schema else "never")
        if not isinstance(schema, Mapping):
            return _any_type(json_text(schema))
        if self._too_long(schema, position):
            return _TOO_LONG
        if "$ref" in schema:
            return _any_type(_reference(schema["$ref"], position))
        parts = [self._union(schema, key, position) for key in _UNIONS if _list(schema, key)]
        parts += [self.write(part, position.inner()) for part in _list(schema, "allOf")]
        if not parts or _has_shape(schema):
            parts.insert(0, self._shape(schema, position))
        return _nullable(schema, _intersection(parts))

    def _resolved(self, schema: object, position: _Position) -> tuple[object, _Position]:
        """`schema` with its reference resolved. A remaining `$ref` cannot be expanded here."""
        while isinstance(schema, Mapping) and isinstance(ref := schema.get("$ref"), str):
            siblings = {key: value for key, value in schema.items() if key != "$ref"}
            if not ANNOTATIONS.issuperset(siblings):
                return {**siblings, "allOf": [{"$ref": ref}, *_list(siblings, "allOf")]}, position
            steps = pointers.steps(ref)
            if steps is None or steps in position.open_refs or not self._affordable(steps, ref):
                return schema, position
            target = pointers.resolve(ref, self._root)
            schema = {**target, **siblings} if isinstance(target, Mapping) else target
            position = position._replace(open_refs=position.open_refs | {steps})
        return schema, position

    def _affordable(self, steps: tuple[str, ...], ref: str) -> bool:
        """Whether `ref` has a target that fits the remaining budget; if so, reduces the budget."""
        if steps not in self._sizes:
            target = pointers.resolve(ref, self._root) if self._measurable > 0 else None
            size = _MAX_REFERENCED if target is None else len(json_text(target))
            self._sizes[steps] = size
            self._measurable -= size
        affordable = self._sizes[steps] < self._budget
        self._budget -= self._sizes[steps] if affordable else 0
        return affordable

    def _too_long(self, schema: _Schema, position: _Position) -> bool:
        """Whether the lines of `schema` exceed the remaining budget, which they reduce."""
        self._indents -= _lines(schema) * (len(position.indent) + _LINE_SIGNS)
        return self._indents < 0

    def _union(self, schema: _Schema, key: str, position: _Position) -> _Type:
        variants = self._variants(schema, key, position)
        if _fit_a_line(key, variants):
            return _either([variant.type for variant in variants])
        text = "".join(
            f"\n{position.indent} | {variant.type.text}{_trailing(_remarks(variant.schema))}"
            for variant in variants
        )
        if _remarks(variants[-1].schema):
            text += f"\n{position.indent}"
        return _Type(text, compound=True, null=any(variant.type.null for variant in variants))

    def _variants(self, schema: _Schema, key: str, position: _Position) -> list[_Variant]:
        variants = []
        for alternative in _list(schema, key):
            followed, inner = self._resolved(alternative, position.inner("   "))
            variants.append(_Variant(self.write(followed, inner), followed))
        if schema.get("nullable") is True and not any(variant.type.null for variant in variants):
            variants.append(_Variant(_NULL, {}))
        return variants

    def _shape(self, schema: _Schema, position: _Position) -> _Type:
        """The type that a schema's own keywords describe, without its combinations."""
        if "const" in schema:
            return _literals([schema["const"]])
        kinds = _kinds(schema)
        known = frozenset(kinds)
        values = [v for v in _list(schema, "enum") if not kinds or _is_any_of(v, known)]
        if values:
            return _literals(values)
        if kinds:
            return _either([self._kind(kind, schema, position) for kind in kinds])
        keywords = {key: value for key, value in schema.items() if key not in ANNOTATIONS}
        return _any_type(json_text(keywords)) if keywords else _Type("any")

    def _kind(self, kind: str, schema: _Schema, position: _Position) -> _Type:
        match kind:
            case "object":
                return _Type(self._object(schema, position))
            case "array":
                return _Type(self._array(schema, position))
            case "null":
                return _NULL
            case _:
                return _Type(_SIMPLE[kind]) if kind in _SIMPLE else _any_type(kind)

    def _object(self, schema: _Schema, position: _Position) -> str:
        required = {name for name in _list(schema, "required") if isinstance(name, str)}
        members = [
            self._member(_name(name) + ("" if name in required else "?"), value, position)
            for name, value in _items(schema, "properties")
        ]
        for pattern, value in _items(schema, "patternProperties"):
            members.append(comment(f"keys that match {pattern}", position.indent))
            members.append(self._member("[key: string]", value, position))
        others = schema.get("additionalProperties")
        if others is not None and others is not False:
            members.append(self._member("[key: string]", others, position))
        return f"{_described(schema, position.indent)}{{\n{''.join(members)}{position.indent}}}"

    def _member(self, name: str, value: object, position: _Position) -> str:
        """The lines of one property: comments, `name: type,` and a trailing default."""
        followed, position = self._resolved(value, position)
        schema = followed if isinstance(followed, Mapping) else {}
        if self._too_long(schema, position):
            return f"{position.indent}{name}: {_TOO_LONG.text},\n"
        key = _sole_union(schema)
        if key is not None:
            variants = self._variants(schema, key, position)
            if not _fit_a_line(key, variants):
                return _union_member(name, schema, variants, position.indent)
        written = self.write(followed, position.inner("    ")).text
        return (
            _titled(schema, position.indent)
            + _described(schema, position.indent)
            + _exemplified(schema, position.indent)
            + f"{position.indent}{name}: {written},{_trailing(_default(schema))}\n"
        )

    def _array(self, schema: _Schema, position: _Position) -> str:
        items = schema.get("items")
        prefix = _list(schema, "prefixItems") or _list(schema, "items")
        if prefix:
            rest = schema.get("additionalItems") if isinstance(items, list) else items
            closed = rest is False or schema.get("maxItems") == len(prefix)
            parts = [self.write(item, position.inner()).text for item in prefix]
            if not closed:
                parts.append(f"...{self._item(True if rest is None else rest, position)}[]")
            return f"[{', '.join(parts)}]"
        return f"{self._item(items, position)}[]" if "items" in schema else "Array<any>"

    def _item(self, value: object, position: _Position) -> str:
        """The type of the items of an array, in a form that `[]` can follow."""
        schema, position = self._resolved(value, position.inner())
        written = self.write(schema, position)
        if not isinstance(schema, Mapping) or "object" in _kinds(schema):
            return written.atom
        description = schema.get("description")
        if not isinstance(description, str) or not description.strip():
            return written.atom
        return f"({written.text} {inline_comment(description)})"


def _lines(schema: _Schema) -> int:
    """How many lines a schema begins, without those of the schemas in it."""
    texts = [schema.get("title"), schema.get("description")]
    texts += [f"{pattern}" for pattern, _ in _items(schema, "patternProperties")]
    values = [_list(schema, key) for key in ("examples", *_UNIONS)]
    properties = schema.get("properties")
    values += [list(properties)] if isinstance(properties, Mapping) else []
    return sum(len(lines_of(text)) for text in texts if isinstance(text, str)) + sum(
        map(len, values)
    )


def _list(schema: _Schema, key: str) -> Sequence[object]:
    value = schema.get(key)
    return value if isinstance(value, list | tuple) else ()


def _items(schema: _Schema, key: str) -> Iterable[tuple[object, object]]:
    value = schema.get(key)
    return value.items() if isinstance(value, Mapping) else ()


def _kinds(schema: _Schema) -> list[str]:
    """The JSON types that a schema names or, if it names none, implies."""
    types = schema.get("type")
    kinds = [types] if isinstance(types, str) else _list(schema, "type")
    strings = [kind for kind in kinds if isinstance(kind, str)]
    return list(dict.fromkeys(strings)) or [
        kind for kind, keys in _IMPLIED.items() if any(key in schema for key in keys)
    ]


def _is_any_of(value: object, kinds: frozenset[str]) -> bool:
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
    """Whether a schema has keywords that describe its values in more detail than `type`."""
    return "const" in schema or any(schema.get(key) for key in _SHAPE)


def _sole_union(schema: _Schema) -> str | None:
    """`oneOf` or `anyOf` if a schema has no other keywords of its own, else None."""
    keys = [key for key in (*_UNIONS, "allOf") if _list(schema, key)]
    sole = len(keys) == 1 and keys[0] in _UNIONS and not _has_shape(schema)
    return keys[0] if sole else None


def _fit_a_line(key: str, variants: list[_Variant]) -> bool:
    # The library writes each alternative of a oneOf on a line. It has no layout for anyOf.
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
    needs_null = schema.get("nullable") is True and not written.null
    return _either([written, _NULL]) if needs_null else written


def _reference(ref: object, position: _Position) -> str:
    steps = pointers.steps(ref)
    if steps is not None and steps in position.open_refs:
        return f"recursive: {steps[-1] if steps else ref}"
    return json_text({"$ref": ref})


def _any_type(reason: str) -> _Type:
    short = reason if len(reason) <= _MAX_QUOTE else reason[:_MAX_QUOTE] + "…"
    return _Type(f"any {inline_comment(short)}", compound=True)


_TOO_LONG = _any_type("too long")


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
    """The remark on a default. bare: write a string of an enum without quotes."""
    if "default" not in schema:
        return []
    default = schema["default"]
    unquoted = bare and isinstance(default, str) and _list(schema, "enum")
    return [f"default: {default if unquoted else json_text(default)}"]


def _remarks(schema: object, *, bare: bool = False, omitted: object = None) -> list[str]:
    """The remarks after an alternative: its description, unless `omitted`, and its default."""
    if not isinstance(schema, Mapping):
        return []
    text = schema.get("description")
    descriptions = [text] if isinstance(text, str) and text != omitted else []
    return descriptions + _default(schema, bare=bare)


def _trailing(remarks: list[str]) -> str:
    return f" // {one_line(' '.join(remarks))}" if remarks else ""


def _union_member(name: str, schema: _Schema, variants: list[_Variant], indent: str) -> str:
    """A property with one line for each alternative."""
    above = _titled(schema, indent) + _exemplified(schema, indent) + _described(schema, indent)
    default = "".join(comment(text, indent) for text in _default(schema))
    description = schema.get("description")
    alternatives = "".join(
        f"{indent} | {variant.type.text}"
        f"{_trailing(_remarks(variant.schema, bare=True, omitted=description))}\n"
        for variant in variants
    )
    return f"{above}{default}{indent}{name}:\n{alternatives}{indent},\n"
