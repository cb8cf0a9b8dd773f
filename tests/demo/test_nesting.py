"""Objects inside of records: the same values, in other places."""

from demo.skills import nesting, records
from demo.skills.catalogue.asking import declare
from tests.demo.drawing import drawn


def test_nested_declarations_keep_every_property() -> None:
    for index in range(100):
        draw = drawn(index)
        declared = declare(draw, records.kind(draw))
        before = (declared.tool.parameters or {})["properties"]
        after = (nesting.nested(draw, declared).tool.parameters or {})["properties"]
        inner = [schema["properties"] for schema in after.values() if "properties" in schema]
        names = [name for name in after if name in before]
        names += [name for one in inner for name in one if name in before]
        assert sorted(names) == sorted(before)


def test_values_are_arranged_by_the_schema() -> None:
    text = {"type": "string"}
    inner = {"type": "object", "properties": {"b": text, "c": text}}
    schema = {"properties": {"d": text, "inner": inner, "a": text}}
    flat = {"a": 1, "b": 2, "d": 4}
    assert nesting.arranged(schema, flat) == {"d": 4, "inner": {"b": 2}, "a": 1}
    assert list(nesting.arranged(schema, flat)) == ["d", "inner", "a"]
    assert nesting.arranged(schema, {"a": 1}) == {"a": 1}
