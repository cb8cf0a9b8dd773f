"""Lists the tools of servers, and caches the lists. It needs the extra `mcp`.

Cached lists belong to a server, the headers sent to it, and an owner. While a list is fetched, all
who need it wait for the same fetch.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import mcp_types as types
import orjson
from cachetools import TTLCache

from harmony.names import is_name
from server.threads import run, size_of
from server.tools.mcp.connection import Connection, Negotiated, within
from server.tools.mcp.failures import protocol_error, timed_out
from server.tools.mcp.flatten import TooLarge, flatten
from server.tools.mcp.limits import CACHE_SECONDS, LIST_SECONDS
from server.tools.mcp.message_size import MAX_RESPONSE
from server.tools.mcp.servers import Server

MAX_LISTED = 4096
"""Tools of one server, before the request's filter."""

_CACHE_BYTES = 64 << 20
# A refused schema leaves nothing, but takes as much time as one of so many bytes.
_REFUSED_BYTES = 1 << 15
_ANY_OBJECT: Mapping[str, Any] = {"type": "object"}
_MAX_NAME = 128
_MAX_DESCRIPTION = 16_384
# One level in a schema is at most two of JSON, and orjson writes 254.
_MAX_NESTED = 100


@dataclass(frozen=True, slots=True)
class ListedTool:
    """A tool that a server lists.

    item: its entry in an item `mcp_list_tools`. parameters: its flattened schema. size: bytes of
    JSON of the item, or of the item with the flattened schema if they are more.
    """

    name: str
    item: Mapping[str, Any]
    parameters: Mapping[str, Any]
    read_only: bool
    size: int


@dataclass(frozen=True, slots=True)
class Listing:
    """The tools of a server, in its order, and how to connect to it.

    changed: set when the server has other tools now, or may have.
    """

    tools: tuple[ListedTool, ...]
    negotiated: Negotiated
    changed: asyncio.Event

    @property
    def size(self) -> int:
        """Bytes that the cache counts."""
        return 1024 + sum(tool.size for tool in self.tools)


class Listings:
    """Lists of tools, from the cache or from the servers.

    connect: an open connection, which `release` closes or keeps. background: gets tasks, which
    have to be kept until they end.
    """

    def __init__(
        self,
        connect: Callable[[Server], Awaitable[Connection]],
        release: Callable[[Server, Connection], None],
        background: Callable[[asyncio.Task[Any]], None],
    ) -> None:
        self._connect = connect
        self._release = release
        self._background = background
        self._cache: TTLCache[tuple[str, str], Listing] = TTLCache(
            _CACHE_BYTES, CACHE_SECONDS, getsizeof=lambda listing: listing.size
        )
        self._fetches: dict[tuple[str, str], asyncio.Task[Listing]] = {}

    async def get(self, server: Server, owner: str) -> Listing:
        """The tools of a server. Raises Failure."""
        key = (server.identity, owner)
        cached = self._cache.get(key)
        if cached is not None and not cached.changed.is_set():
            return cached
        fetch = self._fetches.get(key)
        if fetch is None:
            fetch = asyncio.create_task(self._fetch(server, key))
            self._fetches[key] = fetch
            self._background(fetch)
        return await asyncio.shield(fetch)

    def forget(self, server: Server, owner: str) -> None:
        """Drop a list that turned out to be wrong."""
        self._cache.pop((server.identity, owner), None)

    def stop(self) -> None:
        """End all fetches."""
        for fetch in self._fetches.values():
            fetch.cancel()

    async def _fetch(self, server: Server, key: tuple[str, str]) -> Listing:
        try:
            failure = timed_out(LIST_SECONDS, "To list the server's tools")
            listing = await within(LIST_SECONDS, self._list(server), failure)
            self._cache[key] = listing
            return listing
        finally:
            del self._fetches[key]

    async def _list(self, server: Server) -> Listing:
        connection = await self._connect(server)
        changed = connection.list_changed  # before the list: it may change meanwhile
        try:
            tools = await _all_tools(connection)
            size = size_of([tool.input_schema for tool in tools])
            listed = await run(lambda: tuple(_listed(server, tools)), size)
            return Listing(listed, connection.negotiated, changed)
        finally:
            self._release(server, connection)


async def _all_tools(connection: Connection) -> list[types.Tool]:
    """The first tool of each name: a page may come twice. Raises Failure if they are too many."""
    tools: dict[str, types.Tool] = {}
    async for page in connection.tool_pages():
        for tool in page.tools:
            tools.setdefault(tool.name, tool)
        if len(tools) > MAX_LISTED:
            raise protocol_error(f"The server lists more than {MAX_LISTED:,} tools.")
    return list(tools.values())


def _listed(server: Server, tools: list[types.Tool]) -> Iterator[ListedTool]:
    """The tools that can be declared and called. Others are left out."""
    redactor = server.redactor
    flattener = _Flattener()
    total = 0
    for tool in tools:
        if not _is_usable(tool):
            continue
        name, hints = tool.name, tool.annotations
        # Absent rather than null: Vercel's AI SDK refuses an answer with a null here.
        item: dict[str, Any] = {"name": name, "input_schema": tool.input_schema}
        if tool.description is not None:
            item["description"] = tool.description[:_MAX_DESCRIPTION]
        if hints is not None:
            item["annotations"] = hints.model_dump(mode="json", by_alias=True, exclude_none=True)
        cleaned = redactor.clean_json(item)
        assert isinstance(cleaned, dict)
        try:
            size = len(orjson.dumps(cleaned))
        except TypeError:  # what JSON cannot write, such as integers of more than 64 bits
            continue
        total += size
        if total > MAX_RESPONSE:
            raise protocol_error(f"The server's tools have more than {MAX_RESPONSE:,} bytes.")
        # Names and values of the arguments stay as they are, else no call could have them.
        parameters = flattener.parameters(redactor.clean_schema(tool.input_schema))
        declared = len(orjson.dumps({**cleaned, "input_schema": parameters}))
        read_only = hints is not None and hints.read_only_hint is True
        yield ListedTool(name, cleaned, parameters, read_only, max(size, declared))


def _is_usable(tool: types.Tool) -> bool:
    """Whether a tool can be declared, by a name that can stand in a header, and called.

    One that runs only as a task cannot be called: its server refuses clients that have no tasks.
    """
    if len(tool.name) > _MAX_NAME or not (tool.name.isascii() and is_name(tool.name)):
        return False
    if tool.execution is not None and tool.execution.task_support == "required":
        return False
    return _nests(tool.input_schema) <= _MAX_NESTED


class _Flattener:
    """Flattens the schemas of one list, as long as they do not become too large together."""

    def __init__(self) -> None:
        self._left = MAX_RESPONSE

    def parameters(self, schema: Mapping[str, Any]) -> Mapping[str, Any]:
        """The flattened schema; that of any object if it, or all together, became too large."""
        if self._left <= 0:
            return _ANY_OBJECT
        try:
            flat = flatten(schema)
        except TooLarge:
            self._left -= _REFUSED_BYTES
            return _ANY_OBJECT
        self._left -= len(orjson.dumps(flat))
        return flat


def _nests(value: Any) -> int:
    """How deep a JSON value is nested; counted up to just over the limit."""
    depth, level = 0, [value]
    while level and depth <= _MAX_NESTED:
        depth += 1
        level = [
            inner
            for each in level
            for inner in (each.values() if isinstance(each, dict) else each)
            if isinstance(inner, dict | list)
        ]
    return depth
