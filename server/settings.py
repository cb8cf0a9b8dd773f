"""The server's options: each is a flag of `gpt-oss-server serve` and an environment variable.

For example, the variable of `--served-model-name` is `GPT_OSS_SERVED_MODEL_NAME`. Flags take
precedence. An empty variable counts as not set, but an empty `GPT_OSS_HOSTED_TOOLS` names no tool.
In a variable, the values of a repeatable option are separated by commas, or stand in a JSON array
of strings: `GPT_OSS_ENGINE_ARG='["a=1,2", "b=3"]'`.
"""

import os
from pathlib import Path
from typing import Any, Literal

from platformdirs import user_data_path
from pydantic import Field, field_validator, model_validator
from pydantic_settings import SettingsConfigDict

from adapters.registry import REMOTE
from server.http.connections.limits import Limits
from server.schemas.engine_options import EngineOptions, Several
from server.schemas.option_values import (
    NO_TOOLS,
    is_loopback,
    is_web_url,
    items,
    origin,
    sendable_key,
    timeouts,
    tool_names,
)
from server.summaries.options import ReasoningOptions

DEMO_NAME = "gpt-oss-demo"
DEMO_MAX_OUTPUT_TOKENS = 1024
"""The demo checkpoint writes short answers, or loops."""
MEMORY = "memory"
"""The value of `store` for a store in this process's memory."""
TOOL_TIMEOUTS = {"python": 120.0}
"""Seconds for one call. gpt-oss was trained with this time limit for Python."""
REMOTE_NAME = "gpt-oss"
DEFAULT_MAX_RUNNING = 64
"""Where an engine does not say how many requests it computes at once."""


