"""The options of `serve` about the tools that the server runs: search, Python, MCP servers."""

import os
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator
from pydantic_settings import BaseSettings

from server.options.values import (
    NO_TOOLS,
    NOT_EMPTY,
    Several,
    is_web_url,
    timeouts,
    tool_names,
)

TOOL_TIMEOUTS = {"python": 120.0}
"""Seconds for one call. gpt-oss was trained with this time limit for Python."""


class ToolOptions(BaseSettings):
    """A part of `server.settings.Settings`."""

    hosted_tools: str | None = Field(
        None,
        description="tools that the server runs for requests that name them: their names, "
        "separated by commas, or none; default: all that this machine can run",
    )
    max_tool_rounds: int = Field(
        32,
        ge=1,
        description="most calls of hosted tools in one answer; after that the model has to answer",
    )
    tool_timeout: str = Field(
        "",
        description="seconds for one call of a hosted tool: NAME=SECONDS, separated by commas; "
        "default: python=120, 60 for others",
    )
    answer_timeout: float = Field(
        3600,
        gt=0,
        allow_inf_nan=False,
        description="seconds after the start of an answer in which hosted tools may run; after "
        "that the model has to answer",
    )
    mcp: Path | None = Field(
        None, description="TOML file with the MCP servers that requests use by `server_label` alone"
    )
    search: Several = Field(
        (),
        description="where `web_search` searches: files:FOLDER, searxng:URL, brave, tavily, exa, "
        "you, or a plug-in's name (repeatable: the next one is asked where one fails or finds "
        "nothing); default: files, this project's own documentation",
    )
    fetch_allow_private: Several = Field(
        (),
        description="network whose pages `web_search` may open although it is not public, such as "
        "10.1.0.0/16 (repeatable)",
    )
    fetch_allow_domain: Several = Field(
        (),
        description="domain whose pages `web_search` may open whatever its addresses are, with its "
        "subdomains; NAME:PORT allows that port beside 80 and 443 (repeatable)",
    )
    egress_proxy: str | None = Field(
        None,
        description="URL of an HTTP proxy through which pages are opened and search services are "
        "asked; it resolves names and has to refuse private addresses itself",
        repr=False,
    )
    robots: bool = Field(
        True, description="whether `web_search` obeys the robots.txt of sites that it opens"
    )
    python_sandbox: str = Field(
        "process",
        description="where Python code of the model runs: process, confined processes of this "
        "machine; or the URL of a service (gpt-oss-server python-sandbox)",
    )
    python_sandbox_key: str | None = Field(
        None, description="key of the service at `--python-sandbox URL`", repr=False
    )
    python_folder: Annotated[Path, NOT_EMPTY] | None = Field(
        None,
        description="folder of the files of Python sessions on this machine; default: one in the "
        "user's data folder, for root /var/lib/gpt-oss-server/python",
    )
    python_sessions: int = Field(
        64,
        ge=1,
        description="Python processes that live at once on this machine, beside one that waits for "
        "the next session; where there are more sessions, those idle longest lose their variables",
    )
    max_containers: int = Field(
        1024, ge=1, description="containers of one API key that run at once; more get a 429"
    )
    max_container_memory: Literal["1g", "4g", "16g", "64g"] = Field(
        "4g", description="largest `memory_limit` that a request may give a container"
    )

    @model_validator(mode="before")
    @classmethod
    def _an_empty_list_names_no_tool(cls, values: dict[str, Any]) -> dict[str, Any]:
        # Where it counted as not set, the server would have all tools.
        is_empty = os.environ.get("GPT_OSS_HOSTED_TOOLS") == ""
        return {"hosted_tools": NO_TOOLS, **values} if is_empty else values

    @field_validator("hosted_tools")
    @classmethod
    def _known_tools(cls, value: str | None) -> str | None:
        names = tool_names(value)
        if names:
            # Imported here, because it loads the store.
            from server.tools.registry import check

            check(names)
        return value

    @field_validator("tool_timeout")
    @classmethod
    def _seconds(cls, value: str) -> str:
        if names := timeouts(value):
            from server.tools.registry import check

            check(name.partition(".")[0] for name in names)  # mcp.LABEL is one of mcp
        return value

    @field_validator("mcp")
    @classmethod
    def _readable_servers(cls, value: Path | None) -> Path | None:
        if value is not None:
            from server.tools.mcp.servers import load_servers

            load_servers(value)
        return value

    @field_validator("search")
    @classmethod
    def _search_providers(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        from server.tools.browser.search.registry import check

        return tuple(map(check, value))

    @field_validator("fetch_allow_private")
    @classmethod
    def _networks(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        from server.tools.fetch.addresses import parse_networks

        return tuple(map(str, parse_networks(value)))

    @field_validator("fetch_allow_domain")
    @classmethod
    def _domains(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        from server.tools.fetch.urls import parse_domains

        parse_domains(value)
        return value

    @field_validator("egress_proxy")
    @classmethod
    def _proxy(cls, value: str | None) -> str | None:
        if value is not None and not is_web_url(value, with_path=False):
            raise ValueError("the proxy is a URL such as http://proxy:3128")
        return value

    @field_validator("python_sandbox")
    @classmethod
    def _known_sandbox(cls, value: str) -> str:
        if value != "process" and not is_web_url(value):
            raise ValueError("process, or a URL such as http://host:8001")
        return value

    @property
    def hosted_tool_names(self) -> tuple[str, ...] | None:
        """The names of the hosted tools; None for all that this machine can run."""
        return tool_names(self.hosted_tools)

    @property
    def tool_timeouts(self) -> dict[str, float]:
        """Seconds for one call, by the tool's name; tools without an entry have a default."""
        return TOOL_TIMEOUTS | timeouts(self.tool_timeout)
