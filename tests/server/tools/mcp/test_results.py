"""The text of a call's result."""

import json

import mcp_types as types
import pytest

from server.tools.mcp.redaction import Redactor
from server.tools.mcp.results import read_result

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


def test_a_secret_that_is_a_number_in_structured_content_is_redacted() -> None:
    result = types.CallToolResult(content=[], structured_content={"pin": 12345678})

    assert read_result(result, Redactor(["12345678"])).text == '{"pin":[redacted]}'
