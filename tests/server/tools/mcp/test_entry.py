"""The entry of a server in a request's `tools`."""

from typing import Any

import pytest

from server.errors import InvalidRequest
from server.tools.mcp.entry import read_server
from server.tools.mcp.rules import NEVER
from server.tools.mcp.servers import Server

URL = "https://mcp.example.com/mcp"
ENTRY = {"type": "mcp", "server_label": "docs", "server_url": URL}
CONFIGURED = {
    "docs": Server("docs", url=URL, headers={"authorization": "Bearer own"}),
    "files": Server("files", command=("files",)),
}


def read(entry: dict[str, Any], configured: dict[str, Server] | None = None) -> Server:
    return read_server(entry, configured or {}, "tools.0")


def test_an_entry_is_a_server() -> None:
    given = {**ENTRY, "authorization": "token", "headers": {"X-Team": "a"}, "defer_loading": True}

    server = read({**given, "server_description": "Documentation"})

    assert (server.label, server.url, server.description) == ("docs", URL, "Documentation")
    assert server.headers == {"authorization": "Bearer token", "x-team": "a"}
    assert not server.allow_private
    assert server.needs_approval("any", read_only=True)


def test_a_server_without_a_token_gets_no_headers() -> None:
    assert read(ENTRY).headers == {}


INVALID: dict[str, tuple[dict[str, Any], str]] = {
    "no label": ({"server_label": None}, "server_label"),
    "a label with a space": ({"server_label": "a b"}, "server_label"),
    "a label with two underscores": ({"server_label": "a__b"}, "server_label"),
    "a label that ends in an underscore": ({"server_label": "a_"}, "server_label"),
    "a label that is too long": ({"server_label": "a" * 65}, "server_label"),
    "no URL": ({"server_url": None}, "server_url"),
    "http": ({"server_url": "http://example.com"}, "server_url"),
    "another scheme": ({"server_url": "file:///etc/passwd"}, "server_url"),
    "no host": ({"server_url": "https:///mcp"}, "server_url"),
    "a password": ({"server_url": "https://me:pw@example.com"}, "server_url"),
    "a fragment": ({"server_url": "https://example.com#a"}, "server_url"),
    "a port out of range": ({"server_url": "https://example.com:99999"}, "server_url"),
    "a port that is no number": ({"server_url": "https://example.com:pw"}, "server_url"),
    "an invalid host": ({"server_url": "https://[1"}, "server_url"),
    "a line end in the URL": ({"server_url": "https://example.com/\r\nx"}, "server_url"),
    "a URL that is too long": ({"server_url": f"https://example.com/{'x' * 5000}"}, "server_url"),
    "a connector": ({"connector_id": "connector_gmail"}, "connector_id"),
    "a tunnel": ({"tunnel_id": "tunnel_1"}, "tunnel_id"),
    "headers that are no object": ({"headers": ["a"]}, "headers"),
    "a header that is no string": ({"headers": {"a": 1}}, "headers"),
    "a header with a line end": ({"headers": {"a": "b\r\nc: d"}}, "headers"),
    "an invalid name of a header": ({"headers": {"a b": "c"}}, "headers"),
    "a header twice": ({"headers": {"a": "b", "A": "c"}}, "headers"),
    "a header of the connection": ({"headers": {"Host": "a"}}, "headers"),
    "a header of the protocol": ({"headers": {"Mcp-Method": "tools/call"}}, "headers"),
    "a header of arguments": ({"headers": {"Mcp-Param-Region": "a"}}, "headers"),
    "too many headers": ({"headers": {f"a{n}": "b" for n in range(65)}}, "headers"),
    "a long header": ({"headers": {"a": "b" * 9000}}, "headers"),
    "Authorization twice": (
        {"headers": {"authorization": "a"}, "authorization": "b"},
        "authorization",
    ),
    "a token with a line end": ({"authorization": "a\nb"}, "authorization"),
    "allowed tools that are no list": ({"allowed_tools": "all"}, "allowed_tools"),
    "names that are no strings": ({"allowed_tools": [1]}, "allowed_tools"),
    "an empty filter": ({"allowed_tools": {}}, "allowed_tools"),
    "a filter with wrong names": (
        {"allowed_tools": {"tool_names": 1}},
        "allowed_tools.tool_names",
    ),
    "a filter with a wrong flag": (
        {"allowed_tools": {"read_only": "yes"}},
        "allowed_tools.read_only",
    ),
    "too many names": ({"allowed_tools": ["a"] * 1025}, "allowed_tools"),
    "an unknown approval": ({"require_approval": "sometimes"}, "require_approval"),
    "a wrong rule": ({"require_approval": {"never": {}}}, "require_approval.never"),
    "a description that is no text": ({"server_description": 1}, "server_description"),
    "a flag that is none": ({"defer_loading": "yes"}, "defer_loading"),
}


