"""The values of labels. Each label has few, none of which a client chooses.

A value that nobody foresaw becomes `OTHER`: every value is a time series for as long as the process
runs.
"""

import re
from collections.abc import Iterable

from server.http.traffic import WEBSOCKET

OTHER = "other"

METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", WEBSOCKET})

MOST_VALUES = 200
"""The most values of a label whose values are written in the server's code, such as error codes."""


def method(name: str) -> str:
    """The label of a request's method."""
    return name if name in METHODS else OTHER


def route(path: str | None) -> str:
    """The label of a route, such as `/v1/responses/{response_id}`; `OTHER` for None."""
    return OTHER if path is None else re.sub(r"\{(\w+):\w+\}", r"{\1}", path)


def status(number: int | None) -> str:
    """The label of a status; `unanswered` for None."""
    return "unanswered" if number is None else str(number)


def tool(name: str, known: Iterable[str]) -> str:
    """The label of a hosted tool. name: that of a declaration. known: the names of the tools.

    Servers of the tool `mcp` have the labels that clients give them; all are `mcp`.
    """
    kind = name.partition(".")[0]
    return kind if kind in known else OTHER


class Values:
    """The values of a label that come from the server's code, at most `most` of them."""

    def __init__(self, most: int = MOST_VALUES) -> None:
        self._most = most
        self._known: set[str] = set()

    def of(self, value: str | None) -> str:
        """The label of a value; `none` for None."""
        if value is None:
            return "none"
        if value not in self._known:
            if len(self._known) >= self._most or not re.fullmatch(r"[a-z0-9_]{1,64}", value):
                return OTHER
            self._known.add(value)
        return value
