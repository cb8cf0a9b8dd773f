"""Lists of tools: what is kept of a tool, and how many connections a list takes."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import mcp_types as types
import pytest

from server.tools.mcp.connection import Negotiated
from server.tools.mcp.failures import Failure, protocol_error
from server.tools.mcp.listing import Listings
from server.tools.mcp.servers import Server

SERVER = Server("docs", url="https://mcp.example.com")
SCHEMA = {"type": "object"}


class FakeServer:
    """Stands for the connections to a server. failure: raised instead of the list."""

    negotiated = Negotiated("http")

    def __init__(self, *tools: types.Tool, failure: Failure | None = None) -> None:
        self.tools = tools
        self.failure = failure
        self.list_changed = asyncio.Event()
        self.opened = self.released = 0

    async def connect(self, server: Server) -> Any:
        self.opened += 1
        await asyncio.sleep(0)
        return self

    def release(self, server: Server, connection: Any) -> None:
        self.released += 1

    async def tool_pages(self) -> AsyncIterator[types.ListToolsResult]:
        if self.failure is not None:
            raise self.failure
        yield types.ListToolsResult(tools=list(self.tools))

    def listings(self) -> Listings:
        return Listings(self.connect, self.release, lambda task: None)


async def test_all_who_need_a_list_at_once_wait_for_one_connection() -> None:
    fake = FakeServer(types.Tool(name="add", input_schema=SCHEMA))
    listings = fake.listings()

    first, second = await asyncio.gather(*(listings.get(SERVER, "owner") for _ in range(2)))

    assert first is second
    assert (fake.opened, fake.released) == (1, 1)


async def test_a_list_that_changes_while_it_is_fetched_is_fetched_again() -> None:
    class Growing(FakeServer):
        async def tool_pages(self) -> AsyncIterator[types.ListToolsResult]:
            async for page in super().tool_pages():
                yield page
            self.list_changed.set()
            self.list_changed = asyncio.Event()

    fake = Growing(types.Tool(name="add", input_schema=SCHEMA))
    listings = fake.listings()

    for _ in range(2):
        await listings.get(SERVER, "owner")

    assert fake.opened == 2


async def test_a_list_that_fails_closes_its_connection_and_is_fetched_again() -> None:
    fake = FakeServer(failure=protocol_error("The server is tired."))
    listings = fake.listings()

    for _ in range(2):
        with pytest.raises(Failure, match="tired"):
            await listings.get(SERVER, "owner")

    assert (fake.opened, fake.released) == (2, 2)


async def test_a_request_that_ends_takes_no_list_from_others() -> None:
    fake = FakeServer(types.Tool(name="add", input_schema=SCHEMA))
    listings = fake.listings()
    first, second = (asyncio.create_task(listings.get(SERVER, "owner")) for _ in range(2))
    await asyncio.sleep(0)

    first.cancel()

    assert [tool.name for tool in (await second).tools] == ["add"]


async def test_a_tool_has_its_texts_up_to_a_limit_and_its_hints() -> None:
    hints = types.ToolAnnotations(read_only_hint=True)
    fake = FakeServer(
        types.Tool(name="a", description="x" * 20_000, input_schema=SCHEMA, annotations=hints),
        types.Tool(name="b", input_schema=SCHEMA),
    )

    first, second = (await fake.listings().get(SERVER, "owner")).tools

    assert first.item["description"] == "x" * 16_384
    assert first.item["annotations"] == {"readOnlyHint": True}
    assert second.item == {"name": "b", "input_schema": SCHEMA}
    assert (first.read_only, second.read_only) == (True, False)


@pytest.mark.parametrize(("levels", "listed"), [(49, ["a", "b"]), (50, ["b"])])
async def test_a_tool_whose_schema_is_nested_too_deep_is_left_out(
    levels: int, listed: list[str]
) -> None:
    deep: dict[str, Any] = {"not": {}}
    for _ in range(levels):
        deep = {"allOf": [deep]}
    fake = FakeServer(
        types.Tool(name="a", input_schema=deep), types.Tool(name="b", input_schema=SCHEMA)
    )

    found = await fake.listings().get(SERVER, "owner")

    assert [tool.name for tool in found.tools] == listed


async def test_a_tool_whose_name_is_too_long_is_left_out() -> None:
    names = ["n" * 128, "n" * 129]
    fake = FakeServer(*(types.Tool(name=name, input_schema=SCHEMA) for name in names))

    found = await fake.listings().get(SERVER, "owner")

    assert [tool.name for tool in found.tools] == names[:1]


async def test_a_tool_with_a_number_that_json_cannot_write_is_left_out() -> None:
    fake = FakeServer(
        types.Tool(name="a", input_schema={"type": "object", "maximum": 1 << 64}),
        types.Tool(name="b", input_schema=SCHEMA),
    )

    assert [tool.name for tool in (await fake.listings().get(SERVER, "owner")).tools] == ["b"]


async def test_tools_of_too_many_bytes_together_are_an_error() -> None:
    large = {"type": "object", "description": "x" * (1 << 20)}
    tools = [types.Tool(name=f"t{number}", input_schema=large) for number in range(4)]

    assert len((await FakeServer(*tools[:3]).listings().get(SERVER, "owner")).tools) == 3
    with pytest.raises(Failure, match="more than 4,194,304 bytes"):
        await FakeServer(*tools).listings().get(SERVER, "owner")


async def test_stopping_ends_the_lists_that_are_fetched() -> None:
    fake = FakeServer(types.Tool(name="add", input_schema=SCHEMA))
    listings = fake.listings()
    waiting = asyncio.create_task(listings.get(SERVER, "owner"))
    await asyncio.sleep(0)

    listings.stop()

    with pytest.raises(asyncio.CancelledError):
        await waiting
