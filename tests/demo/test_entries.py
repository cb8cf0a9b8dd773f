"""Functions that save records: the arguments stand in the request and obey the schema."""

from jsonschema import Draft202012Validator

from demo.skills.entries import entry
from tests.demo.drawing import drawn


def test_arguments_obey_the_schema_and_stand_in_the_request() -> None:
    for index in range(150):
        task = entry(drawn(index))
        values = {one.field.name: one.value for one in task.filled}
        Draft202012Validator(task.tool.parameters or {}).validate(values)
        for one in task.filled:
            if isinstance(one.value, str) and one.value.istitle() and not one.field.choices:
                assert one.value.lower() in task.request.lower()


def test_names_that_are_taken_are_not_used() -> None:
    first = entry(drawn(0)).tool.name
    again = entry(drawn(0), [first]).tool.name
    assert again != first
