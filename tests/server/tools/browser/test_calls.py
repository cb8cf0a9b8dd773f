"""The grammar of the browser's calls."""

import json

import pytest

from harmony.grammar import GrammarSpec, turn_grammar
from server.inbound.grammar_sandbox import GrammarSandbox
from server.tools.browser.calls import (
    MOST_PATTERN,
    MOST_QUERY,
    BadCall,
    Find,
    Open,
    Search,
    callable_tools,
    parse,
)


def test_the_grammar_of_the_calls_compiles() -> None:
    spec = GrammarSpec(tools=callable_tools(), call_required=True)
    sandbox = GrammarSandbox()
    assert sandbox.problem(turn_grammar(spec)) is None
    sandbox.close()


@pytest.mark.parametrize(
    ("name", "arguments", "call"),
    [
        ("search", {"query": "x"}, Search("x")),
        ("search", {"query": "x", "topn": 5, "source": "news"}, Search("x", 5)),
        ("search", {"query": "x", "top_n": 5}, Search("x", 5)),
        ("search", {"query": "x", "topn": 0}, Search("x")),
        ("search", {"query": "x", "topn": 1}, Search("x", 1)),
        ("search", {"query": "x" * MOST_QUERY}, Search("x" * MOST_QUERY)),
        ("open", {}, Open()),
        ("open", {"id": 3, "cursor": 1, "loc": 10, "num_lines": 5}, Open(3, None, 1, 10, 5)),
        ("open", {"id": "https://a.example"}, Open(url="https://a.example")),
        ("open", {"id": " ", "view_source": True}, Open(source=True)),
        ("open", {"id": "-1", "view_source": "no"}, Open()),
        ("open", {"id": " 【7†a\nb】 ", "loc": "-1", "cursor": 1.0}, Open(7, cursor=1)),
        ("open", {"id": 10**9}, Open(10**9)),
        ("find", {"pattern": "x", "cursor": 2}, Find("x", 2)),
        ("find", {"pattern": "x" * MOST_PATTERN}, Find("x" * MOST_PATTERN)),
    ],
)
def test_arguments_are_read(name: str, arguments: dict[str, object], call: object) -> None:
    assert parse(f"browser.{name}", json.dumps(arguments)) == call


@pytest.mark.parametrize(
    ("name", "arguments", "reason"),
    [
        ("search", {"query": "x" * (MOST_QUERY + 1)}, "longer than 2000"),
        ("find", {"pattern": "x" * (MOST_PATTERN + 1)}, "longer than 500"),
        ("open", {"id": 10**9 + 1}, "an integer"),
    ],
)
def test_arguments_over_a_limit_are_refused(
    name: str, arguments: dict[str, object], reason: str
) -> None:
    with pytest.raises(BadCall, match=reason):
        parse(f"browser.{name}", json.dumps(arguments))
