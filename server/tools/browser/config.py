"""The tool `web_search` as a request configures it.

Source: https://platform.openai.com/docs/guides/tools-web-search
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from server.errors import InvalidRequest
from server.tools.browser.search.base import Location
from server.tools.fetch.urls import ascii_host

MOST_DOMAINS = 100
MOST_RESULTS = 25
_MOST_DOMAIN = 253
_MOST_PLACE = 100


@dataclass(frozen=True, slots=True)
class ContextSize:
    """What `search_context_size` means. count, most: results; tokens: of a view."""

    count: int
    most: int
    tokens: int


SIZES = {
    "low": ContextSize(5, 5, 512),
    "medium": ContextSize(10, 20, 1024),
    "high": ContextSize(20, 20, 2048),
}


@dataclass(frozen=True, slots=True)
class SearchConfig:
    """The configuration of one request.

    allowed, blocked: domains, with their subdomains. web: whether the web may be reached; if not,
    only pages that were fetched before and local documents can be read. echo: the tool as the
    response repeats it.
    """

    type: str
    size: ContextSize
    location: Location
    allowed: tuple[str, ...]
    blocked: tuple[str, ...]
    web: bool
    echo: Mapping[str, Any]


def read_config(config: Mapping[str, Any], param: str) -> SearchConfig:
    """The configuration of a tool entry. Raises InvalidRequest; `param` names the entry."""
    kind = config["type"]
    size = config.get("search_context_size") or "medium"
    if not isinstance(size, str) or size not in SIZES:
        raise _invalid(param, "search_context_size", f"is one of {', '.join(SIZES)}")
    web = config.get("external_web_access")
    if web is not None and not isinstance(web, bool):
        raise _invalid(param, "external_web_access", "is a boolean")
    sized = _with_results(SIZES[size], config.get("max_results"), param)
    filters = _object(config, "filters", param)
    allowed = _domains(filters, "allowed_domains", param)
    blocked = _domains(filters, "blocked_domains", param)
    place = _object(config, "user_location", param)
    location = _location(place, param)
    echo: dict[str, Any] = {
        "type": kind,
        "search_context_size": size,
        "user_location": {"type": "approximate", **_fields(location)} if place else None,
    }
    if "preview" not in kind:
        echo["filters"] = _echoed_filters(allowed, blocked)
        if web is not None:
            echo["external_web_access"] = web
    return SearchConfig(kind, sized, location, allowed, blocked, web is not False, echo)


def _with_results(size: ContextSize, most: Any, param: str) -> ContextSize:
    """The size with OpenRouter's limit on the results of a search."""
    if most is None:
        return size
    if isinstance(most, bool) or not isinstance(most, int) or most < 1:
        raise _invalid(param, "max_results", "is an integer of at least 1")
    most = min(most, MOST_RESULTS)
    return replace(size, count=most, most=most)


def _echoed_filters(allowed: tuple[str, ...], blocked: tuple[str, ...]) -> dict[str, Any] | None:
    if not allowed and not blocked:
        return None
    filters: dict[str, Any] = {"allowed_domains": list(allowed) or None}
    return filters | ({"blocked_domains": list(blocked)} if blocked else {})


def _fields(location: Location) -> dict[str, str | None]:
    return {
        "country": location.country,
        "region": location.region,
        "city": location.city,
        "timezone": location.timezone,
    }


def _object(config: Mapping[str, Any], name: str, param: str) -> Mapping[str, Any]:
    value = config.get(name)
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise _invalid(param, name, "is an object")
    return value


def _location(place: Mapping[str, Any], param: str) -> Location:
    # Some clients nest the fields under `approximate` here, too, as Chat does.
    nested = place.get("approximate")
    fields = nested if isinstance(nested, Mapping) else place
    texts: dict[str, str] = {}
    for name in ("country", "region", "city", "timezone"):
        value = fields.get(name)
        if value is None or value == "":
            continue
        if not isinstance(value, str) or len(value) > _MOST_PLACE:
            raise _invalid(param, f"user_location.{name}", "is a short text")
        texts[name] = value
    country = texts.get("country")
    if country is not None:
        if not (len(country) == 2 and country.isascii() and country.isalpha()):
            raise _invalid(param, "user_location.country", "is a code of two letters")
        texts["country"] = country.upper()
    return Location(**texts)


def _domains(filters: Mapping[str, Any], name: str, param: str) -> tuple[str, ...]:
    value = filters.get(name)
    if value is None:
        return ()
    if not isinstance(value, list) or len(value) > MOST_DOMAINS:
        raise _invalid(param, f"filters.{name}", f"is a list of at most {MOST_DOMAINS} domains")
    return tuple(_domain(each, f"filters.{name}.{n}", param) for n, each in enumerate(value))


def _domain(value: Any, name: str, param: str) -> str:
    """A domain in ASCII. OpenAI's API takes domains without a scheme."""
    if isinstance(value, str) and 0 < len(value) <= _MOST_DOMAIN:
        text = value.strip().lower().removeprefix("*.").strip(".")
        try:
            text = ascii_host(text)
        except ValueError:
            text = ""
        if text and all(
            part.replace("-", "a").replace("_", "a").isalnum() for part in text.split(".")
        ):
            return text
    raise _invalid(param, name, "is a domain without a scheme, such as example.com")


def _invalid(param: str, name: str, rule: str) -> InvalidRequest:
    return InvalidRequest(f"'{param}.{name}' {rule}.", param=f"{param}.{name}")
