"""The constraints that schemas without `strict` make."""

from typing import Any

import pytest

from harmony.grammar import AnyObject, SchemaJson
from server.inbound.constraints import BodyConstraint, answer_constraint, input_constraint
from server.inbound.formats import read_format
from server.inbound.tools import read_tools


def arguments(schema: Any) -> BodyConstraint:
    function = {"type": "function", "name": "f", "parameters": schema}
    (tool,) = read_tools([function]).served
    return input_constraint(tool, enforce_by_default=True)


def answer(schema: Any) -> BodyConstraint:
    form = {"type": "json_schema", "name": "n", "schema": schema}
    return answer_constraint(read_format(form, "text.format"))


@pytest.mark.parametrize(
    "schema",
    [{"type": "array", "items": {"type": "string"}}, {"type": "string"}, {"type": ["null"]}],
)
def test_arguments_whose_schema_permits_no_object_are_any_object(schema: Any) -> None:
    assert arguments(schema) == BodyConstraint(AnyObject())


@pytest.mark.parametrize("named", [{"type": ["object", "null"]}, {"type": "object"}, {}])
def test_arguments_are_an_object_whatever_else_the_schema_permits(named: Any) -> None:
    members = {"properties": {"a": {"type": "integer"}}}
    assert arguments({**named, **members}).body == SchemaJson({"type": "object", **members})


def test_an_empty_schema_permits_no_arguments() -> None:
    assert arguments({}) == arguments(None)


@pytest.mark.parametrize("constrained", [arguments, answer])
def test_a_keyword_that_cannot_be_enforced_leaves_the_rest_of_a_schema(constrained: Any) -> None:
    loose = {"type": "object", "properties": {"a": {"type": "integer", "const": 1 << 60}}}
    rest = {"type": "object", "properties": {"a": {"type": "integer"}}}
    assert constrained(loose) == BodyConstraint(SchemaJson(rest), fallback=AnyObject())
