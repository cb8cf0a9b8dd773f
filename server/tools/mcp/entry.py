"""Reads the entry of an MCP server in a request's `tools`.

Source: https://platform.openai.com/docs/api-reference/responses/create#responses-create-tools
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, TypeVar

from server.errors import InvalidRequest
from server.schemas.fields import (
    invalid,
    optional_boolean,
    optional_mapping,
    optional_string,
    required,
    string,
)
from server.tools.mcp.rules import ALWAYS, InvalidRule, read_approval, read_filter
from server.tools.mcp.servers import MAX_HEADER, Server, check_headers, check_label, check_url

T = TypeVar("T")

MAX_URL = 4096
MAX_DESCRIPTION = 4096
"""Characters."""


def read_server(entry: Mapping[str, Any], configured: Mapping[str, Server], param: str) -> Server:
    """The server that an entry describes.

    configured: the operator's servers, by label. An entry may only restrict what the operator
    permits. Raises InvalidRequest naming the field under `param`.
    """
    for name in ("connector_id", "tunnel_id"):
        if entry.get(name) is not None:
            raise InvalidRequest(
                f"'{param}.{name}' is not supported: name the server by 'server_url'.",
                param=f"{param}.{name}",
                code="unsupported_parameter",
            )
    label = required(entry, "server_label", param, string)
    try:
        check_label(label)
    except ValueError as error:
        raise invalid(f"{param}.server_label", str(error)) from None
    optional_boolean(entry.get("defer_loading"), f"{param}.defer_loading")
    server = _base(entry, label, configured.get(label), param)
    allowed = _rules(entry, "allowed_tools", read_filter, param)
    approvals = _rules(entry, "require_approval", read_approval, param)
    description = optional_string(entry.get("server_description"), f"{param}.server_description")
    return replace(
        server,
        headers={**_headers(entry, server, param), **server.headers},
        allowed=(*server.allowed, *allowed),
        approvals=(*server.approvals, *approvals) or (ALWAYS,),
        description=description and description[:MAX_DESCRIPTION],
    )


def _base(entry: Mapping[str, Any], label: str, configured: Server | None, param: str) -> Server:
    where = f"{param}.server_url"
    url = optional_string(entry.get("server_url"), where)
    if configured is not None:
        if url is not None and url != configured.url:
            raise invalid(where, f"the operator configures the server '{label}' with another URL")
        return configured
    if url is None:
        raise invalid(where, f"expected a URL, as no server '{label}' is configured here")
    if len(url) > MAX_URL:
        raise invalid(where, f"expected at most {MAX_URL} characters")
    try:
        return Server(label, check_url(url))
    except ValueError as error:
        raise invalid(where, str(error)) from None


def _headers(entry: Mapping[str, Any], server: Server, param: str) -> dict[str, str]:
    where = f"{param}.headers"
    given = optional_mapping(entry.get("headers"), where) or {}
    if not all(isinstance(value, str) for value in given.values()):
        raise invalid(where, "expected strings")
    try:
        headers = check_headers(given)
    except ValueError as error:
        raise invalid(where, str(error)) from None
    token = optional_string(entry.get("authorization"), f"{param}.authorization")
    if token is not None:
        if "authorization" in headers:
            raise invalid(
                f"{param}.authorization", "'headers' must not have an Authorization beside it"
            )
        try:
            headers |= check_headers({"authorization": f"Bearer {token}"})
        except ValueError:
            most = MAX_HEADER - len("Bearer ")
            expected = f"expected at most {most} printable ASCII characters"
            raise invalid(f"{param}.authorization", expected) from None
    if headers and server.url is None:
        raise invalid(where, f"the server '{server.label}' is not reached by HTTP")
    return headers


def _rules(
    entry: Mapping[str, Any], name: str, read: Callable[[Any], T], param: str
) -> tuple[T, ...]:
    """The rule of a field, which `read` reads; none if the entry does not have the field."""
    if entry.get(name) is None:
        return ()
    try:
        return (read(entry[name]),)
    except InvalidRule as error:
        raise invalid(f"{param}.{name}{error.field}", str(error)) from None
