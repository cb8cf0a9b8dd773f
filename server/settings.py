"""The server's options: each is a flag of `gpt-oss-server serve` and an environment variable.

For example, the variable of `--served-model-name` is `GPT_OSS_SERVED_MODEL_NAME`. Flags take
precedence. An empty variable counts as not set, but an empty `GPT_OSS_HOSTED_TOOLS` names no tool.
In a variable, the values of a repeatable option are separated by commas, or stand in a JSON array
of strings: `GPT_OSS_ENGINE_ARG='["a=1,2", "b=3"]'`.
"""

import os
from pathlib import Path
from typing import Literal

from pydantic import Field, PrivateAttr, field_validator, model_validator
from pydantic_settings import SettingsConfigDict

from adapters.registry import REMOTE
from server.http.connections.limits import Limits
from server.options.engine import EngineOptions
from server.options.reasoning import ReasoningOptions
from server.options.storage import StorageOptions
from server.options.tools import ToolOptions
from server.options.values import (
    Keys,
    Several,
    host_name,
    is_loopback,
    kubernetes_link,
    model_name,
    origin,
    read_keys,
    sendable_key,
)

DEMO_NAME = "gpt-oss-demo"
DEMO_MAX_OUTPUT_TOKENS = 1024
"""The demo checkpoint writes short answers, or loops."""
REMOTE_NAME = "gpt-oss"
DEFAULT_MAX_RUNNING = 64
"""Where an engine does not say how many requests it computes at once."""


class Settings(EngineOptions, ReasoningOptions, ToolOptions, StorageOptions):
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
    api_key: Keys = Field((), description="key that clients must send (repeatable)", repr=False)
    api_key_file: Path | None = Field(
        None,
        description="file with more such keys, one a line; it is read at the start",
    )
    _file_keys: tuple[str, ...] = PrivateAttr(())
    share_cache: bool = Field(
        False,
        description="whether requests with different API keys share what engines have cached of "
        "equal prompts. That is faster, and shows in `cached_tokens` and in times what other keys "
        "have asked",
    )
    allow_anonymous: bool = Field(
        False,
        description="whether `serve` starts without a key on an address that other machines can "
        "reach",
    )
    allowed_host: Several = Field(
        (),
        description="host name that requests may use where there are no keys, beside localhost and "
        "the address that they come in on, with or without a port (repeatable); *.NAME allows its "
        "subdomains, * any name",
    )
    cors_origin: Several = Field((), description="origin that browsers may call from (repeatable)")
    playground: bool | None = Field(
        None,
        description="whether a playground for browsers is served at /playground; default: true "
        "where --host is a loopback address, else false",
    )
    unsupported_input: Literal["placeholder", "error"] = Field(
        "placeholder",
        description="what happens to input that the model cannot read (images, files): placeholder "
        "puts a note in its place, error refuses the request",
    )
    constrain: Literal["always", "needed", "never"] | None = Field(
        None,
        description="when a grammar constrains sampling: always, to legal harmony at least; "
        "needed, for requests with tools, a format, a reasoning budget, effort none or a bias of "
        "control tokens; or never. "
        "Default: always for transformers on a CPU, where it costs little, else needed",
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
        description="seconds that running answers may take to finish after Ctrl-C or SIGTERM",
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="how much is logged; prompts and keys never are"
    )

    @field_validator("port", mode="before")
    @classmethod
    def _not_a_link(cls, value: object) -> object:
        return kubernetes_link(value)

    @field_validator("api_key")
    @classmethod
    def _keys(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(map(sendable_key, value))

    @field_validator("cors_origin")
    @classmethod
    def _origins(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(map(origin, value))

    @field_validator("allowed_host")
    @classmethod
    def _host_names(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(map(host_name, value))

    @field_validator("served_model_name")
    @classmethod
    def _model_names(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(map(model_name, value)))

    @model_validator(mode="after")
    def _summaries_are_of_a_served_model(self) -> "Settings":
        if self.summary_url is None and self.summary_model not in (None, *self.model_names):
            raise ValueError(
                "--summary-model names a model that this server does not have: expected "
                f"{' or '.join(self.model_names)}, or --summary-url with another server"
            )
        return self

    @model_validator(mode="after")
    def _keys_of_the_file(self) -> "Settings":
        if self.api_key_file is not None:
            try:
                self._file_keys = read_keys(self.api_key_file)
            except ValueError as error:
                raise ValueError(f"--api-key-file: {error}") from error
        return self

    @model_validator(mode="after")
    def _a_body_fits(self) -> "Settings":
        # A single body must fit: encoded, decoded, and in pieces that are being joined.
        if self.max_body_memory < 3 * self.max_body_bytes:
            raise ValueError("--max-body-memory is at least three times --max-body-bytes")
        return self

    @property
    def api_keys(self) -> tuple[str, ...]:
        """The keys that clients may send, with those of the file; none where none is needed."""
        return (*self.api_key, *self._file_keys)

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
        # `Path.is_dir` raises for what cannot be a path, or not be looked at.
        is_folder = os.path.isdir(self.model)
        return (Path(self.model).resolve().name if is_folder else self.model,)

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
