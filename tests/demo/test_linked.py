"""Functions whose values hang together: they obey the schema and stand in the request."""

from jsonschema import Draft202012Validator

from demo.skills.catalogue import linked
from demo.skills.catalogue.asking import declare, draw_request, fill_in
from demo.skills.catalogue.kinds import Kind, Parameter, Request
from tests.demo.drawing import drawn


def test_values_obey_the_schema_and_stand_in_the_request() -> None:
    for index in range(300):
        draw = drawn(index)
        declared = declare(draw, linked.linked(draw))
        text, filled = draw_request(draw, declared)
        values = {one.field.name: one.value for one in filled}
        Draft202012Validator(declared.tool.parameters or {}).validate(values)
        assert all(one.text in text for one in filled)
        assert "{" not in text or any("{" in one.text for one in filled)


def test_same_random_numbers_give_same_kind() -> None:
    assert linked.linked(drawn(1)) == linked.linked(drawn(1))
    assert linked.linked(drawn(1)) != linked.linked(drawn(2))


def test_given_values_are_taken_as_they_are() -> None:
    given = (("fields", ["a", "b"], "a and b"), ("n", 3, "three"))
    parameters = (Parameter(("fields",), "word[]"), Parameter(("n",), "int", True))
    made = Kind(("get",), ("Get",), parameters, (Request("{fields}, {n}", given=given),))
    declared = declare(drawn(0), made)
    text, filled = fill_in(drawn(0), declared, made.requests[0], made.requests[0].text)
    assert text == "a and b, three"
    assert sorted(map(str, (one.value for one in filled))) == ["3", "['a', 'b']"]


def test_a_quote_around_a_placeholder_is_not_doubled() -> None:
    given = (("body", "so be it", '"so be it"'),)
    made = Kind(
        ("say",), ("Say",), (Parameter(("body",), "text"),), (Request('"{body}"', given=given),)
    )
    text, _ = fill_in(drawn(0), declare(drawn(0), made), made.requests[0], made.requests[0].text)
    assert text == '"so be it"'


def test_currencies_without_choices_say_that_codes_are_wanted() -> None:
    found = 0
    for index in range(300):
        declared = declare(drawn(index), linked.linked(drawn(index)))
        properties = (declared.tool.parameters or {})["properties"].values()
        found += any("code" in one.get("description", "") for one in properties)
    assert found > 15
