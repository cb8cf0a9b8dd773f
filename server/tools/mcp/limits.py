"""The limits of the tool `mcp`, and the checks of those that hold for a whole request."""

from collections.abc import Sequence

from server.schemas.fields import invalid
from server.tools.base import ToolDeclaration

MAX_SERVERS = 64
"""Servers that one request may use."""

MAX_TOOLS = 128
"""Tools that one request may use, of all its servers."""

MAX_DEFINITIONS = 1 << 20
"""Bytes of JSON of the definitions of these tools."""

MAX_STREAM = 64 << 20
"""Bytes of a stream of events that lasts as long as its connection."""

BYTES_PER_LINE = 400
"""A stream of events may have one line for each so many bytes of its limit."""

MAX_OUTPUT = 1 << 20
"""Bytes of UTF-8 of the result of one call, as the client and the model get it."""

MAX_ARGUMENTS = 1 << 20
"""Characters of the arguments of one call."""

LIST_SECONDS = 10.0
"""Seconds to connect to a server and to list its tools."""

CACHE_SECONDS = 300.0
"""Seconds for which a list of tools is used again."""


def check_servers(labels: Sequence[object], param: str) -> None:
    """Check which servers a request names. Raises InvalidRequest for `param`.

    labels: the `server_label` of each entry, of any type.
    """
    if len(labels) > MAX_SERVERS:
        raise invalid(param, f"expected at most {MAX_SERVERS} MCP servers", "too_many_mcp_servers")
    texts = [label for label in labels if isinstance(label, str)]
    if len(set(texts)) < len(texts):
        raise invalid(param, "two MCP servers have the same 'server_label'", "duplicate_tool")


def check_definitions(declarations: Sequence[ToolDeclaration], param: str) -> None:
    """Check what the opened servers of a request declare together.

    declarations: those of the request's MCP servers. Raises InvalidRequest for `param`.
    """
    if sum(len(each.functions) for each in declarations) > MAX_TOOLS:
        raise invalid(
            param,
            f"the MCP servers have more than {MAX_TOOLS} tools together; name those to use in"
            " 'allowed_tools'",
            "too_many_mcp_tools",
        )
    if sum(each.size for each in declarations) > MAX_DEFINITIONS:
        raise invalid(
            param,
            f"the tools of the MCP servers have definitions of more than {MAX_DEFINITIONS:,} bytes"
            " together; name those to use in 'allowed_tools'",
            "too_many_mcp_tools",
        )
