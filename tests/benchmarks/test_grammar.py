"""The requests of the benchmark of grammars: what is new to the server, and what is cached."""

import pytest

from benchmarks.grammar import TOOLS, constraint_request


@pytest.mark.parametrize("plain", [True, False])
def test_no_two_tools_of_all_requests_have_a_schema_in_common(plain: bool) -> None:
    schemas = [
        str(tool.function.parameters)
        for number in range(-1, 3)
        for tool in constraint_request(number, plain=plain).tools.served
    ]
    assert len({*schemas}) == 4 * TOOLS
