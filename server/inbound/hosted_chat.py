"""Reads the forms in which only Chat Completions requests name the hosted web search.

Sources: https://platform.openai.com/docs/api-reference/chat/create for `web_search_options`,
https://openrouter.ai/docs/features/web-search for OpenRouter's tool and plugin. Each becomes an
entry `web_search` in the form of the Responses API.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from server.inbound.hosted import HostedEntry, hosted_entries
from server.schemas.chat import CreateChatCompletion
from server.schemas.fields import array, declaration, mapping, optional_mapping
from server.schemas.limits import MAX_LISTED
from server.tools.base import HostedTool

WEB_SEARCH = "web_search"
OPENROUTER_TOOL = "openrouter:web_search"
_SAME = ("search_context_size", "max_results")
_FILTERS = {"allowed_domains": "allowed_domains", "excluded_domains": "blocked_domains"}


def chat_entries(
    request: CreateChatCompletion, tools: Mapping[str, HostedTool]
) -> tuple[HostedEntry, ...]:
    """The request's entries that name hosted tools, as `hosted_entries` finds them in `tools`.

    Raises InvalidRequest naming the field of an entry that is not one.
    """
    entries = hosted_entries(request.tools, tools)
    search = tools.get(WEB_SEARCH)
    if search is None:
        return entries
    further = tuple(HostedEntry(search, config, param) for param, config in _searches(request))
    return (*entries, *further)


def _searches(request: CreateChatCompletion) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The fields in which the request asks for a web search, with the entry that each means."""
    for index, item in enumerate(request.tools or ()):
        if item["type"] == OPENROUTER_TOOL:
            where = f"tools.{index}"
            parameters = optional_mapping(item.get("parameters"), f"{where}.parameters")
            yield where, _of_openrouter(parameters or {}, f"{where}.parameters")
    if (options := request.web_search_options) is not None:
        where = "web_search_options"
        declaration(mapping(options, where), where)
        yield where, _entry(options, where)
    for where, plugin in web_plugins(request):
        yield where, _of_openrouter(plugin, where)


def web_plugins(request: CreateChatCompletion) -> Iterator[tuple[str, dict[str, Any]]]:
    """OpenRouter's plugins `web` among the request's plugins. Others have no meaning here."""
    plugins = request.plugins
    for index, item in enumerate([] if plugins is None else array(plugins, "plugins", MAX_LISTED)):
        where = f"plugins.{index}"
        plugin = mapping(item, where)
        if plugin.get("id") == "web" and plugin.get("enabled") is not False:
            yield where, plugin


def _of_openrouter(parameters: dict[str, Any], where: str) -> dict[str, Any]:
    declaration(parameters, where)
    entry = _entry(parameters, where)
    filters = {
        name: parameters[field]
        for field, name in _FILTERS.items()
        if parameters.get(field) is not None
    }
    return entry | ({"filters": filters} if filters else {})


def _entry(options: Mapping[str, Any], where: str) -> dict[str, Any]:
    entry: dict[str, Any] = {"type": WEB_SEARCH}
    entry |= {name: options[name] for name in _SAME if options.get(name) is not None}
    location = optional_mapping(options.get("user_location"), f"{where}.user_location")
    if location is not None:
        # Chat nests what Responses has beside the type.
        nested = optional_mapping(location.get("approximate"), f"{where}.user_location.approximate")
        entry["user_location"] = {
            **{name: value for name, value in location.items() if name != "approximate"},
            **(nested or {}),
        }
    return entry
