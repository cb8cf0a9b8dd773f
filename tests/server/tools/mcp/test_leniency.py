"""What is mended in results that the SDK would refuse."""

from typing import Any

import pytest
from mcp_types.methods import parse_server_result

from server.tools.mcp.leniency import mended

OBJECT = {"type": "object"}
NAMED = {"name": "add", "inputSchema": OBJECT}


def mended_tool(tool: Any) -> dict[str, Any]:
    (kept,) = mended({"tools": [tool]})["tools"]
    assert isinstance(kept, dict)
    return kept


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        (None, OBJECT),
        (True, OBJECT),
        ({}, OBJECT),
        ({"type": ["object", "null"]}, OBJECT),
        ({"type": "object", "properties": []}, OBJECT),
        ({"type": "object", "properties": {"a": None}}, {**OBJECT, "properties": {"a": {}}}),
        ({"type": "object", "properties": {"a": True}}, {**OBJECT, "properties": {"a": True}}),
        ({"type": "object", "required": True}, OBJECT),
        ({"type": "object", "required": [1]}, OBJECT),
        ({"type": "object", "$schema": 7}, OBJECT),
        ({"anyOf": [OBJECT]}, {"anyOf": [OBJECT], "type": "object"}),
        ({"$ref": "#/$defs/a"}, {"$ref": "#/$defs/a", "type": "object"}),
    ],
)
def test_the_schema_of_a_tool_is_one_of_an_object(schema: Any, expected: Any) -> None:
    assert mended_tool({**NAMED, "inputSchema": schema})["inputSchema"] == expected


@pytest.mark.parametrize(
    "odd",
    [
        {"description": 5},
        {"annotations": []},
        {"annotations": {"title": 3}},
        {"execution": {"taskSupport": "maybe"}},
        {"title": 5},
        {"icons": "x"},
        {"outputSchema": {"type": "array"}},
        {"_meta": []},
    ],
)
def test_an_invalid_part_of_a_tool_is_dropped(odd: dict[str, Any]) -> None:
    assert mended_tool({**NAMED, **odd}) == NAMED


def test_what_is_valid_in_a_tool_stays() -> None:
    tool = {
        **NAMED,
        "description": "Add.",
        "inputSchema": {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "type": "object",
            "properties": {"a": {"type": "integer"}},
            "required": ["a"],
        },
        "annotations": {"readOnlyHint": True},
        "execution": {"taskSupport": "required"},
    }

    assert mended_tool(tool) == tool


def test_tools_without_a_name_are_left_out() -> None:
    result = {"tools": [None, "add", {"inputSchema": OBJECT}, {**NAMED, "name": 5}, NAMED]}

    assert mended(result)["tools"] == [NAMED]


TEXT = {"type": "text", "text": "5"}
NOTE = {"type": "text", "text": "[content of an unknown kind left out]"}
PICTURE = {"type": "image", "data": "AAAA", "mimeType": "image/png"}
LINK = {"type": "resource_link", "uri": "file:///f", "name": "f"}
INSIDE = {"uri": "file:///t", "text": "inside"}


@pytest.mark.parametrize(
    ("block", "expected"),
    [
        (TEXT, TEXT),
        ({**TEXT, "annotations": {"audience": ["system"], "priority": 5}}, TEXT),
        ({"text": "5"}, TEXT),
        ("5", TEXT),
        ({"type": "text"}, NOTE),
        ({"type": "text", "text": 5}, NOTE),
        ({"type": "json", "json": {"a": 1}}, NOTE),
        (None, NOTE),
        ({**PICTURE, "_meta": 5}, PICTURE),
        ({"type": "audio", "data": "AAAA"}, {**PICTURE, "type": "audio", "mimeType": "unknown"}),
        ({**LINK, "size": "large"}, LINK),
        ({"type": "resource_link", "uri": "file:///f"}, {**LINK, "name": "file:///f"}),
        ({"type": "resource", "resource": INSIDE}, {"type": "resource", "resource": INSIDE}),
        (
            {"type": "resource", "resource": {"text": "inside"}},
            {"type": "resource", "resource": {"uri": "", "text": "inside"}},
        ),
        (
            {"type": "resource", "resource": {"blob": "AAAA"}},
            {"type": "resource", "resource": {"uri": "", "blob": "AAAA", "mimeType": "binary"}},
        ),
        ({"type": "resource", "resource": {"uri": "file:///t"}}, NOTE),
    ],
)
def test_an_invalid_part_of_content_is_mended(block: Any, expected: dict[str, Any]) -> None:
    assert mended({"content": [TEXT, block]})["content"] == [TEXT, expected]


