"""The text of a call's result."""

import json

import mcp_types as types
import pytest

from server.tools.base import ToolResult
from server.tools.mcp.failures import protocol_error
from server.tools.mcp.limits import MAX_OUTPUT
from server.tools.mcp.redaction import Redactor
from server.tools.mcp.results import TRUNCATED, UNKNOWN, failed_result, read_result

SECRETS = ('pa"ss\\word1', "back\\slash", "tab\tand\nline", "plain-secret")


@pytest.mark.parametrize("secret", SECRETS)
def test_a_secret_in_structured_content_is_redacted(secret: str) -> None:
    structured = {"env": f"a {secret}", secret: [secret]}
    result = types.CallToolResult(content=[], structured_content=structured)

    text = read_result(result, Redactor([secret])).text

    assert json.loads(text) == {"env": "a [redacted]", "[redacted]": ["[redacted]"]}


@pytest.mark.parametrize("secret", SECRETS)
def test_a_secret_in_json_that_a_server_wrote_is_redacted(secret: str) -> None:
    written = json.dumps({"env": f"a {secret}"})
    result = types.CallToolResult(content=[types.TextContent(type="text", text=written)])

    assert json.loads(read_result(result, Redactor([secret])).text) == {"env": "a [redacted]"}


def test_structured_content_may_have_numbers_of_any_size() -> None:
    result = types.CallToolResult(content=[], structured_content={"n": 1 << 80})

    assert read_result(result, Redactor()).text == f'{{"n":{1 << 80}}}'


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", '{"sum":5}'),
        (" \n", '{"sum":5}'),
        (UNKNOWN, f'{UNKNOWN}\n{{"sum":5}}'),
        ("Added.", "Added."),
    ],
)
def test_structured_content_is_given_where_the_text_says_nothing(text: str, expected: str) -> None:
    block = types.TextContent(type="text", text=text)
    result = types.CallToolResult(content=[block], structured_content={"sum": 5})

    assert read_result(result, Redactor()).text == expected


def test_a_secret_that_is_a_number_in_structured_content_is_redacted() -> None:
    result = types.CallToolResult(content=[], structured_content={"pin": 12345678})

    assert read_result(result, Redactor(["12345678"])).text == '{"pin":[redacted]}'


def of_text(text: str, *, is_error: bool = False) -> ToolResult:
    """The result of a call that returned this text."""
    block = types.TextContent(type="text", text=text)
    return read_result(types.CallToolResult(content=[block], is_error=is_error), Redactor())


@pytest.mark.parametrize("character", ["x", "é", "\U0001f600"])
def test_a_result_may_be_as_large_as_the_limit(character: str) -> None:
    most = character * (MAX_OUTPUT // len(character.encode()))
    assert of_text(most).text == most

    cut = of_text(most + character).text
    assert MAX_OUTPUT - 4 < len(cut.encode()) <= MAX_OUTPUT
    assert cut.removesuffix(TRUNCATED).strip(character) == ""


def test_a_secret_in_the_message_of_a_failure_is_redacted() -> None:
    result = failed_result(protocol_error("no key-1234 here", -32602), Redactor(["key-1234"]))

    assert (result.text, result.failed) == ("Error: no [redacted] here", True)
    message = "no [redacted] here"
    error = {"type": "mcp_protocol_error", "code": -32602, "message": message}
    assert result.fields == {"output": None, "error": error}


def test_the_text_of_a_tool_that_failed_is_its_error() -> None:
    result = of_text("no", is_error=True)

    assert (result.text, result.failed) == ("Error: no", True)
    assert result.fields["error"] == {
        "type": "mcp_tool_execution_error",
        "content": [{"type": "text", "text": "no"}],
    }


def test_structured_content_that_a_text_repeats_is_left_out() -> None:
    block = types.TextContent(type="text", text='{"sum": 5}')
    result = types.CallToolResult(content=[block], structured_content={"sum": 5})

    assert read_result(result, Redactor()).text == '{"sum": 5}'


def test_an_output_has_no_note_for_the_model() -> None:
    result = of_text("")

    assert result.text == "[The tool returned nothing.]"
    assert result.fields == {"output": "", "error": None}
