"""The page that shows the OpenAPI document."""

import base64
import hashlib
import re
from html.parser import HTMLParser
from typing import Any

import pytest

from server.openapi.page import POLICY, page
from server.openapi.types import type_of
from tests.server.openapi_document import DOCUMENT

PAGE = page(DOCUMENT)
VOID = {"meta"}


class Reader(HTMLParser):
    """What a page is made of. Refuses elements that are not closed in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.styles: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self._open[-1:] == ["style"]:
            self.styles.append(data)


READ = Reader(PAGE)


def test_it_loads_nothing_and_runs_nothing() -> None:
    names = {tag for tag, _ in READ.tags}
    assert names.isdisjoint({"script", "link", "img", "iframe", "object", "embed", "form"})
    attributes = {name for _, attrs in READ.tags for name in attrs}
    assert not {name for name in attributes if name.startswith("on") or name in ("src", "style")}


def test_its_style_loads_nothing_and_is_allowed_by_its_policy() -> None:
    (style,) = READ.styles
    assert "url(" not in style
    assert "@import" not in style
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert f"style-src 'sha256-{digest}'" in POLICY
    assert "default-src 'none'" in POLICY


def test_its_links_lead_to_the_page_itself_or_the_document() -> None:
    ids = [attrs["id"] for _, attrs in READ.tags if "id" in attrs]
    assert len(ids) == len(set(ids))
    links = {attrs["href"] or "" for tag, attrs in READ.tags if tag == "a"}
    assert links - {f"#{each}" for each in ids} == {"openapi.json"}


def test_it_shows_every_operation_schema_field_and_error() -> None:
    for path, item in DOCUMENT["paths"].items():
        assert f"<code>{path}</code>" in PAGE
        for method, operation in item.items():
            assert (f'id="{operation["operationId"]}"' in PAGE) is (method != "head")
    for name, schema in DOCUMENT["components"]["schemas"].items():
        assert f'<h3 id="{name}">' in PAGE
        for field in schema.get("properties", ()):
            assert f"<code>{field}</code>" in PAGE
    for name in DOCUMENT["components"]["responses"]:
        assert f'<h3 id="{name}">' in PAGE


def test_text_is_escaped() -> None:
    changed: dict[str, Any] = {
        **DOCUMENT,
        "info": {**DOCUMENT["info"], "title": "<script>", "description": "`<b>` & <i>"},
    }
    text = page(changed)
    assert "<script>" not in text
    assert "<code>&lt;b&gt;</code> &amp; &lt;i&gt;" in text


def test_code_in_descriptions_is_shown_as_it_is() -> None:
    assert re.search(r"<pre>event: response.created\n", PAGE)


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ({"$ref": "#/components/schemas/Item"}, '<a href="#Item">Item</a>'),
        ({"type": "integer", "minimum": 1, "maximum": 9}, "integer (≥ 1, ≤ 9)"),
        ({"type": "boolean", "default": False}, "boolean, by default <code>false</code>"),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, "string or null"),
        ({"const": "a"}, "<code>&quot;a&quot;</code>"),
        ({"enum": ["a", 1]}, "<code>&quot;a&quot;</code> or <code>1</code>"),
        (
            {"type": "array", "items": {"enum": [1, 2]}},
            "array of (<code>1</code> or <code>2</code>)",
        ),
        ({"type": "array", "items": {}}, "array"),
        ({"type": "object", "additionalProperties": {"type": "number"}}, "object of number"),
        ({"type": "object", "additionalProperties": True}, "object"),
        ({}, "any"),
    ],
)
def test_a_type_is_short(schema: dict[str, Any], text: str) -> None:
    assert type_of(schema) == text
