"""MCP servers as a request or the operator's file describes them.

The file is TOML with one table for each server:

    [servers.docs]
    url = "https://docs.example.com/mcp"
    headers = { Authorization = "Bearer ${DOCS_TOKEN}" }

`${NAME}` in a header or in `env` stands for an environment variable of this process.
"""

import hashlib
import os
import re
import shlex
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import parse_qsl, urlsplit

import orjson
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from server.tools.mcp.redaction import Redactor
from server.tools.mcp.rules import (
    ApprovalRule,
    InvalidRule,
    ToolFilter,
    read_approval,
    read_filter,
)

BUILT_IN_LABELS: Mapping[str, Mapping[str, Any]] = {
    "code_interpreter": {"type": "code_interpreter", "container": {"type": "auto"}},
    "container": {"type": "code_interpreter", "container": {"type": "auto"}},
    "web_search_preview": {"type": "web_search_preview"},
}
"""vLLM's labels of its own tools, with the entry of `tools` that each stands for."""

MAX_TIMEOUT = 3600.0
MAX_HEADERS = 64
MAX_HEADER = 8192
"""Characters of the value of a header."""

_PLACE = re.compile(r" \(at [^()]*\)\Z")
"""How an error of the parser ends."""
_LABEL = re.compile(r"[A-Za-z0-9_-]{1,64}")
_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,128}")
_HEADER_VALUE = re.compile(r"[\x20-\x7e\t]*")
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
# They belong to the connection or to the protocol.
_RESERVED = frozenset(
    {
        *("accept", "accept-encoding", "connection", "content-encoding", "content-length"),
        *("content-type", "expect", "host", "keep-alive", "last-event-id", "te", "trailer"),
        *("mcp-method", "mcp-name", "mcp-protocol-version", "mcp-session-id"),
        *("transfer-encoding", "upgrade"),
    }
)
_RESERVED_PREFIXES = ("mcp-param-", "proxy-")


@dataclass(frozen=True, slots=True)
class Server:
    """A server as one request uses it.

    url: for HTTP. command: the program and its arguments, for stdio; only the operator names one.
    env: additional environment variables of the program. headers: sent with each HTTP request.
    allowed: a tool may be used if it matches all of these filters. approvals: a call needs approval
    if any of these rules says so. timeout: the most seconds for one call, None for the default.
    allow_private: permits `http` and addresses that are not public. description: what the client
    tells the model of the server.
    """

    label: str
    url: str | None = None
    command: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    allowed: tuple[ToolFilter, ...] = ()
    approvals: tuple[ApprovalRule, ...] = ()
    timeout: float | None = None
    allow_private: bool = False
    description: str | None = None

    @property
    def identity(self) -> str:
        """A digest of what the server is, headers included: equal for equal connections."""
        parts = [self.url, list(self.command), dict(self.env), dict(self.headers)]
        return hashlib.sha256(orjson.dumps([*parts, self.allow_private])).hexdigest()

    @property
    def address(self) -> str:
        """A digest of where the server is, without headers: tokens may change between requests."""
        return hashlib.sha256(orjson.dumps([self.url, list(self.command)])).hexdigest()

    @property
    def origin(self) -> str | None:
        """The URL without path and query, which may hold secrets; None for stdio."""
        if self.url is None:
            return None
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.netloc}"

    @property
    def redactor(self) -> Redactor:
        """Replaces the server's secrets: headers, environment and the values of the URL's query."""
        query = urlsplit(self.url).query if self.url else ""
        values = (value for _, value in parse_qsl(query))
        return Redactor([*self.headers.values(), *self.env.values(), *values, query])

    def allows(self, name: str, *, read_only: bool) -> bool:
        """Whether a tool may be used."""
        return all(each.matches(name, read_only=read_only) for each in self.allowed)

    def needs_approval(self, name: str, *, read_only: bool) -> bool:
        """Whether a call of a tool needs the client's approval."""
        return any(each.needs_approval(name, read_only=read_only) for each in self.approvals)


def check_label(label: str) -> str:
    """The label itself. Raises ValueError for one that makes names of functions ambiguous."""
    if not _LABEL.fullmatch(label) or "__" in label or label.endswith("_"):
        raise ValueError(
            "expected 1 to 64 letters, digits, hyphens and single underscores, the last one no"
            " underscore"
        )
    return label


