"""The OpenAPI document: valid, whole, and in step with the routes and the sources."""

import json
import re
from collections.abc import Iterator
from typing import Any

import jsonschema
import pytest
from fastapi.routing import APIRoute, APIWebSocketRoute
from openapi_spec_validator import OpenAPIV31SpecValidator

from adapters.base import BackendConfig
from adapters.scripted import ScriptedBackend
from server import errors
from server.app import PUBLIC_ENDPOINTS, create_app
from server.errors import APIError
from server.openapi import operations
from server.openapi.document_bytes import describe
from server.openapi.examples import ANSWERS
from server.openapi.operation import Operation
from server.replay.unsupported_items import KINDS
from server.schemas.base import WireModel
from server.schemas.chat import CreateChatCompletion
from server.schemas.responses import CreateResponse
from server.settings import Settings
from tests.server.openapi_document import DOCUMENT

METHODS = {"get", "head", "post", "delete"}
RESPONSE = ANSWERS["createResponse"]


def test_it_is_a_valid_document() -> None:
    OpenAPIV31SpecValidator(DOCUMENT).validate()


def test_its_schemas_are_valid() -> None:
    for schema in DOCUMENT["components"]["schemas"].values():
        jsonschema.Draft202012Validator.check_schema(schema)


def test_it_is_bounded() -> None:
    made = describe()
    assert len(made.document.content) < 300_000
    assert len(made.page.content) < 300_000


def routes() -> Iterator[APIRoute | APIWebSocketRoute]:
    config = BackendConfig(None, {}, lambda text: [], lambda ids: "", lambda: None)
    app = create_app(Settings(backend="scripted", script="unused"), ScriptedBackend(config))
    for route in app.routes:
        # The pages of the playground are no part of the API.
        if isinstance(route, APIWebSocketRoute) or (
            isinstance(route, APIRoute) and route.include_in_schema
        ):
            yield route


def test_it_has_every_route_and_method_and_no_other() -> None:
    served: set[tuple[str, str]] = set()
    for route in routes():
        path = re.sub(r"\{(\w+):\w+\}", r"{\1}", route.path)
        # OpenAPI has no WebSockets: one is described as the GET that opens it.
        methods = route.methods if isinstance(route, APIRoute) else {"GET"}
        served |= {(path, method.lower()) for method in methods}
    described = {(path, name) for path, item in DOCUMENT["paths"].items() for name in item}
    assert described == served


def test_operations_without_a_key_are_listed() -> None:
    open_paths = {
        route.path
        for route in routes()
        if isinstance(route, APIRoute) and route.endpoint in PUBLIC_ENDPOINTS
    }
    described = {
        path
        for path, item in DOCUMENT["paths"].items()
        if any(operation.get("security") == [] for operation in item.values())
    }
    assert described == open_paths


def test_a_websocket_is_described_with_its_messages() -> None:
    socket = DOCUMENT["paths"]["/v1/responses"]["get"]["x-websocket"]
    assert {key: value["$ref"].rpartition("/")[2] for key, value in socket.items()} == {
        "receives": "ResponseCreate",
        "sends": "SocketEvent",
    }


def test_operations_have_names_of_their_own() -> None:
    names = [each["operationId"] for item in DOCUMENT["paths"].values() for each in item.values()]
    assert len(names) == len(set(names))


def test_every_tag_is_described() -> None:
    used = {tag for each in operations.OPERATIONS for tag in (each.tag,)}
    assert used == {tag["name"] for tag in DOCUMENT["tags"]}


@pytest.mark.parametrize("model", [CreateResponse, CreateChatCompletion])
def test_every_field_of_a_request_is_described(model: type[WireModel]) -> None:
    fields = DOCUMENT["components"]["schemas"][model.__name__]["properties"]
    assert set(fields) == set(model.model_fields)
    assert [name for name, field in fields.items() if not field.get("description")] == []


def test_every_schema_is_described_or_a_choice() -> None:
    schemas = DOCUMENT["components"]["schemas"]
    assert [
        name
        for name, schema in schemas.items()
        if not schema.get("description") and "properties" in schema
    ] == []


def test_fields_that_are_read_elsewhere_have_types() -> None:
    fields = DOCUMENT["components"]["schemas"]["CreateResponse"]["properties"]
    accepted = {"anyOf", "$ref", "type"}
    untyped = {name for name, field in fields.items() if not accepted & set(field)}
    # What is accepted without effect, and what is refused.
    assert untyped == {
        "access_programs",
        "background_options",
        "client_metadata",
        "context_management",
        "image",
        "moderation",
        "prompt",
        "prompt_cache_options",
        "prompt_cache_retention",
    }


