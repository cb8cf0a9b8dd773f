"""The SDK's server as a program: a call adds a tool, of which it tells clients that ask for it."""

from mcp.server.mcpserver import Context, MCPServer

server = MCPServer("announcing")


def second() -> None:
    """The added tool."""


@server.tool()
async def first(context: Context) -> None:
    """Add the tool."""
    server.add_tool(second)
    await context.notify_tools_changed()


server.run("stdio")
