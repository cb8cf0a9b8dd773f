"""The options of `serve` that concern what clients see of the reasoning."""

from pathlib import Path
from typing import Literal, Self

from pydantic import Field, field_validator, model_validator
from pydantic_settings import BaseSettings

from server.options.values import is_web_url
from server.summaries.policy import load_policy


class ReasoningOptions(BaseSettings):
    """A part of `server.settings.Settings`."""

    raw_reasoning: Literal["show", "hide"] = Field(
        "show",
        description="whether answers hold the raw chain of thought; hide also refuses requests "
        "that would show it: raw completions (/v1/completions), rendered prompts, "
        "return_token_ids, gpt_oss:record",
    )
    reasoning_content: bool = Field(
        False, description="whether Chat answers repeat `reasoning` as `reasoning_content`"
    )
    reasoning_summary: Literal["off", "extractive", "model"] | None = Field(
        None,
        description="who writes the summaries of the reasoning that requests ask for: nobody "
        "(off); the server, of sentences of the reasoning (extractive); or a model, which "
        "withholds what must not be shown (model). Default: extractive; off with "
        "`--raw-reasoning hide`",
    )
    summary_model: str | None = Field(
        None,
        description="name of the model that writes summaries; --summary-url needs it. Default: the "
        "served one",
    )
    summary_url: str | None = Field(
        None,
        description="base URL of another server, with the API of Chat Completions, whose model "
        "writes summaries, such as http://host:8000/v1. Default: this engine, in free slots",
    )
    summary_key: str | None = Field(
        None, description="API key of the server at --summary-url", repr=False
    )
    summary_policy: Path | None = Field(
        None,
        description="Markdown file with what the summaries of a model may contain; "
        "docs/reasoning.md has the default",
    )
    summary_patience: float = Field(
        2.0,
        ge=0,
        allow_inf_nan=False,
        description="seconds that an answer waits, in all, for the summaries of its reasoning",
    )

    @field_validator("summary_url")
    @classmethod
    def _web_url(cls, value: str | None) -> str | None:
        if value is not None and not is_web_url(value):
            raise ValueError("expected a URL such as http://host:8000/v1")
        return value

    @field_validator("summary_policy")
    @classmethod
    def _readable_policy(cls, value: Path | None) -> Path | None:
        load_policy(value)
        return value

    @model_validator(mode="after")
    def _summaries_fit_together(self) -> Self:
        if self.summary_kind == "extractive" and self.hides_reasoning:
            raise ValueError(
                "--reasoning-summary extractive would show the reasoning that --raw-reasoning hide "
                "hides: use model or off"
            )
        options = ("summary_model", "summary_url", "summary_key", "summary_policy")
        given = [name for name in options if getattr(self, name) is not None]
        if given and self.summary_kind != "model":
            flag = given[0].replace("_", "-")
            raise ValueError(f"--{flag} needs --reasoning-summary model")
        if self.summary_url is not None and self.summary_model is None:
            raise ValueError("--summary-url needs --summary-model")
        if self.summary_key is not None and self.summary_url is None:
            raise ValueError("--summary-key needs --summary-url")
        return self

    @property
    def hides_reasoning(self) -> bool:
        """Whether answers leave the raw chain of thought out."""
        return self.raw_reasoning == "hide"

    @property
    def summary_kind(self) -> Literal["off", "extractive", "model"]:
        """Who writes summaries of reasoning: as set, else by what is shown of the reasoning."""
        if self.reasoning_summary is not None:
            return self.reasoning_summary
        return "off" if self.hides_reasoning else "extractive"
