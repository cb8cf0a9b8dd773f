"""The options of `serve` that select the engine, and those that the engine reads."""

from typing import Self

from pydantic import Field, field_validator, model_validator
from pydantic_settings import BaseSettings

from adapters.registry import BUILT_IN, REMOTE
from server.options.values import Several


class EngineOptions(BaseSettings):
    """A part of `server.settings.Settings`. An engine's values may be keys, and are not shown."""

    backend: str = Field(
        "transformers", description=f"engine: {', '.join(BUILT_IN)}, or a plug-in's name"
    )
    backend_option: Several = Field(
        (),
        description="NAME=VALUE for the backend; docs/backends.md lists them (repeatable)",
        repr=False,
    )
    backend_url: Several = Field(
        (), description=f"an engine's base URL, for {', '.join(REMOTE)} (repeatable)", repr=False
    )
    engine_arg: Several = Field(
        (), description="NAME=VALUE for vLLM's engine (repeatable)", repr=False
    )
    script: str | None = Field(None, description="the scripted engine's file (JSON lines)")

    @field_validator("backend_option", "engine_arg")
    @classmethod
    def _named(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for option in value:
            if "=" not in option:
                raise ValueError(f"{option!r} is not NAME=VALUE")
        return value

    @model_validator(mode="after")
    def _script_belongs_to_scripted(self) -> Self:
        if (self.backend == "scripted") != (self.script is not None):
            raise ValueError("--backend scripted and --script FILE go together")
        return self

    @model_validator(mode="after")
    def _urls_are_for_engines_that_run_elsewhere(self) -> Self:
        if self.backend_url and self.backend in set(BUILT_IN) - set(REMOTE):
            *others, last = REMOTE
            raise ValueError(
                f"--backend-url is for the backends {', '.join(others)} and {last}; --backend is "
                f"{self.backend}"
            )
        return self

    @model_validator(mode="after")
    def _engine_arguments_are_for_vllm(self) -> Self:
        if self.engine_arg and self.backend != "vllm":
            raise ValueError(
                "--engine-arg is for --backend vllm; other engines take --backend-option NAME=VALUE"
            )
        if twice := _names(self.backend_option) & _names(self.engine_arg):
            raise ValueError(f"--backend-option and --engine-arg both set {min(twice)}")
        return self

    @property
    def backend_options(self) -> dict[str, str]:
        """The engine's options, by name."""
        items = (*self.backend_option, *self.engine_arg)
        options = dict(item.split("=", 1) for item in items)
        if self.backend_url:
            options["url"] = ",".join(self.backend_url)
        return options if self.script is None else {**options, "script": self.script}


def _names(options: tuple[str, ...]) -> set[str]:
    """The options' names. vLLM reads a dash in them as an underscore."""
    return {option.partition("=")[0].replace("-", "_") for option in options}