def test_items_of_other_kinds_are_those_that_are_read() -> None:
    kinds = DOCUMENT["components"]["schemas"]["OtherItemParam"]["properties"]["type"]["enum"]
    assert set(kinds) == KINDS


def test_every_status_and_code_of_an_error_is_there() -> None:
    responses = DOCUMENT["components"]["responses"]
    for kind in vars(errors).values():
        if isinstance(kind, type) and issubclass(kind, APIError) and kind is not APIError:
            response = responses[f"Error{kind.status}"]
            assert (kind.default_code or kind.type) in response["content"]["application/json"][
                "examples"
            ]


def test_every_status_of_an_error_is_used() -> None:
    used = set(re.findall(r"#/components/responses/Error(\d+)", json.dumps(DOCUMENT)))
    assert {f"Error{status}" for status in used} == set(DOCUMENT["components"]["responses"])


def resolved(schema: dict[str, Any]) -> jsonschema.Draft202012Validator:
    """A validator of a schema of the document."""
    return jsonschema.Draft202012Validator({**schema, "components": DOCUMENT["components"]})


def examples() -> Iterator[Any]:
    """The schema and the value of each example."""

    def in_content(name: str, content: dict[str, Any]) -> Iterator[Any]:
        for media in content.values():
            values = {key: each["value"] for key, each in media.get("examples", {}).items()}
            if "example" in media:
                values["answer"] = media["example"]
            for key, value in values.items():
                yield pytest.param(media["schema"], value, id=f"{name}-{key}")

    for name, response in DOCUMENT["components"]["responses"].items():
        yield from in_content(name, response["content"])
    for item in DOCUMENT["paths"].values():
        for operation in item.values():
            name = operation["operationId"]
            yield from in_content(name, operation.get("requestBody", {}).get("content", {}))
            for response in operation["responses"].values():
                yield from in_content(name, response.get("content", {}))


@pytest.mark.parametrize(("schema", "value"), list(examples()))
def test_an_example_fits_its_schema(schema: dict[str, Any], value: Any) -> None:
    resolved(schema).validate(value)


@pytest.mark.parametrize("operation", operations.OPERATIONS, ids=lambda each: each.name)
def test_an_operation_with_a_body_has_an_example(operation: Operation) -> None:
    described = DOCUMENT["paths"][operation.path][operation.method]
    if operation.body is not None:
        assert described["requestBody"]["content"]["application/json"]["examples"]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("CreateResponse", {"input": 1}),
        ("CreateResponse", {"input": [{"type": "function_call_output", "call_id": "c"}]}),
        ("CreateResponse", {"input": [{"type": "message", "role": "wizard", "content": "x"}]}),
        ("CreateResponse", {"tools": [{"name": "f"}]}),
        ("CreateResponse", {"tool_choice": "sometimes"}),
        ("CreateResponse", {"text": {"format": {"type": "xml"}}}),
        ("CreateChatCompletion", {"model": "m"}),
        ("CreateChatCompletion", {"model": "m", "messages": [{"role": "user"}]}),
        ("CreateChatCompletion", {"model": "m", "messages": [], "response_format": "json"}),
        ("Detokenize", {"tokens": ["x"]}),
        ("Error", {"error": "x"}),
        ("Response", {**RESPONSE, "tools": [{"type": "function", "function": {"name": "f"}}]}),
        ("Response", {**RESPONSE, "tools": [{"type": "custom", "custom": {"name": "c"}}]}),
        ("Response", {**RESPONSE, "tools": [{"type": "file_search"}]}),
        ("Response", {**RESPONSE, "tool_choice": "sometimes"}),
        ("Response", {**RESPONSE, "tool_choice": {"type": "function", "function": {"name": "f"}}}),
        ("Response", {**RESPONSE, "tool_choice": {"type": "allowed_tools", "tools": []}}),
    ],
)
def test_a_schema_refuses_what_the_server_does_not_take(name: str, value: Any) -> None:
    validator = resolved({"$ref": f"#/components/schemas/{name}"})
    assert not validator.is_valid(value)


def test_links_to_components_lead_somewhere() -> None:
    for ref in set(re.findall(r'"#/(components/[^"]+)"', json.dumps(DOCUMENT))):
        found: Any = DOCUMENT
        for part in ref.split("/"):
            found = found[part]
