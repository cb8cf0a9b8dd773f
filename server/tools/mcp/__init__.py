"""The hosted tool `mcp`: tools of remote servers, by the Model Context Protocol."""
