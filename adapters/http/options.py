"""The options of backends whose engines are servers (`--backend-option NAME=VALUE`)."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated

import httpx
from pydantic import Field

from adapters import options
from adapters.errors import BackendFailed

_LAST_PORT = 65_535

Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]


@dataclass(frozen=True, slots=True)
class Options:
    """url: the base URLs of the engines, separated by commas; `--backend-url` sets it.

    model: the name of the model at engines of vLLM; empty selects the first that they list. Other
    engines serve one model.
    api_key: sent to the engines as a bearer token; empty sends none. No URL may have a user then.
    connect_seconds: the longest time to open a connection.
    timeout_seconds: the longest time in which an engine sends nothing, queueing included.
    health_seconds: the time between two health checks of an engine.
    health_timeout_seconds: the longest time of one health check.
    """

    url: str = ""
    model: str = ""
    api_key: str = ""
    connect_seconds: Seconds = 5.0
    timeout_seconds: Seconds = 300.0
    health_seconds: Seconds = 5.0
    health_timeout_seconds: Seconds = 10.0

    @property
    def urls(self) -> tuple[str, ...]:
        """The base URLs without a slash at the end, one for each engine.

        Of URLs that differ in user and password only, it is the last.
        """
        urls = (url.strip().rstrip("/") for url in self.url.split(","))
        return tuple({without_user(url): url for url in urls if url}.values())


def without_user(url: str) -> str:
    """`url` without user and password, for logs and messages."""
    return re.sub(r"^(\w+://)[^/?#]*@", r"\1", url)


def parse_options(backend: str, values: Mapping[str, str]) -> Options:
    """The options of `backend`.

    Raises BackendFailed, which names the option that is unknown, missing or invalid. The message
    contains neither the key nor user and password of a URL.
    """
    parsed = options.parse_options(backend, Options, values)
    if not parsed.urls:
        raise BackendFailed(f"the {backend} backend needs --backend-url")
    for url in parsed.urls:
        _check_url(url)
    key = parsed.api_key.strip()
    if not (key.isascii() and key.isprintable()):
        raise BackendFailed("api_key has control characters, or characters outside of ASCII")
    # Both are sent in the header Authorization.
    if key and any(without_user(url) != url for url in parsed.urls):
        raise BackendFailed("api_key cannot be combined with a user or password in a URL")
    return replace(parsed, api_key=key)


def _check_url(url: str) -> None:
    # What is no URL is cut more, since a password may contain any character.
    shown = url.rpartition("@")[2]
    scheme = url.partition(":")[0]
    if scheme not in ("http", "https"):
        raise BackendFailed(f"{shown} does not begin with http:// or https://")
    # Paths are appended to it.
    if re.search(r"[?#\s]", url):
        raise BackendFailed(f"{shown} has a query, a fragment or white space")
    try:
        parsed = httpx.URL(url)
        host, port = parsed.host, parsed.port
    except (httpx.InvalidURL, UnicodeError):  # the latter for a host that is no name
        host, port = "", None
    if not host:
        raise BackendFailed(f"{shown} is no URL with a host")
    if port is not None and not 0 < port <= _LAST_PORT:
        raise BackendFailed(f"{shown} has a port that is not from 1 to {_LAST_PORT}")
