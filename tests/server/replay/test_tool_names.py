import pytest

from server.errors import InvalidRequest
from server.replay.tool_names import called_name, recipient
from server.schemas.limits import MAX_LABEL


def test_a_function_has_its_name_in_the_recipient() -> None:
    assert recipient("run") == "functions.run"


def test_a_namespace_is_a_prefix_of_the_name() -> None:
    assert recipient("run", "box") == "functions.box__run"


def test_a_namespace_that_ends_with_a_separator_gets_no_other() -> None:
    assert recipient("run", "mcp__box__") == "functions.mcp__box__run"


@pytest.mark.parametrize("name", ["x" * (MAX_LABEL + 1), "a b", "", 1])
def test_a_name_that_a_header_cannot_hold_is_refused(name: object) -> None:
    with pytest.raises(InvalidRequest) as refused:
        called_name(name, "name")
    assert refused.value.param == "name"