def test_content_that_is_no_list_is_one_block() -> None:
    for content in ("5", TEXT):
        assert mended({"content": content})["content"] == [TEXT]


def test_null_is_left_out_of_the_result_of_a_call() -> None:
    result = {"content": [TEXT], "isError": None, "structuredContent": None}

    assert mended(result) == {"resultType": "complete", "content": [TEXT]}


def test_structured_content_alone_is_a_result() -> None:
    for result in ({}, {"content": None}):
        structured = mended({**result, "structuredContent": {"sum": 5}})
        assert (structured["structuredContent"], structured["content"]) == ({"sum": 5}, [])


@pytest.mark.parametrize("text", ["", " \n", NOTE["text"]])
def test_structured_content_that_is_no_object_is_a_text_where_no_other_says_anything(
    text: str,
) -> None:
    """Of all protocols, only the latest permits it."""
    block = {"type": "text", "text": text}
    listed = {"type": "text", "text": '[1,"é"]'}

    result = mended({"content": [block], "structuredContent": [1, "é"]})
    assert result == {"resultType": "complete", "content": [block, listed]}

    result = mended({"content": [TEXT], "structuredContent": []})
    assert result == {"resultType": "complete", "content": [TEXT]}


@pytest.mark.parametrize("result", [{"content": [TEXT]}, {"tools": [NAMED]}])
def test_notes_beside_a_result_are_dropped(result: dict[str, Any]) -> None:
    """PHP writes no notes as an empty array."""
    assert mended({**result, "_meta": []}) == mended(result)


def test_other_fields_of_the_result_of_a_call_stay() -> None:
    others = {"resultType": "own", "tools": [], "protocolVersion": "1"}

    assert mended({"content": [], **others}) == {"content": [], **others}


@pytest.mark.parametrize("version", ["2024-11-05", "2025-11-25", "2026-07-28"])
def test_the_sdk_takes_what_is_mended(version: str) -> None:
    odd = {"ttlMs": None, "cacheScope": "session"}
    tools = mended({**odd, "tools": [{"name": "bare"}, {**NAMED, "icons": 5, "inputSchema": []}]})
    content = mended(
        {"structuredContent": [], "content": [None, LINK | {"name": 5}, PICTURE | {"mimeType": 5}]}
    )

    parse_server_result("tools/list", version, tools)
    parse_server_result("tools/call", version, content)


VERSIONS = {"protocolVersion": "2025-06-18"}
UNNAMED = {"serverInfo": {"name": "", "version": ""}}


@pytest.mark.parametrize(
    "odd",
    [
        {},
        {"capabilities": []},
        {"capabilities": {"tools": []}},
        {"capabilities": {"tools": [NAMED], "logging": True}},
        {"capabilities": {"tools": {"listChanged": "yes"}}},
        {"serverInfo": {"name": "i"}},
        {"instructions": ["Add."]},
    ],
)
def test_what_is_invalid_in_the_first_answer_is_dropped(odd: dict[str, Any]) -> None:
    result = mended({**VERSIONS, **odd})

    assert result == {**VERSIONS, "capabilities": {}, **UNNAMED}
    parse_server_result("initialize", "2025-06-18", result)


@pytest.mark.parametrize("versions", [VERSIONS, {"supportedVersions": ["2026-07-28"]}])
def test_a_server_may_tell_of_changes(versions: dict[str, Any]) -> None:
    tells = {"capabilities": {"tools": {"listChanged": True}}}

    assert mended({**versions, **tells, "instructions": "Add."}) == {**versions, **tells, **UNNAMED}


@pytest.mark.parametrize("result", [{}, {"tools": "none"}, {"content": None}])
def test_other_results_stay_as_they_are(result: dict[str, Any]) -> None:
    assert mended(result) == result
