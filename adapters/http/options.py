"""What can be set for engines that are reached over HTTP (`--backend-option NAME=VALUE`)."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from adapters.errors import BackendFailed


@dataclass(frozen=True, slots=True)
class Options:
    """url: the engines' base URLs, separated by commas; `--backend-url` sets it.

    model: the model's name at the engines; empty takes the one they name first.
    api_key: sent to the engines as a bearer token.
    connect_seconds: how long connecting may take.
    timeout_seconds: how long an engine may send nothing in an answer, queueing included.
    health_seconds: between two health checks of an engine; health_timeout_seconds: for one.
    """

    url: str = ""
    model: str = ""
    api_key: str = ""
    connect_seconds: float = 5.0
    timeout_seconds: float = 300.0
    health_seconds: float = 5.0
    health_timeout_seconds: float = 10.0

    @property
    def urls(self) -> tuple[str, ...]:
        """The base URLs, each once."""
        found = (url.strip().rstrip("/") for url in self.url.split(","))
        return tuple(dict.fromkeys(url for url in found if url))


def parse_options(backend: str, given: Mapping[str, str]) -> Options:
    """Raises BackendFailed naming the option that is unknown, missing or has no such value."""
    kinds = {field.name: type(field.default) for field in fields(Options)}
    values: dict[str, Any] = {}
    for name, text in given.items():
        if name not in kinds:
            raise BackendFailed(f"the {backend} backend has no option {name}; it has {[*kinds]}")
        values[name] = text if kinds[name] is str else _seconds(name, text)
    options = Options(**values)
    if not options.urls:
        raise BackendFailed(f"the {backend} backend needs --backend-url")
    for url in options.urls:
        if not url.startswith(("http://", "https://")):
            raise BackendFailed(f"{url} does not begin with http:// or https://")
    return options


def _seconds(name: str, text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise BackendFailed(f"{name} must be a number of seconds above 0, not {text!r}")
    return seconds
