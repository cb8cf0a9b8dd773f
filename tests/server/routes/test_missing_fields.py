"""Fields of a request's objects that are required and absent: the error says so and names them."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.server.routes.test_any_json import REQUESTS, SCRIPT_LINE
from tests.server.tools.sample_tools import Calculator, Library, Servers

REQUIRED = {
    "chat": {
        *("messages.0.role", "messages.0.content"),
        *("messages.1.content.0.type", "messages.1.content.0.text"),
        *("messages.2.tool_calls.0.id", "messages.2.tool_calls.0.function"),
        *("messages.2.tool_calls.0.function.name", "messages.2.tool_calls.0.function.arguments"),
        *("messages.2.tool_calls.1.custom.name", "messages.2.tool_calls.1.custom.input"),
        *("messages.3.tool_call_id", "messages.3.content"),
        *("messages.4.function_call.name", "messages.5.name"),
        *("tools.0.type", "tools.0.function.name", "tools.1.custom.name"),
        *("tools.1.custom.format.type", "tools.1.custom.format.syntax"),
        "tools.1.custom.format.definition",
        *("tool_choice.type", "tool_choice.function.name"),
        *("response_format.type", "response_format.json_schema.name"),
        "response_format.json_schema.schema",
    },
    "responses": {
        *("input.0.role", "input.0.content"),
        *("input.0.content.0.type", "input.0.content.0.text"),
        *("input.3.call_id", "input.3.name", "input.3.arguments"),
        *("input.4.call_id", "input.4.output", "input.5.action", "input.8.call_id"),
        *("input.9.name", "input.9.server_label", "input.11.output"),
        *("tools.0.type", "tools.0.name", "tools.1.format.definition"),
        *("tools.2.name", "tools.2.tools", "tools.2.tools.0.type", "tools.2.tools.0.name"),
        *("tool_choice.type", "tool_choice.tools", "tool_choice.tools.0.type"),
        "tool_choice.tools.0.name",
        *("text.format.type", "text.format.name", "text.format.schema"),
    },
    "responses with hosted tools": {
        *("input.0.outputs.0.logs", "input.4.server_label", "input.4.name", "input.4.arguments"),
        *("tools.0.type", "tool_choice.tools.0.server_label"),
    },
}


def without_each_field(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """`value` without one field inside it, for each of these, with the path of the field."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield f"{path}{key}", {name: each for name, each in value.items() if name != key}
            for where, changed in without_each_field(inner, f"{path}{key}."):
                yield where, value | {key: changed}
    if isinstance(value, list):
        for index, inner in enumerate(value):
            for where, changed in without_each_field(inner, f"{path}{index}."):
                yield where, [*value[:index], changed, *value[index + 1 :]]


@pytest.mark.parametrize("name", REQUIRED)
async def test_an_absent_field_that_is_required_is_said_to_be_missing(
    open_app: Any, name: str
) -> None:
    path, _, base = REQUESTS[name]
    missing: set[str] = set()
    async with open_app(SCRIPT_LINE) as app:
        app.use(Calculator(), Library(), Servers())
        for absent, body in without_each_field(base):
            error = (await app.post(path, body)).json().get("error") or {}
            message = f"Missing required parameter: '{absent}'."
            if error.get("message") == message:
                missing.add(absent)
                assert (error["param"], error["code"]) == (absent, "missing_required_parameter")
    assert REQUIRED[name] - missing == set()


@pytest.mark.parametrize(
    ("path", "body", "param"),
    [
        ("/v1/chat/completions", {"model": "scripted"}, "messages"),
        ("/v1/completions", {"model": "scripted"}, "prompt"),
        ("/v1/conversations/conv_1/items", {}, "items"),
    ],
)
async def test_an_absent_field_of_the_request_itself_is_said_to_be_missing(
    open_app: Any, path: str, body: dict[str, Any], param: str
) -> None:
    async with open_app(SCRIPT_LINE) as app:
        error = (await app.post(path, body)).json()["error"]
    assert (error["param"], error["code"]) == (param, "missing_required_parameter")
