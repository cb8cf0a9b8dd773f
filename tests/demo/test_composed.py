"""Composed records: every kind is sound, and says what it asks for."""

import json
from typing import Any

import pytest

from demo.skills import catalogue, records, structured
from demo.skills.catalogue.asking import declare
from demo.skills.catalogue.kinds import PLACEHOLDER, Kind
from demo.skills.composed import described, kind, quantities, related, traits
from demo.skills.phrases import worded
from demo.skills.words import Split
from tests.demo.drawing import drawn


@pytest.mark.parametrize("make", [kind, described.kind, related.kind])
def test_sentences_hold_every_parameter_that_is_required(make: Any) -> None:
    for index in range(300):
        made: Kind = make(drawn(index), 4)
        known = {parameter.name for parameter in made.parameters}
        required = {p.name for p in made.parameters if not p.optional}
        assert len(known) == len(made.parameters)
        assert len(made.requests) == 4
        for request in made.requests:
            assert required <= request.mentioned <= known
            assert "{" not in PLACEHOLDER.sub("", request.text)


def test_texts_hold_the_values_that_the_answer_has() -> None:
    for index in range(200):
        draw = drawn(index)
        made = kind(draw, 1)
        declared = declare(draw, made)
        said, turn = structured.record_exchange(draw, declared, made.requests[0])
        values = json.loads(str(turn.messages[-1].content))
        enums = {f.name for p, f in declared.fields if p.type == "enum"}
        for name, value in values.items():
            if isinstance(value, str) and name not in enums:
                assert value.lower() in said.lower()


def test_traits_have_names_and_words_for_their_values() -> None:
    for subject in traits.subjects().values():
        names = [trait.parameter.name for trait in subject.traits]
        assert len(set(names)) == len(names)
        assert subject.nouns
        for trait in subject.traits:
            for way in (*trait.verbs, *trait.adjuncts):
                assert way.count("{") == 1
                assert ("|" in way) == (trait.parameter.type == "bool")


def test_parties_of_a_relation_have_names_of_their_own() -> None:
    for relation in related.relations():
        parties = [p for p in (*relation.parties, relation.third) if p]
        assert len({party.name for party in parties}) == len(parties)
        assert relation.verb != relation.passive


def test_quantities_say_their_unit() -> None:
    for index in range(200):
        trait = quantities.quantity(drawn(index))
        assert all(way.count("{}") == 1 and "{unit}" not in way for way in trait.verbs)
        assert len(set(trait.parameter.names)) > 1


def test_no_composed_name_or_wording_is_one_of_the_evaluation() -> None:
    unseen = {name for made in catalogue.RECORDS[Split.HELD_OUT] for name in made.names}
    wanted = {text.lower() for text in records.WANTED[Split.HELD_OUT] if text}
    for index in range(400):
        draw = drawn(index)
        assert not unseen & set(kind(draw, 1).names)
        asked = records.request(draw, "Nothing.").lower()
        assert not any(text in asked for text in wanted)


def test_worded_picks_among_choices_inside_choices() -> None:
    made = {worded(drawn(index), "[a|b[c|d]] e") for index in range(60)}
    assert made == {"a e", "bc e", "bd e"}
