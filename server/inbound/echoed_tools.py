"""The tools of a request as objects show them that clients receive later."""

from collections.abc import Mapping, Sequence
from typing import Any

from server.inbound.tools import Tools

_CLIENTS_OWN = frozenset({"function", "custom", "namespace"})


def echoed_tools(tools: Sequence[Mapping[str, Any]] | None, read: Tools) -> list[dict[str, Any]]:
    """The tools as they were sent, without secrets.

    Of a hosted tool it has what its session shows. Others, which this server does not run, are left
    out: what they hold is unknown. read: what was read from `tools`.
    """
    hosted = {tool.param: tool.declaration.echo for tool in read.hosted}
    echoed: list[dict[str, Any]] = []
    for index, tool in enumerate(tools or ()):
        if (echo := hosted.get(f"{read.param}.{index}")) is not None:
            echoed.append(dict(echo))
        elif tool["type"] in _CLIENTS_OWN:
            echoed.append(dict(tool))
    return echoed
