"""Everyday functions: the language of kinds, the values that requests give, the two splits."""

import json
import re
from collections import Counter
from importlib import resources
from typing import Any

import pytest

from demo.skills import catalogue, everyday
from demo.skills.catalogue.asking import declare, draw_box, draw_request, fill_in, subjects
from demo.skills.catalogue.kinds import PLACEHOLDER, SIMPLE, Parameter, kind, parse
from demo.skills.catalogue.values import draw_value
from demo.skills.words import Split, may_stand_apart
from harmony.messages import Channel, Effort
from harmony.tokenizer import encode
from tests.demo.drawing import drawn
from tests.demo.evaluated import is_asked, is_variant

TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
}


@pytest.mark.parametrize(
    ("parameters", "request_", "problem"),
    [
        ("city:place", "weather in {town}", "unknown parameter town"),
        ("city:place unit:a/b", "weather in {city}", "missing unit"),
        ("city:place unit:a/b", "weather in {city} => unit=c", "c is no value of unit"),
        ("city:village", "weather in {city}", "unknown type"),
        ("city:place", "weather in {city", "brace"),
    ],
)
def test_mistakes_in_a_kind_are_reported_with_its_name(
    parameters: str, request_: str, problem: str
) -> None:
    with pytest.raises(ValueError, match=f"get_weather: .*{problem}"):
        kind("get_weather|weather", "Get the weather", parameters, request_)


def test_implied_values_are_in_the_call_and_unmentioned_ones_are_not() -> None:
    made = kind(
        "set_heat",
        "Set the heat",
        "room:word unit|units:c=degrees Celsius/f? on|active:bool level:int?",
        "{on:warm|cool} the {room} => unit=c, level=3",
    )
    for index in range(20):
        draw = drawn(index)
        text, filled = draw_request(draw, declare(draw, made))
        values = [f.value for f in filled]
        assert {"c", 3} <= set(values)
        truth = next(v for v in values if isinstance(v, bool))
        assert ("war" in text.lower()) == truth


@pytest.mark.parametrize("split", Split)
def test_values_fit_the_schema_and_stand_in_the_request(split: Split) -> None:
    for index in range(300):
        draw = drawn(index, split)
        made = draw.pick(catalogue.FUNCTIONS[split])
        declared, request = declare(draw, made), draw.pick(made.requests)
        text, filled = fill_in(draw, declared, request, request.text)
        schema = dict(declared.tool.parameters or {})
        given = [f.field.name for f in filled]
        assert given == [name for name in schema["properties"] if name in given]
        assert set(schema["required"]) <= set(given)
        by_field = {one.field.name: one for one in filled}
        for parameter, field in declared.fields:
            if field.name not in by_field:
                continue
            one, property_ = by_field[field.name], schema["properties"][field.name]
            assert type(one.value) in TYPES[property_["type"]]
            assert one.value in property_.get("enum", [one.value])
            if "minimum" in property_:
                assert property_["minimum"] <= one.value <= property_.get("maximum", one.value)
            if parameter.name in request.mentioned and parameter.type != "bool":
                # A request's own quotes replace those around a text.
                held = isinstance(one.value, str) and one.value in one.text
                assert (one.value if held else one.text) in text


def test_no_mark_of_the_evaluation_could_be_a_part_of_the_sentence_before_it() -> None:
    made = kind("tell", "Tell", "text:sentence", "tell her {text}", "does she know {text}")
    for index in range(100):
        draw = drawn(index, Split.HELD_OUT)
        text, (filled,) = draw_request(draw, declare(draw, made))
        behind = text.partition(filled.value)[2]
        assert behind == "" or behind.startswith("\n")


def test_no_name_of_two_words_could_be_another_word_and_a_name() -> None:
    assert may_stand_apart("Hence")
    assert not may_stand_apart("Anna")
    draws = (drawn(index, Split.HELD_OUT) for index in range(1500))
    made = [draw_value(draw, Parameter(("a",), "person"))[0] for draw in draws]
    names = [name.split() for name in made if " " in name]
    assert len(names) > 300
    assert not [first for first, _ in names if may_stand_apart(first)]


@pytest.mark.parametrize("type_", sorted(SIMPLE))
@pytest.mark.parametrize("split", Split)
def test_each_type_has_values_that_can_be_copied(type_: str, split: Split) -> None:
    values = {draw_value(drawn(index, split), Parameter(("a",), type_))[1] for index in range(10)}
    assert len(values) >= 2


def test_no_two_kinds_share_a_name() -> None:
    for split in Split:
        found = Counter(name for made in catalogue.FUNCTIONS[split] for name in set(made.names))
        assert not [name for name, count in found.items() if count > 1]


@pytest.mark.parametrize("make", [everyday.case, everyday.drill])
def test_same_random_numbers_give_same_case(make: Any) -> None:
    assert make(drawn(3)) == make(drawn(3))
    assert make(drawn(3)) != make(drawn(4))


def test_evaluation_has_kinds_and_wordings_of_its_own() -> None:
    def wordings(kinds: tuple[Any, ...]) -> set[str]:
        return {PLACEHOLDER.sub("_", r.text).lower() for k in kinds for r in k.requests}

    def names(kinds: tuple[Any, ...]) -> set[str]:
        return {name for k in kinds for name in k.names}

    trained, held_out = (catalogue.FUNCTIONS[split] for split in (Split.TRAIN, Split.HELD_OUT))
    shared = wordings(trained) & wordings(held_out)
    assert not {text for text in shared if re.search(r"[a-z]{3}", text)}
    unseen = names(held_out)
    assert not names(trained) & unseen
    for index in range(60):
        for split in Split:
            case = everyday.case(drawn(index, split))
            developer: Any = case.history[1].content
            tools = developer.tools[0].tools
            assert {tool.name in unseen for tool in tools} == {split is Split.HELD_OUT}


def test_functions_of_a_box_differ_in_what_they_are_about() -> None:
    for index in range(50):
        box = draw_box(drawn(index), 8)
        words = [word for declared in box for word in subjects(declared.kind)]
        assert len(box) == 8
        assert len(words) == len(set(words))


@pytest.mark.parametrize("make", [everyday.case, everyday.drill])
def test_turns_think_as_long_as_the_effort_says_and_calls_are_json(make: Any) -> None:
    for index in range(40):
        low, medium, high = (make(drawn(index, effort=effort)).turns for effort in Effort)
        lengths = [len(encode(str(turns[0].messages[0].content))) for turns in (low, medium, high)]
        if make is everyday.case:
            assert lengths[1] >= 2 * lengths[0]
            assert lengths[2] >= 2 * lengths[1]
        for turn in (*low, *medium, *high):
            if turn.messages[-1].channel is Channel.COMMENTARY:
                assert isinstance(json.loads(str(turn.messages[-1].content)), dict)


@pytest.mark.parametrize(
    "name", ["clients.txt", "common.txt", "hints.txt", "implied.txt", "several.txt"]
)
def test_requests_for_training_are_no_variants_of_those_for_evaluation(name: str) -> None:
    text = resources.files("demo").joinpath("data", "kinds", name).read_text("utf-8")
    for made in parse(text):
        assert not [request.text for request in made.requests if is_variant(request.text)]
        assert not [request.text for request in made.requests if is_asked(request.text)]