def check_url(url: str, *, allow_private: bool = False) -> str:
    """The URL itself. Raises ValueError, which does not quote it, for one that no server may have.

    allow_private: whether `http` is permitted.
    """
    if not url.isascii() or not url.isprintable() or " " in url or "\\" in url:
        raise ValueError("expected a URL of printable ASCII characters")
    try:
        parts = urlsplit(url)
        parts.port  # noqa: B018  raises ValueError for what is no port
    except ValueError:
        # The error quotes what may be a secret.
        raise ValueError("expected a URL with a valid host and port") from None
    if parts.scheme != "https" and not (parts.scheme == "http" and allow_private):
        raise ValueError("expected an https URL")
    if not parts.hostname or parts.fragment:
        raise ValueError("expected a URL with a host and without a fragment")
    if "@" in parts.netloc:
        raise ValueError("expected a URL without a user and a password")
    return url


def check_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """The headers, with names in lower case. Raises ValueError, which quotes no value."""
    if len(headers) > MAX_HEADERS:
        raise ValueError(f"expected at most {MAX_HEADERS} headers")
    checked: dict[str, str] = {}
    for name, value in headers.items():
        low = name.lower()
        if not _HEADER_NAME.fullmatch(name) or low in checked:
            raise ValueError("expected names of headers, each of them once")
        if low in _RESERVED or low.startswith(_RESERVED_PREFIXES):
            raise ValueError(f"the header '{low}' cannot be set")
        if not _HEADER_VALUE.fullmatch(value) or len(value) > MAX_HEADER:
            raise ValueError(
                f"the value of the header '{low}' is not of at most {MAX_HEADER} printable"
                " ASCII characters"
            )
        checked[low] = value.strip()
    return checked


def load_servers(path: Path) -> dict[str, Server]:
    """The servers in the operator's file, by label.

    Raises ValueError, without values of the file in its message.
    """
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ValueError(f"{path} is not TOML: it is not UTF-8") from None
    except tomllib.TOMLDecodeError as error:
        # What is before it may quote the file.
        place = _PLACE.search(str(error))
        raise ValueError(f"{path} is not TOML{place[0] if place else ''}") from None
    tables = document.get("servers", {})
    if not isinstance(tables, dict) or document.keys() - {"servers"}:
        raise ValueError(f"{path}: expected tables [servers.LABEL] and nothing else")
    return {label: _load_server(label, table, path) for label, table in tables.items()}


def _load_server(label: str, table: Any, path: Path) -> Server:
    where = f"{path}: [servers.{label}]"
    try:
        check_label(label)
        if label in BUILT_IN_LABELS:
            raise ValueError("this label names a built-in tool")
        read = _Table.model_validate(table)
        return read.server(label)
    except ValidationError as error:
        raise ValueError(f"{where}: {_problems(error)}") from None
    except (InvalidRule, ValueError) as error:
        raise ValueError(f"{where}: {error}") from None


def _problems(error: ValidationError) -> str:
    found = error.errors(include_input=False, include_url=False, include_context=False)
    return "; ".join(f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in found)


def _words(value: Any) -> Any:
    return shlex.split(value) if isinstance(value, str) else value


class _Table(BaseModel):
    """One table of the operator's file."""

    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True, strict=True)

    url: str | None = None
    command: Annotated[list[str], BeforeValidator(_words)] = []
    args: list[str] = []
    env: dict[str, str] = {}
    headers: dict[str, str] = {}
    allowed_tools: Any = None
    require_approval: Any = None
    timeout: Annotated[float, Field(gt=0, le=MAX_TIMEOUT)] | None = None
    allow_private: bool = False

    def server(self, label: str) -> Server:
        if (self.url is None) == (not self.command):
            raise ValueError("expected either url or command")
        if self.url is None and self.headers:
            raise ValueError("headers go with url")
        if self.url is not None and (self.env or self.args):
            raise ValueError("args and env go with command")
        if self.url is not None:
            check_url(self.url, allow_private=self.allow_private)
        rule, tools = self.require_approval, self.allowed_tools
        return Server(
            label=label,
            url=self.url,
            command=(*self.command, *self.args),
            env=_expanded(self.env),
            headers=check_headers(_expanded(self.headers)),
            allowed=() if tools is None else (read_filter(tools),),
            approvals=() if rule is None else (read_approval(rule),),
            timeout=self.timeout,
            allow_private=self.allow_private,
        )


def _expanded(values: Mapping[str, str]) -> dict[str, str]:
    missing = sorted(set(_unset(values.values())))
    if missing:
        raise ValueError(f"the environment has no {', '.join(missing)}")
    return {
        name: _VARIABLE.sub(lambda match: os.environ[match[1]], value)
        for name, value in values.items()
    }


def _unset(values: Iterable[str]) -> Iterable[str]:
    for value in values:
        yield from (name for name in _VARIABLE.findall(value) if name not in os.environ)
