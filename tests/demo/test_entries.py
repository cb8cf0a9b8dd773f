"""Functions that save records: the arguments stand in the request and obey the schema."""

from random import Random

from jsonschema import Draft202012Validator

from demo.skills.case import Draw
from demo.skills.entries import entry
from demo.skills.words import Split
from harmony.messages import Effort


def test_arguments_obey_the_schema_and_stand_in_the_request() -> None:
    for index in range(150):
        task = entry(Draw(Random(f"entries/{index}"), Split.TRAIN, Effort.LOW))
        values = {one.field.name: one.value for one in task.filled}
        Draft202012Validator(task.tool.parameters or {}).validate(values)
        for one in task.filled:
            if isinstance(one.value, str) and one.value.istitle() and not one.field.choices:
                assert one.value.lower() in task.request.lower()


def test_names_that_are_taken_are_not_used() -> None:
    first = entry(Draw(Random("entries/0"), Split.TRAIN, Effort.LOW)).tool.name
    again = entry(Draw(Random("entries/0"), Split.TRAIN, Effort.LOW), [first]).tool.name
    assert again != first
