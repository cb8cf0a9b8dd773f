"""Names and choices that a declaration changes for training."""

from demo.skills import catalogue
from demo.skills.catalogue import asking, renaming
from demo.skills.catalogue.kinds import kind
from demo.skills.words import Split, aligned, spelt_alone
from tests.demo.drawing import drawn

LAMP = kind(
    "turn_on_lamp",
    "Turn on a lamp",
    "room:word color:red/green/blue mode:day/night",
    "the {room} lamp in {color}, it is late => mode=night",
)


def test_names_of_the_evaluation_stay_as_they_are() -> None:
    named = {renaming.function_name(drawn(i, Split.HELD_OUT), "turn_on_lamp") for i in range(50)}
    assert named == {("turn_on_lamp", True)}


def test_changed_names_can_be_copied() -> None:
    named = [renaming.function_name(drawn(i), "turnOnLamp")[0] for i in range(200)]
    changed = [name for name in named if name != "turnOnLamp"]
    assert 40 < len(changed) < 120
    assert all(aligned(name) or spelt_alone(name) for name in changed)
    assert any(spelt_alone(name) for name in changed)


def test_no_name_is_changed_into_one_of_the_evaluation() -> None:
    held_out = {name for kind in catalogue.FUNCTIONS[Split.HELD_OUT] for name in kind.names}
    for index in range(100):
        assert renaming.function_name(drawn(index), "buyTickets")[0] not in held_out


def test_no_name_is_one_of_the_evaluation_in_another_case() -> None:
    trained, held_out = (
        {"_".join(renaming._parts(name)) for kind in kinds for name in kind.names}
        for kinds in (catalogue.FUNCTIONS[split] for split in (Split.TRAIN, Split.HELD_OUT))
    )
    assert not trained & held_out


def test_a_name_tells_when_all_its_words_are_left() -> None:
    for index in range(200):
        name, tells = renaming.function_name(drawn(index), "turn_on_lamp")
        assert tells == ("turn_on_lamp" in name)


def test_what_a_name_no_longer_tells_the_description_does() -> None:
    opaque = 0
    for index in range(200):
        tool = asking.declare(drawn(index), LAMP).tool
        if "turn_on_lamp" not in tool.name:
            opaque += 1
            assert tool.description is not None
            assert tool.description.startswith("Turn on a lamp")
    assert opaque > 10


def test_a_choice_that_a_request_implies_is_never_replaced() -> None:
    colors = set()
    for index in range(100):
        fields = asking.declare(drawn(index), LAMP).fields
        choices = {parameter.name: field.choices for parameter, field in fields}
        assert choices["mode"] == ("day", "night")
        colors.add(choices["color"])
        assert len(choices["color"]) == 3
    assert ("red", "green", "blue") in colors
    assert len(colors) > 10


def test_replaced_choices_are_said_as_they_are_written() -> None:
    for index in range(100):
        draw = drawn(index)
        declared = asking.declare(draw, LAMP)
        text, filled = asking.fill_in(draw, declared, LAMP.requests[0], LAMP.requests[0].text)
        said = next(f for f in filled if f.field.choices != ("day", "night") and f.field.choices)
        assert said.value in said.field.choices
        assert said.value in text
