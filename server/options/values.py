"""Reads the values of options: those that hold several, keys, origins and addresses."""

import json
import math
import re
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated

from pydantic import BeforeValidator
from pydantic_settings import NoDecode

NO_TOOLS = "none"
"""The value of `--hosted-tools` without any tool."""

_ORIGIN = re.compile(r"\*|null|[a-z][a-z0-9+.-]*://(?!:)[^/?#@\s]+", re.IGNORECASE)
"""Extensions of browsers have schemes of their own."""

_NOT_IN_HOST = re.compile(r"[/?#@\s]")

_DEFAULT_PORTS = {"http": ":80", "https": ":443"}

_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_LAST_PORT = 65_535

_JSON_ARRAY = re.compile(r'\[\s*["\]]')
"""How one begins. An IPv6 address, which may be an item, begins with `[`, too."""


def tool_names(value: str | None) -> tuple[str, ...] | None:
    """The names in `hosted_tools`; None for all tools."""
    if value is None:
        return None
    names = tuple(dict.fromkeys(items(value)))
    return () if names == (NO_TOOLS,) else names


def timeouts(text: str) -> dict[str, float]:
    """The values of `tool_timeout`. Raises ValueError for one that is not NAME=SECONDS."""
    limits: dict[str, float] = {}
    for item in items(text):
        name, _, seconds = item.partition("=")
        try:
            limits[name] = float(seconds)
        except ValueError:
            raise ValueError(f"{item!r} is not NAME=SECONDS") from None
        if not 0 < limits[name] < math.inf:
            raise ValueError(f"{item!r} is not NAME=SECONDS with more than 0 seconds")
    return limits


def sendable_key(key: str) -> str:
    """The key. Raises ValueError for one that no client can send in a header."""
    if not key or key != key.strip():
        raise ValueError("a key must not be empty, or begin or end with a space")
    if _CONTROL.search(key):
        raise ValueError("a key must not have control characters")
    return key


def read_keys(file: Path) -> tuple[str, ...]:
    """The keys in a file, one a line. Raises ValueError where it has none, or cannot be read."""
    try:
        # As variables that are not UTF-8: clients may send any bytes as a key.
        lines = file.read_text("utf-8-sig", "surrogateescape").split("\n")
    except OSError as error:
        raise ValueError(f"the file cannot be read: {error.strerror}") from error
    keys = tuple(sendable_key(key) for line in lines if (key := line.strip()))
    if not keys:
        raise ValueError("the file has no key in it")
    return keys


def kubernetes_link(port: object) -> object:
    """The port. Raises ValueError for what Kubernetes sets in a variable of this name."""
    if isinstance(port, str) and port.startswith("tcp://"):
        raise ValueError(
            "Kubernetes set it to the address of a service; set enableServiceLinks: false in the"
            " spec of the pod"
        )
    return port


def origin(value: str) -> str:
    """An origin as browsers send it, `*` or `null`. Raises ValueError for anything else.

    Browsers leave out the default port of a scheme (the URL standard, "port state").
    """
    if not _ORIGIN.fullmatch(value):
        raise ValueError("expected * or an origin such as https://app.example, without a path")
    scheme, separator, authority = value.lower().partition("://")
    return scheme + separator + authority.removesuffix(_DEFAULT_PORTS.get(scheme, ""))


def host_name(value: str) -> str:
    """A name of the server. Raises ValueError for none, and one with a scheme, a path or a user."""
    if not value or _NOT_IN_HOST.search(value):
        raise ValueError("expected a name such as chat.example, without a scheme or a path")
    return value


def model_name(value: str) -> str:
    """A name that clients may use. Raises ValueError for one that is empty or no line of text."""
    if not value.strip() or _CONTROL.search(value):
        raise ValueError("a name must not be empty, or have control characters")
    return value


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches the address."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def is_web_url(text: str, *, with_path: bool = True) -> bool:
    """Whether it is a URL of HTTP with a host. with_path: whether more may follow the port."""
    from httpx import URL, InvalidURL  # here, because `--help` must not wait for it

    try:
        url = URL(text)
        host = url.host
    except (InvalidURL, UnicodeError):  # the latter for a host that is no name
        return False
    if url.port is not None and not 0 < url.port <= _LAST_PORT:
        return False
    ends = url.raw_path == b"/" and not url.fragment
    return url.scheme in ("http", "https") and host != "" and (with_path or ends)


def items(text: str) -> tuple[str, ...]:
    """The items of a variable. Raises ValueError for a broken JSON array."""
    if not _JSON_ARRAY.match(text.strip()):
        return tuple(item for part in text.split(",") if (item := part.strip()))
    try:
        values = json.loads(text)
    except ValueError as error:
        raise ValueError(f"the JSON array cannot be read: {error}") from error
    if not all(isinstance(item, str) for item in values):
        raise ValueError("every item of the JSON array has to be a string")
    return tuple(values)


def _not_empty(value: object) -> object:
    if value == "":
        raise ValueError("expected the name of a folder")
    return value


def _split(value: object) -> object:
    """The items of a variable. The values of flags come as a list, and may contain commas."""
    return items(value) if isinstance(value, str) else value


def _split_keys(value: object) -> object:
    if isinstance(value, str) and not items(value):
        raise ValueError("the variable has no key in it; unset it, or leave it empty, for none")
    return _split(value)


Several = Annotated[tuple[str, ...], NoDecode, BeforeValidator(_split)]
"""The type of a repeatable option."""

Keys = Annotated[tuple[str, ...], NoDecode, BeforeValidator(_split_keys)]
"""The same for keys. A variable that is set without a key is refused: nothing would need one."""

NOT_EMPTY = BeforeValidator(_not_empty)
"""Refuses an empty name of a folder, which would be the current folder."""
