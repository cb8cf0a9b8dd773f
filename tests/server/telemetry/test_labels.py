"""What becomes of values that clients choose."""

import pytest

from server.telemetry.labels import OTHER, Values, method, route, status, tool


@pytest.mark.parametrize(
    ("name", "label"), [("GET", "GET"), ("WS", "WS"), ("get", OTHER), ("EVIL\n", OTHER)]
)
def test_an_unknown_method_is_another(name: str, label: str) -> None:
    assert method(name) == label


@pytest.mark.parametrize(
    ("path", "label"),
    [("/v1/models/{name:path}", "/v1/models/{name}"), ("/health", "/health"), (None, OTHER)],
)
def test_a_route_is_its_pattern(path: str | None, label: str) -> None:
    assert route(path) == label


def test_a_request_without_an_answer_has_a_label() -> None:
    assert (status(None), status(200)) == ("unanswered", "200")


@pytest.mark.parametrize(
    ("name", "label"),
    [
        ("mcp.label-of-a-client", "mcp"),
        ("browser.search", "browser"),
        ("python", "python"),
        ("invented", OTHER),
    ],
)
def test_a_tool_is_its_kind(name: str, label: str) -> None:
    assert tool(name, {"mcp", "browser", "python"}) == label


def test_a_label_has_a_limited_number_of_values() -> None:
    values = Values(most=2)
    assert [values.of(each) for each in ("a", "b", "c", "a", None)] == [
        "a",
        "b",
        OTHER,
        "a",
        "none",
    ]


@pytest.mark.parametrize("value", ["", "Two words", "a" * 65, "a\n"])
def test_what_is_no_code_is_another(value: str) -> None:
    assert Values().of(value) == OTHER