@pytest.mark.parametrize("case", INVALID)
def test_an_invalid_entry_names_its_field(case: str) -> None:
    changes, field = INVALID[case]

    with pytest.raises(InvalidRequest) as error:
        read({**ENTRY, **changes})

    assert error.value.param == f"tools.0.{field}"
    assert "pw" not in error.value.message


AT_LIMITS: dict[str, dict[str, Any]] = {
    "a label": {"server_label": "a" * 64},
    "a URL": {"server_url": f"{URL}?".ljust(4096, "x")},
    "headers": {"headers": {f"a{n}": "b" for n in range(64)}},
    "a header": {"headers": {"a" * 128: "b" * 8192}},
    "names": {"allowed_tools": ["a"] * 1024},
}


@pytest.mark.parametrize("case", AT_LIMITS)
def test_an_entry_may_be_as_large_as_its_limits(case: str) -> None:
    read({**ENTRY, **AT_LIMITS[case]})


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"server_url": "http://example.com"}, "expected an https URL"),
        ({"require_approval": {"never": {}}}, "expected 'tool_names', 'read_only' or both"),
        ({"authorization": "a" * 8186}, "expected at most 8185 printable ASCII characters"),
    ],
)
def test_an_error_says_what_is_expected(changes: dict[str, Any], expected: str) -> None:
    with pytest.raises(InvalidRequest) as error:
        read({**ENTRY, **changes})

    assert error.value.message == f"Invalid value for '{error.value.param}': {expected}."


def test_a_configured_server_needs_its_label_only() -> None:
    server = read({"type": "mcp", "server_label": "docs"}, CONFIGURED)

    assert server.url == URL
    assert server.headers == {"authorization": "Bearer own"}


def test_headers_of_the_operator_win() -> None:
    server = read({**ENTRY, "authorization": "mine", "headers": {"a": "b"}}, CONFIGURED)

    assert server.headers == {"authorization": "Bearer own", "a": "b"}


def test_a_label_of_the_operator_does_not_stand_for_another_url() -> None:
    with pytest.raises(InvalidRequest) as error:
        read({**ENTRY, "server_url": "https://evil.example.com/mcp"}, CONFIGURED)

    assert error.value.param == "tools.0.server_url"


def test_a_program_takes_no_headers() -> None:
    with pytest.raises(InvalidRequest) as error:
        read({"type": "mcp", "server_label": "files", "authorization": "a"}, CONFIGURED)

    assert error.value.param == "tools.0.headers"


def test_rules_of_the_operator_and_of_the_request_hold_together() -> None:
    own = Server("docs", url=URL, approvals=(NEVER,))
    rule = {"always": {"tool_names": ["write"]}, "never": {"read_only": True}}

    server = read({**ENTRY, "require_approval": rule}, {"docs": own})

    assert server.needs_approval("write", read_only=True)
    assert server.needs_approval("other", read_only=False)
    assert not server.needs_approval("other", read_only=True)