class Settings(EngineOptions, ReasoningOptions):
    """The options of `serve`. Raises pydantic's ValidationError for an invalid value."""

    model_config = SettingsConfigDict(
        env_prefix="GPT_OSS_",
        extra="forbid",
        frozen=True,
        hide_input_in_errors=True,
        # Compose and the like pass on what is not set as an empty variable.
        env_ignore_empty=True,
        protected_namespaces=(),
    )

    model: str | None = Field(
        None, description="checkpoint folder or hub name; without it the demo checkpoint is served"
    )
    served_model_name: Several = Field(
        (),
        description="name that clients use (repeatable); default: the model's own, gpt-oss for "
        "engines behind URLs",
    )
    host: str = Field("127.0.0.1", description="address to listen on")
    port: int = Field(8000, ge=0, le=65535, description="port to listen on; 0 takes a free one")
    api_key: Several = Field((), description="key that clients must send (repeatable)", repr=False)
    allow_anonymous: bool = Field(
        False,
        description="whether `serve` starts without a key on an address that other machines can "
        "reach",
    )
    allowed_host: Several = Field(
        (),
        description="host name that requests may use where there are no keys, beside localhost and "
        "the address that they come in on (repeatable); *.NAME allows its subdomains, * any name",
    )
    cors_origin: Several = Field((), description="origin that browsers may call from (repeatable)")
    playground: bool | None = Field(
        None,
        description="whether a playground for browsers is served at /playground; default: true "
        "where --host is a loopback address, else false",
    )
    unsupported_input: Literal["placeholder", "error"] = Field(
        "placeholder",
        description="what to do with input that the model cannot read (images, files): put a note "
        "in its place, or refuse the request",
    )
    constrain: Literal["always", "needed", "never"] | None = Field(
        None,
        description="when a grammar constrains sampling: always, to legal harmony at least; where "
        "a request needs it (tools, formats, a reasoning budget, effort none); or never. Default: "
        "always for transformers on a CPU, where it costs little, else needed",
    )
    default_max_output_tokens: int | None = Field(
        None,
        ge=1,
        description="most tokens of an answer, reasoning included, where the request names no "
        "limit; default: 1024 for the demo checkpoint, else what the context has room for",
    )
    repetition_guard: Literal["analysis", "off"] = Field(
        "analysis",
        description="what ends a loop: analysis closes reasoning that repeats the same few tokens "
        "for 512 tokens, and the answer follows; loops elsewhere are logged only",
    )
    parallel_calls: bool = Field(
        False,
        description="whether a turn may make several calls; gpt-oss was trained to end its turn "
        "with the first one",
    )
    hosted_tools: str | None = Field(
        None,
        description="tools that the server runs for requests that name them: their names, "
        "separated by commas, or none; default: all that this machine can run",
    )
    max_tool_rounds: int = Field(
        32,
        ge=1,
        description="most calls of hosted tools in one answer; a further call is refused, and the "
        "model has to answer",
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
        description="where `web_search` searches (repeatable: the next one where one fails or "
        "finds nothing): files:FOLDER, searxng:URL, brave, tavily, exa, you, or a plug-in's name; "
        "default: files, this project's own documentation",
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
    store: str | None = Field(
        None,
        description="where responses are stored: sqlite:///FILE, postgresql://… or memory; "
        "default: a file in the user's data folder",
        repr=False,
    )
    store_ttl: float = Field(
        30,
        gt=0,
        description="days that responses and chat completions are stored, and conversations after "
        "their last item; inf: for ever",
    )
    store_patience: float = Field(
        60,
        ge=0,
        allow_inf_nan=False,
        description="seconds that a stored answer waits for a store that is unavailable before it "
        "fails",
    )
    files: str | None = Field(
        None,
        description="folder for the content of uploaded files, which gateways that share a "
        "database share too; default: a folder in the user's data folder, a temporary one with "
        "`--store memory`",
    )
    max_file_bytes: int = Field(
        512 * 1024 * 1024, ge=1, description="bytes of the largest uploaded file; more get a 413"
    )
    max_owner_file_bytes: int = Field(
        10 * 1024 * 1024 * 1024,
        ge=1,
        description="bytes of all uploaded files of one API key; more get a 413",
    )
    max_containers: int = Field(
        1024, ge=1, description="containers of one API key that run at once; more get a 429"
    )
    max_container_memory: Literal["1g", "4g", "16g", "64g"] = Field(
        "4g", description="largest `memory_limit` that a request may give a container"
    )
    encryption_key: Several = Field(
        (),
        description="key that seals the reasoning that clients store: 32 bytes in URL-safe base64 "
        "(repeatable: the first one seals, all of them open); default: one that is stored with the "
        "responses",
        repr=False,
    )
    python_sandbox: str = Field(
        "process",
        description="where Python code of the model runs: process, confined processes of this "
        "machine; or the URL of a service (gpt-oss-server python-sandbox)",
    )
    python_sandbox_key: str | None = Field(
        None, description="key of the service at --python-sandbox URL", repr=False
    )
    python_folder: Path | None = Field(
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
    max_running: int | None = Field(
        None,
        ge=1,
        description="requests that sample at once; default: as many as the engine computes at once "
        "(transformers: batch_requests; vllm: max_num_seqs; vllm-http: 256 for each engine; "
        "llama-cpp: its slots), else 64",
    )
    max_waiting: int = Field(256, ge=0, description="requests that may wait; more get a 429")
    max_connections: int = Field(4096, ge=1, description="open connections; more get a 503")
    max_connections_per_address: int = Field(
        1024,
        ge=1,
        description="open connections from one IPv4 address or IPv6 /64 prefix; a load balancer "
        "is one address",
    )
    limit_concurrency: int = Field(
        2048,
        ge=1,
        description="requests and WebSockets processed at once, of any kind; more get a 503, "
        "except health checks and /metrics",
    )
    max_body_bytes: int = Field(
        32 * 1024 * 1024, ge=1, description="bytes of the largest request body"
    )
    max_unread: int = Field(
        8 * 1024 * 1024,
        ge=1,
        description="bytes of a streamed answer that may wait for a client that does not read; "
        "beyond it a stored answer is read back from the store, any other ends with an error",
    )
    max_body_memory: int = Field(
        256 * 1024 * 1024,
        ge=1,
        description="bytes of all request bodies in memory together, compressed and decompressed; "
        "more get a 503. At least three times --max-body-bytes",
    )
    drain_seconds: float = Field(
        30.0,
        ge=0,
        allow_inf_nan=False,
        description="seconds that Ctrl-C lets running answers finish",
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="how much is logged; prompts and keys never are"
    )

    @field_validator(
        "served_model_name",
        "encryption_key",
        "api_key",
        "allowed_host",
        "cors_origin",
        "backend_option",
        "backend_url",
        "engine_arg",
        "search",
        "fetch_allow_private",
        "fetch_allow_domain",
        mode="before",
    )
    @classmethod
    def _split_variable(cls, value: object) -> object:
        """Split a variable's string. The values of flags may contain commas."""
        return items(value) if isinstance(value, str) else value

    @field_validator("api_key")
    @classmethod
    def _keys(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(map(sendable_key, value))

    @field_validator("cors_origin")
    @classmethod
    def _origins(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(map(origin, value))

    @field_validator("store")
    @classmethod
    def _known_store(cls, value: str | None) -> str | None:
        if value is not None and value != MEMORY:
            # Imported here, because `--help` must not wait for SQLAlchemy.
            from server.store.sqlalchemy_engine import parse_url

            parse_url(value)
        return value

    @field_validator("encryption_key")
    @classmethod
    def _encryption_keys(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if not value:
            return value
        from server.replay.sealing import check_key

        return tuple(map(check_key, value))

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

    @field_validator("served_model_name")
    @classmethod
    def _distinct(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(value))

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

    @field_validator("mcp")
    @classmethod
    def _readable_servers(cls, value: Path | None) -> Path | None:
        if value is not None:
            from server.tools.mcp.servers import load_servers

            load_servers(value)
        return value

    @field_validator("tool_timeout")
    @classmethod
    def _seconds(cls, value: str) -> str:
        if names := timeouts(value):
            from server.tools.registry import check

            check(name.partition(".")[0] for name in names)  # mcp.LABEL is one of mcp
        return value

    @model_validator(mode="after")
    def _summaries_are_of_a_served_model(self) -> "Settings":
        if self.summary_url is None and self.summary_model not in (None, *self.model_names):
            raise ValueError(
                "--summary-model names a model that this server does not have: expected "
                f"{' or '.join(self.model_names)}, or --summary-url with another server"
            )
        return self

    @model_validator(mode="after")
    def _files_are_found_again(self) -> "Settings":
        if self.store == MEMORY and self.files is not None:
            raise ValueError("--files needs a store that outlives the process, not --store memory")
        return self

    @model_validator(mode="after")
    def _a_body_fits(self) -> "Settings":
        # A single body must fit: encoded, decoded, and in pieces that are being joined.
        if self.max_body_memory < 3 * self.max_body_bytes:
            raise ValueError("--max-body-memory is at least three times --max-body-bytes")
        return self

    @property
    def hosted_tool_names(self) -> tuple[str, ...] | None:
        """The names of the hosted tools; None for all that this machine can run."""
        return tool_names(self.hosted_tools)

    @property
    def tool_timeouts(self) -> dict[str, float]:
        """Seconds for one call, by the tool's name; tools without an entry have a default."""
        return TOOL_TIMEOUTS | timeouts(self.tool_timeout)

    @property
    def is_demo(self) -> bool:
        """Whether the demo checkpoint is served."""
        has_engine = self.backend_url or self.backend in (*REMOTE, "scripted")
        return self.model is None and not has_engine

    @property
    def max_output_tokens(self) -> int | None:
        """The default limit on an answer's tokens; None is the rest of the context."""
        if self.default_max_output_tokens is None and self.is_demo:
            return DEMO_MAX_OUTPUT_TOKENS
        return self.default_max_output_tokens

    @property
    def model_names(self) -> tuple[str, ...]:
        """The names that clients may use; the first is the default."""
        if self.served_model_name:
            return self.served_model_name
        if self.is_demo:
            return (DEMO_NAME,)
        if self.model is None:
            return ("scripted" if self.backend == "scripted" else REMOTE_NAME,)
        folder = Path(self.model)
        return (folder.resolve().name if folder.is_dir() else self.model,)

    @property
    def allowed_hosts(self) -> tuple[str, ...]:
        """The hosts that requests without a key may name: `host` and those of `allowed_host`."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return (host, *self.allowed_host)

    @property
    def serves_playground(self) -> bool:
        """Whether the playground is served: as set, else on loopback addresses."""
        return is_loopback(self.host) if self.playground is None else self.playground

    @property
    def limits(self) -> Limits:
        """The limits on connections and requests."""
        return Limits(
            connections=self.max_connections,
            connections_per_address=self.max_connections_per_address,
            requests=self.limit_concurrency,
        )

    @property
    def files_folder(self) -> Path | None:
        """The folder of uploaded files; None for a temporary one."""
        if self.store == MEMORY:
            return None
        if self.files is not None:
            return Path(self.files)
        return user_data_path("gpt-oss-server", appauthor=False) / "files"
