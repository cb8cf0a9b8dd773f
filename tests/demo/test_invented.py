"""Kinds of functions that are made up for one case, and words that belong together."""

import re
from itertools import chain

from demo.skills import everyday
from demo.skills.catalogue import asking, invented, related
from demo.skills.catalogue.kinds import PLACEHOLDER, kind
from demo.skills.catalogue.wording import chatty, reworded
from demo.skills.words import Split, split_of
from harmony.messages import DeveloperContent
from tests.demo.drawing import drawn
from tests.demo.evaluated import is_variant


def test_related_words_share_a_tag_and_the_form() -> None:
    assert "torch" in related.related("lamp")
    assert "tickets" not in related.related("ticket")
    assert not related.related("the")
    for index in range(50):
        draw = drawn(index)
        _, things = draw.pick(related.themes())
        one = draw.pick(things)
        for other in related.related(one):
            assert related.topics(one) & related.topics(other)


def test_words_of_the_evaluation_are_not_among_them() -> None:
    for _, words in (*related.themes(), *related.deeds()):
        assert {split_of(word) for word in words} == {Split.TRAIN}


def test_same_random_numbers_give_same_kind() -> None:
    assert invented.invented(drawn(1)) == invented.invented(drawn(1))
    assert invented.invented(drawn(1)) != invented.invented(drawn(2))


def test_requests_give_all_that_is_required() -> None:
    for index in range(200):
        made = invented.invented(drawn(index))
        names = [parameter.name for parameter in made.parameters]
        assert len(names) == len(set(names))
        for request in made.requests:
            given = request.mentioned | dict(request.fixed).keys()
            assert given <= set(names)
            assert {p.name for p in made.parameters if not p.optional} <= given
            assert "..." not in request.text
            assert not re.search(r"\{[nvx]\}", request.text)


def test_implied_choices_are_among_the_choices() -> None:
    implied = 0
    for index in range(200):
        made = invented.invented(drawn(index))
        choices = {p.name: dict(p.choices) for p in made.parameters if p.type == "enum"}
        for request in made.requests:
            for name, value in request.fixed:
                if name in choices:
                    assert value in choices[name]
                    implied += 1
    assert implied > 50


def test_each_choice_of_an_aspect_is_mentioned() -> None:
    for aspect in chain(*invented.read_aspects().values()):
        parameter, mentions = aspect.parameter, aspect.mentions
        if parameter.type == "enum" and not any(parameter.name in m.mentioned for m in mentions):
            implied = {dict(mention.fixed)[parameter.name] for mention in mentions}
            assert implied == {value for value, _ in parameter.choices}, parameter.name


def test_mentions_are_no_variants_of_requests_for_evaluation() -> None:
    for aspect in chain(*invented.read_aspects().values()):
        assert not [mention.text for mention in aspect.mentions if is_variant(mention.text)]


def test_most_requests_use_other_words_than_the_name() -> None:
    other = 0
    for index in range(200):
        made = invented.invented(drawn(index))
        text = PLACEHOLDER.sub("", made.requests[0].text)
        other += not any(word in text for word in made.names[0].split("_"))
    assert other > 100


def test_functions_of_a_family_share_the_thing_and_differ_in_the_deed() -> None:
    for index in range(50):
        kinds = invented.family(drawn(index), 4)
        words = [set(re.findall("[A-Z]?[a-z]+", one.names[0])) for one in kinds]
        assert len({one.names[0] for one in kinds}) == 4
        assert {word.lower() for word in words[0]} & {word.lower() for word in words[1]}


def test_a_declaration_may_have_more_or_fewer_parameters_that_need_no_value() -> None:
    made = kind("lamp", "A lamp", "room:word color:red/green?", "{room}", "{room}, {color}")
    sizes = set()
    for index in range(200):
        adapted = asking.adapted(drawn(index), made)
        assert adapted.parameters[0] == made.parameters[0]
        assert all(parameter.optional for parameter in adapted.parameters[1:])
        sizes.add(len(adapted.parameters))
        assert asking.adapted(drawn(index, Split.HELD_OUT), made) == made
    assert sizes >= {1, 2, 3}


def test_talk_and_other_words_leave_placeholders_as_they_are() -> None:
    text = "turn the {room} lamp {on:on|off} before the evening"
    texts = set()
    for index in range(200):
        draw = drawn(index)
        changed = chatty(draw, reworded(draw, text), "en")
        assert [m[0] for m in PLACEHOLDER.finditer(changed)] == ["{room}", "{on:on|off}"]
        texts.add(changed)
    assert len(texts) > 50
    assert text in texts


def test_some_boxes_of_a_case_are_about_one_thing() -> None:
    shared = 0
    for index in range(300):
        content = everyday.case(drawn(index)).history[1].content
        assert isinstance(content, DeveloperContent)
        tools = content.tools[0].tools
        words = [set(tool.name.split("_")) for tool in tools]
        shared += any(a & b for i, a in enumerate(words) for b in words[:i])
    assert shared > 6


def test_an_extended_kind_has_requests_that_mention_the_new_parameter() -> None:
    made = kind("lamp", "A lamp", "room:word", "light in {room}", "de: Licht in {room}")
    for index in range(50):
        longer = invented.extended(drawn(index), made)
        assert longer.requests[:2] == made.requests
        name = longer.parameters[1].name
        for request in longer.requests[2:]:
            assert "{room}" in request.text
            assert name in request.mentioned | dict(request.fixed).keys()
