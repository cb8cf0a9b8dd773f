"""Structured answers: the values that a text holds, by the schema."""

import json

import pytest
from jsonschema import Draft202012Validator

from demo.skills import catalogue, drills, structured
from demo.skills.case import Case
from demo.skills.words import Split
from harmony.messages import DeveloperContent, Message
from tests.demo.drawing import drawn


def schema(case: Case) -> object:
    (content,) = (m.content for m in case.history if isinstance(m.content, DeveloperContent))
    return content.response_formats[0].schema


def text(message: Message) -> str:
    assert isinstance(message.content, str)
    return message.content


@pytest.mark.parametrize("split", Split)
def test_answers_obey_the_schema(split: Split) -> None:
    for index in range(150):
        case = structured.case(drawn(index, split))
        Draft202012Validator(schema(case)).validate(json.loads(text(case.turns[0].messages[-1])))


@pytest.mark.parametrize("split", Split)
def test_every_name_in_a_record_stands_in_the_text(split: Split) -> None:
    for index in range(150):
        draw = drawn(index, split)
        _, declared = structured.record_wanted(draw)
        said, turn = structured.record_exchange(draw, declared, draw.pick(declared.kind.requests))
        free = {field.name for parameter, field in declared.fields if parameter.type == "person"}
        for name, value in json.loads(text(turn.messages[-1])).items():
            if name in free:
                assert str(value) in said


def test_no_kind_and_no_sentence_is_in_both_splits() -> None:
    train, held_out = (catalogue.RECORDS[split] for split in (Split.TRAIN, Split.HELD_OUT))
    for parts in (
        lambda kind: kind.names,
        lambda kind: [request.text for request in kind.requests],
    ):
        seen, unseen = (
            {part for kind in kinds for part in parts(kind)} for kinds in (train, held_out)
        )
        assert not seen & unseen


def test_a_drill_of_records_keeps_to_one_schema() -> None:
    for index in range(30):
        case = drills.recording(drawn(index, Split.TRAIN))
        validator = Draft202012Validator(schema(case))
        assert len(case.turns) == 3
        for turn in case.turns:
            validator.validate(json.loads(text(turn.messages[-1])))
