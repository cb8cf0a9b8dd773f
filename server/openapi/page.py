"""The document as a page: HTML and a style, no scripts, nothing from elsewhere."""

import base64
import hashlib
import json
import re
from collections.abc import Iterable, Iterator
from html import escape
from typing import Any

from server.openapi.types import type_of

Fields = dict[str, Any]

STYLE = """\
:root { color-scheme: light dark; --line: #8884; --code: #8882; }
body { font: 16px/1.5 system-ui, sans-serif; margin: 0 auto; max-width: 60rem; padding: 1rem; }
h1, h2, h3 { line-height: 1.2; }
h2 { border-bottom: 1px solid var(--line); margin-top: 2.5rem; padding-bottom: .3rem; }
code, pre { background: var(--code); border-radius: .2rem; font: .9em ui-monospace, monospace; }
code { padding: .1em .2em; overflow-wrap: anywhere; }
pre { overflow-x: auto; padding: .6rem; }
details { border: 1px solid var(--line); border-radius: .3rem; margin: .5rem 0; }
summary { cursor: pointer; padding: .4rem .6rem; }
details > div { padding: 0 .6rem .6rem; }
table { border-collapse: collapse; margin: .5rem 0; width: 100%; }
th, td { border: 1px solid var(--line); padding: .3rem .5rem; text-align: left;
  vertical-align: top; }
td > p { margin: 0 0 .3rem; }
.method { display: inline-block; font-weight: bold; min-width: 4rem; }
"""
POLICY = (
    "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; style-src "
    f"'sha256-{base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()}'"
)
"""The Content-Security-Policy of the page: its own style, and nothing else."""


def page(document: Fields) -> str:
    """The page that shows the document of `server.openapi.document`."""
    info = document["info"]
    title = escape(info["title"])
    return "".join(
        [
            '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{title} API</title><style>{STYLE}</style></head><body>",
            f"<h1>{title} {escape(info['version'])}</h1>{_prose(info['description'])}",
            '<p>For programs: <a href="openapi.json">openapi.json</a>, in the form of OpenAPI ',
            f"{document['openapi']}.</p>",
            *_tags(document),
            '<h2 id="errors">Errors</h2>',
            *_errors(document["components"]["responses"]),
            '<h2 id="schemas">Schemas</h2>',
            *_components(document["components"]["schemas"]),
            "</body></html>\n",
        ]
    )


def _tags(document: Fields) -> Iterator[str]:
    for tag in document["tags"]:
        yield f"<h2>{escape(tag['name'])}</h2>{_prose(tag['description'])}"
        for path, operations in document["paths"].items():
            for method, operation in operations.items():
                if tag["name"] in operation["tags"] and method != "head":
                    yield _operation(document, path, method, operation)


def _operation(document: Fields, path: str, method: str, operation: Fields) -> str:
    socket = operation.get("x-websocket")
    shown = f"{method.upper()}{', WebSocket' if socket else ''}"
    parts = [_prose(operation.get("description", ""))]
    if operation.get("security") == []:
        parts.append("<p>No key is needed.</p>")
    if parameters := operation.get("parameters"):
        parts.append(_parameters(_resolved(document, each) for each in parameters))
    if body := operation.get("requestBody"):
        needed = "" if body["required"] else " (may be left out)"
        parts.append(f"<h3>Request{needed}</h3>{_content(body['content'])}")
    if socket:
        parts.append(f"<p>Over a WebSocket the client sends {type_of(socket['receives'])}. ")
        parts.append(f"The server sends {type_of(socket['sends'])}.</p>")
    parts.append("<h3>Answers</h3>")
    parts += [_answer(status, each) for status, each in operation["responses"].items()]
    return (
        f'<details id="{escape(operation["operationId"])}"><summary>'
        f'<span class="method">{shown}</span> <code>{escape(path)}</code> '
        f"{_inline(operation['summary'])}</summary><div>{''.join(parts)}</div></details>"
    )


def _resolved(document: Fields, parameter: Fields) -> Fields:
    name = parameter.get("$ref", "").rpartition("/")[2]
    found: Fields = document["components"]["parameters"][name] if name else parameter
    return found


def _parameters(parameters: Iterable[Fields]) -> str:
    rows = (
        (
            f"<code>{escape(each['name'])}</code>",
            escape(each["in"]),
            type_of(each["schema"]),
            _prose(each["description"]),
        )
        for each in parameters
    )
    return f"<h3>Parameters</h3>{_table(('name', 'in', 'type', 'description'), rows)}"


def _answer(status: str, answer: Fields) -> str:
    if "$ref" in answer:
        name = answer["$ref"].rpartition("/")[2]
        return f'<p><a href="#{escape(name)}">{status}</a></p>'
    return f"<p><b>{status}</b></p>{_prose(answer['description'])}{_content(answer.get('content'))}"


def _content(content: Fields | None) -> str:
    parts = []
    for media_type, media in (content or {}).items():
        parts.append(f"<p><code>{escape(media_type)}</code>: {type_of(media['schema'])}</p>")
        named = {name: each["value"] for name, each in media.get("examples", {}).items()}
        if "example" in media:
            named["example"] = media["example"]
        for name, value in named.items():
            text = escape(json.dumps(value, indent=2, ensure_ascii=False))
            parts.append(
                f"<details><summary>Example: {escape(name.replace('_', ' '))}</summary>"
                f"<div><pre>{text}</pre></div></details>"
            )
    return "".join(parts)


def _errors(responses: Fields) -> Iterator[str]:
    for name, response in responses.items():
        headers = ", ".join(f"<code>{escape(header)}</code>" for header in response["headers"])
        yield (
            f'<h3 id="{escape(name)}">{escape(name.removeprefix("Error"))}</h3>'
            f"{_prose(response['description'])}<p>Headers: {headers}</p>"
        )
        yield _content(response["content"])


def _components(schemas: Fields) -> Iterator[str]:
    for name, schema in schemas.items():
        yield f'<h3 id="{escape(name)}">{escape(name)}</h3>{_prose(schema.get("description", ""))}'
        if "properties" not in schema:
            yield f"<p>{type_of(schema)}</p>"
            continue
        required = schema.get("required", ())
        rows = (
            (
                f"<code>{escape(field)}</code>{' (required)' if field in required else ''}",
                type_of(each),
                _prose(each.get("description", "")),
            )
            for field, each in schema["properties"].items()
        )
        yield _table(("field", "type", "description"), rows)


def _table(heads: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    head = "".join(f"<th>{name}</th>" for name in heads)
    body = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows)
    return f"<table><tr>{head}</tr>{body}</table>"


def _prose(text: str) -> str:
    """Paragraphs and fenced code, as the document's descriptions have them."""
    blocks = re.split(r"\n*```\n(.*?)```\n*", text, flags=re.DOTALL)
    return "".join(
        f"<pre>{escape(block)}</pre>" if index % 2 else _paragraphs(block)
        for index, block in enumerate(blocks)
    )


def _paragraphs(text: str) -> str:
    return "".join(f"<p>{_inline(each)}</p>" for each in text.split("\n\n") if each.strip())


def _inline(text: str) -> str:
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text))
