"""The server's options: each is a flag of `gpt-oss-server serve` and an environment variable.

The variable of `--served-model-name` is `GPT_OSS_SERVED_MODEL_NAME`, and so on. A flag wins over
the environment. Options that may be given several times are separated by commas in a variable.
"""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, field_validator, model_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from server.sealing import check_key
from server.store.engine import parse_url

DEMO_NAME = "gpt-oss-demo"
MEMORY = "memory"
"""A store that ends with the process."""
REMOTE_NAME = "gpt-oss"
Several = Annotated[tuple[str, ...], NoDecode]


class Settings(BaseSettings):
    """What `serve` can be told. Raises pydantic's ValidationError for a bad value."""

    model_config = SettingsConfigDict(
        env_prefix="GPT_OSS_",
        extra="forbid",
        frozen=True,
        hide_input_in_errors=True,
        protected_namespaces=(),
    )

    model: str | None = Field(
        None, description="checkpoint folder or hub name; without it the demo checkpoint is served"
    )
    served_model_name: Several = Field(
        (), description="name that clients use (repeatable); default: the model's own"
    )
    backend: str = Field(
        "transformers", description="engine: transformers, vllm, vllm-http, scripted, or a plug-in"
    )
    backend_option: Several = Field((), description="NAME=VALUE for the engine (repeatable)")
    backend_url: Several = Field((), description="an engine's base URL, for vllm-http (repeatable)")
    engine_arg: Several = Field((), description="NAME=VALUE for vLLM itself (repeatable)")
    script: str | None = Field(None, description="the scripted engine's file (JSON lines)")
    host: str = Field("127.0.0.1", description="address to listen on")
    port: int = Field(8000, ge=0, le=65535, description="port to listen on; 0 takes a free one")
    api_key: Several = Field((), description="key that clients must send (repeatable)", repr=False)
    cors_origin: Several = Field((), description="origin that browsers may call from (repeatable)")
    raw_reasoning: Literal["show", "hide"] = Field(
        "show", description="whether answers hold the raw chain of thought"
    )
    unsupported_input: Literal["placeholder", "error"] = Field(
        "placeholder",
        description="what becomes of input that the model cannot read (images, files): a note in "
        "its place, or a 400",
    )
    constrain: Literal["always", "needed", "never"] | None = Field(
        None,
        description="when sampling is held to a grammar: always to legal harmony, where a request "
        "needs it (tools, formats, a reasoning budget, effort none), or never; without it, always "
        "where masks are known to cost little (transformers on a CPU), else needed",
    )
    parallel_calls: bool = Field(
        False,
        description="true: a turn may make several calls, which gpt-oss was not trained to do; "
        "else the first one ends it",
    )
    reasoning_content: bool = Field(
        False, description="true: Chat answers repeat `reasoning` under its other name"
    )
    store: str | None = Field(
        None,
        description="where responses are kept: sqlite:///FILE, postgresql://… or memory; default: "
        "a file in the user's data folder",
        repr=False,
    )
    store_ttl: float = Field(30, gt=0, description="days that a response is kept; inf is for ever")
    store_patience: float = Field(
        60,
        ge=0,
        allow_inf_nan=False,
        description="seconds that a stored answer waits for a store that is unavailable before it "
        "fails",
    )
    encryption_key: Several = Field(
        (),
        description="key of the reasoning that clients keep (repeatable: the first seals, all "
        "open); default: one that the store keeps",
        repr=False,
    )
    max_running: int = Field(64, ge=1, description="requests that sample at once")
    max_waiting: int = Field(256, ge=0, description="requests that may wait; more get a 429")
    max_body_bytes: int = Field(32 * 1024 * 1024, ge=1, description="largest request body")
    drain_seconds: float = Field(
        30.0, ge=0, allow_inf_nan=False, description="how long Ctrl-C lets running answers finish"
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="how much is logged; prompts and keys never are"
    )

    @field_validator(
        "served_model_name",
        "encryption_key",
        "api_key",
        "cors_origin",
        "backend_option",
        "backend_url",
        "engine_arg",
        mode="before",
    )
    @classmethod
    def _split_variable(cls, value: object) -> object:
        """A variable is one string. Flags come as a list: their values may hold commas."""
        if not isinstance(value, str):
            return value
        return tuple(item for part in value.split(",") if (item := part.strip()))

    @field_validator("store")
    @classmethod
    def _known_store(cls, value: str | None) -> str | None:
        if value is not None and value != MEMORY:
            parse_url(value)
        return value

    @field_validator("encryption_key")
    @classmethod
    def _encryption_keys(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(map(check_key, value))

    @field_validator("served_model_name")
    @classmethod
    def _distinct(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(value))

    @field_validator("backend_option", "engine_arg")
    @classmethod
    def _named(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for option in value:
            if "=" not in option:
                raise ValueError(f"{option!r} is not NAME=VALUE")
        return value

    @model_validator(mode="after")
    def _script_belongs_to_scripted(self) -> "Settings":
        if (self.backend == "scripted") != (self.script is not None):
            raise ValueError("--backend scripted and --script FILE go together")
        return self

    @property
    def is_demo(self) -> bool:
        """Whether the tiny demo checkpoint is what runs."""
        return self.model is None and not self.backend_url and self.backend != "scripted"

    @property
    def model_names(self) -> tuple[str, ...]:
        """The names that clients may use; the first is the default."""
        if self.served_model_name:
            return self.served_model_name
        if self.is_demo:
            return (DEMO_NAME,)
        if self.model is None:
            return (REMOTE_NAME if self.backend_url else "scripted",)
        folder = Path(self.model)
        return (folder.resolve().name if folder.is_dir() else self.model,)

    @property
    def backend_options(self) -> dict[str, str]:
        """What the engine is told, by option name."""
        given = (*self.backend_option, *self.engine_arg)
        options = dict(option.split("=", 1) for option in given)
        if self.backend_url:
            options["url"] = ",".join(self.backend_url)
        return options if self.script is None else {**options, "script": self.script}
