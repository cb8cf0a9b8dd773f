"""The options of backends whose engines are servers (`--backend-option NAME=VALUE`)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from adapters import options
from adapters.errors import BackendFailed

Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]


@dataclass(frozen=True, slots=True)
class Options:
    """url: the base URLs of the engines, separated by commas; `--backend-url` sets it.

    model: the name of the model at the engines; empty selects the first that they list.
    api_key: sent to the engines as a bearer token; empty sends none.
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
        """The base URLs without duplicates, and without a slash at the end."""
        urls = (url.strip().rstrip("/") for url in self.url.split(","))
        return tuple(dict.fromkeys(url for url in urls if url))


def parse_options(backend: str, values: Mapping[str, str]) -> Options:
    """The options of `backend`.

    Raises BackendFailed, which names the option that is unknown, missing or invalid.
    """
    parsed = options.parse_options(backend, Options, values)
    if not parsed.urls:
        raise BackendFailed(f"the {backend} backend needs --backend-url")
    for url in parsed.urls:
        if not url.startswith(("http://", "https://")):
            raise BackendFailed(f"{url} does not begin with http:// or https://")
    return parsed
