"""The OpenAPI document, from the table of operations.

Source: https://spec.openapis.org/oas/v3.1.1
"""

import re
from collections.abc import Iterator, Mapping
from importlib.metadata import version
from typing import Any

from pydantic import TypeAdapter
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from server.openapi import common, statuses
from server.openapi.examples import ANSWERS, REQUESTS, STREAMS
from server.openapi.operation import Operation, Query, Socket
from server.openapi.operations import OPERATIONS, SOCKETS

Fields = dict[str, Any]

OPENAPI = "3.1.1"
DESCRIPTION = """\
OpenAI's Responses and Chat Completions APIs for gpt-oss models, with extensions that are named \
as such. The server accepts fields that this document does not name.

Where the server has API keys, a request needs one of them. What is stored belongs to the key that \
stored it: another key gets a 404.

Every answer has the header `x-request-id`. The same id is in the server's log line."""
TAGS = {
    "Responses": "Responses, which may be stored, continued, followed and cancelled.",
    "Conversations": "Conversations that the server stores.",
    "Chat Completions": "Chat Completions, with the reasoning fields of OpenRouter.",
    "Files": "Files that the server stores, to be copied into containers.",
    "Containers": "Python sessions with files, for the tool `code_interpreter`.",
    "Raw prompts": "Prompts that are sampled from as they are, and the tokenizer.",
    "Server": "What is served, and how it is.",
}
IDEMPOTENCY_KEY = {
    "name": "Idempotency-Key",
    "in": "header",
    "description": "A retry with the same key and body gets the answer of the first request.",
    "schema": {"type": "string"},
}
REQUEST_ID = {
    "description": "The request's id in the server's log.",
    "schema": {"type": "string"},
}
PARAMETERS = {
    "response_id": "The response's id.",
    "conversation_id": "The conversation's id.",
    "item_id": "The item's id.",
    "completion_id": "The completion's id.",
    "file_id": "The file's id.",
    "container_id": "The container's id.",
    "name": "A served name. It may have slashes.",
}
_REF = "#/components/schemas/{model}"


