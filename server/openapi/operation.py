"""What describes an operation of the API, and the parameters that lists share."""

from dataclasses import dataclass
from typing import Any, Literal

Method = Literal["get", "post", "delete"]


@dataclass(frozen=True, slots=True)
class Query:
    """A parameter of the query. schema: its JSON schema."""

    name: str
    description: str
    schema: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Operation:
    """One method of a path.

    name: unique. answer: the type of a 200's JSON; None where the answer is another document.
    body: the type of the request's JSON, None for none. form: that of the form that uploads a
    file, None where there are no uploads. body_required: False where the body may be missing.
    stream: the type of the events of a stream, where the operation has one. errors: statuses
    beside those that all such operations have. is_public: whether no key is needed. has_head:
    whether HEAD is served too. unready: the type of a 503 that is no error object.
    """

    name: str
    tag: str
    method: Method
    path: str
    summary: str
    answer: Any
    description: str = ""
    body: Any = None
    form: Any = None
    body_required: bool = True
    stream: Any = None
    query: tuple[Query, ...] = ()
    errors: tuple[int, ...] = ()
    is_public: bool = False
    has_head: bool = False
    unready: Any = None
    media_type: str = "application/json"


@dataclass(frozen=True, slots=True)
class Socket:
    """A WebSocket. OpenAPI has none: the GET of its path is described as what opens it, too."""

    path: str
    summary: str
    description: str
    receives: Any
    sends: Any


def paging(order: str, limit: int = 20, most: int = 100) -> tuple[Query, ...]:
    """The parameters of a list. order, limit: their defaults. most: the highest limit."""
    number = {"type": "integer", "minimum": 1, "maximum": most, "default": limit}
    direction = {"type": "string", "enum": ["asc", "desc"], "default": order}
    return (
        Query("limit", "The most entries of a page.", number),
        Query("after", "The id of the last entry of the page before.", {"type": "string"}),
        Query("order", "`asc`: the oldest first.", direction),
    )