def openapi() -> Fields:
    """The document. It takes some tenths of a second: call it off the event loop."""
    schemas = _Schemas()
    paths: dict[str, Fields] = {}
    for operation in OPERATIONS:
        described = _operation(operation, schemas)
        path = paths.setdefault(operation.path, {})
        path[operation.method] = described
        if operation.has_head:
            path["head"] = _head(described)
    for socket in SOCKETS:
        get = paths[socket.path]["get"]
        paths[socket.path]["get"] = _with_socket(get, socket, schemas)
    error = schemas.of(common.Error)
    return {
        "openapi": OPENAPI,
        "info": {
            "title": "gpt-oss-server",
            "version": version("gpt-oss-server"),
            "description": DESCRIPTION,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "tags": [{"name": name, "description": text} for name, text in TAGS.items()],
        "security": [{"apiKey": []}, {}],
        "paths": paths,
        "components": {
            "schemas": schemas.components,
            "responses": statuses.responses(error),
            "headers": {"x-request-id": REQUEST_ID},
            "parameters": {"Idempotency-Key": IDEMPOTENCY_KEY},
            "securitySchemes": {"apiKey": {"type": "http", "scheme": "bearer"}},
        },
    }


class _Generator(GenerateJsonSchema):
    """Leaves out titles that repeat names, and defaults that are null: null means left out."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        made = super().default_schema(schema)
        return {name: value for name, value in made.items() if (name, value) != ("default", None)}


class _Schemas:
    """The JSON schemas of all types that operations name. Those with a name are components."""

    def __init__(self) -> None:
        types = tuple(dict.fromkeys(_types()))
        # One pass: what several types refer to is made once.
        adapter = TypeAdapter(tuple[types])  # type: ignore[valid-type]
        made = _Generator(ref_template=_REF).generate(adapter.core_schema)
        self.components: Fields = made["$defs"]
        self._schemas: dict[Any, Fields] = dict(zip(types, made["prefixItems"], strict=True))

    def of(self, type_: Any) -> Fields:
        """The schema of a type that an operation names."""
        return self._schemas[type_]


def _types() -> Iterator[Any]:
    yield common.Error
    for operation in OPERATIONS:
        named = (
            operation.body,
            operation.form,
            operation.answer,
            operation.stream,
            operation.unready,
        )
        yield from filter(None, named)
    for socket in SOCKETS:
        yield from (socket.receives, socket.sends)


def _operation(operation: Operation, schemas: _Schemas) -> Fields:
    parameters = [*_path_parameters(operation.path), *map(_query, operation.query)]
    described: Fields = {
        "operationId": operation.name,
        "tags": [operation.tag],
        "summary": operation.summary,
    }
    if operation.description:
        described["description"] = operation.description
    if _may_be_retried(operation):
        parameters.append({"$ref": "#/components/parameters/Idempotency-Key"})
    if parameters:
        described["parameters"] = parameters
    if operation.body is not None or operation.form is not None:
        described["requestBody"] = _body(operation, schemas)
    described["responses"] = {"200": _answer(operation, schemas), **_errors(operation, schemas)}
    if operation.is_public:
        described["security"] = []
    return described


def _path_parameters(path: str) -> Iterator[Fields]:
    for name in re.findall(r"\{(\w+)\}", path):
        yield {
            "name": name,
            "in": "path",
            "required": True,
            "description": PARAMETERS[name],
            "schema": {"type": "string"},
        }


def _query(query: Query) -> Fields:
    style = {"style": "deepObject"} if query.schema["type"] == "object" else {}
    return {
        "name": query.name,
        "in": "query",
        "description": query.description,
        **style,
        "schema": query.schema,
    }


def _body(operation: Operation, schemas: _Schemas) -> Fields:
    content: Fields = {}
    if operation.form is not None:
        content["multipart/form-data"] = {"schema": schemas.of(operation.form)}
    if operation.body is not None:
        content["application/json"] = {
            "schema": schemas.of(operation.body),
            "examples": _examples(REQUESTS[operation.name]),
        }
    return {"required": operation.body_required, "content": content}


def _may_be_retried(operation: Operation) -> bool:
    """Whether an Idempotency-Key is read. It is not with uploads."""
    return operation.method == "post" and (operation.form is None or operation.body is not None)


def _examples(examples: Mapping[str, Any]) -> Fields:
    return {name.replace(" ", "_"): {"value": value} for name, value in examples.items()}


def _answer(operation: Operation, schemas: _Schemas) -> Fields:
    if operation.answer is None:
        media: Fields = {"schema": {"type": "string"}}
        if operation.media_type == "application/json":
            media = {"schema": {"type": "object"}}
    else:
        media = {"schema": schemas.of(operation.answer)}
    if operation.name in ANSWERS:
        media["example"] = ANSWERS[operation.name]
    content = {operation.media_type: media}
    description = "The answer."
    if operation.stream is not None:
        description = (
            "The answer, or a stream of events. The data of each event is one JSON value. The "
            "last event has the data `[DONE]`. Lines that begin with a colon are comments."
        )
        if operation.name in STREAMS:
            description += f"\n\n```\n{STREAMS[operation.name]}```"
        content["text/event-stream"] = {"schema": schemas.of(operation.stream)}
    return {"description": description, "headers": statuses.X_REQUEST_ID, "content": content}


def _errors(operation: Operation, schemas: _Schemas) -> Fields:
    numbers = {
        *statuses.ALWAYS,
        *operation.errors,
        *(() if operation.is_public else statuses.WITH_KEY),
        *(statuses.WITH_QUERY if operation.query else ()),
        *(() if operation.body is operation.form is None else statuses.WITH_BODY),
        *(statuses.WITH_IDEMPOTENCY_KEY if _may_be_retried(operation) else ()),
    }
    made: Fields = {str(status): _error(status) for status in sorted(numbers)}
    if operation.unready is not None:
        schema = {"anyOf": [schemas.of(operation.unready), schemas.of(common.Error)]}
        made["503"] = {
            "description": "It does not, for these reasons.",
            "headers": statuses.X_REQUEST_ID,
            "content": {"application/json": {"schema": schema}},
        }
    return made


def _error(status: int) -> Fields:
    return {"$ref": f"#/components/responses/{statuses.name(status)}"}


def _head(get: Fields) -> Fields:
    """As GET, without the body."""
    bare = {"description": "The head of the answer.", "headers": statuses.X_REQUEST_ID}
    shared: Fields = {name: get[name] for name in ("tags", "parameters", "security") if name in get}
    return {
        **shared,
        "operationId": f"{get['operationId']}Head",
        "summary": "As GET, without the body.",
        "responses": dict.fromkeys(get["responses"], bare),
    }


def _with_socket(get: Fields, socket: Socket, schemas: _Schemas) -> Fields:
    """The GET of a path that opens a WebSocket, too."""
    description = f"{get.get('description', '')}\n\n{socket.summary} {socket.description}"
    return {
        **get,
        "description": description.strip(),
        "responses": {
            "101": {"description": "The connection is a WebSocket from here on."},
            **get["responses"],
        },
        "x-websocket": {
            "receives": schemas.of(socket.receives),
            "sends": schemas.of(socket.sends),
        },
    }
