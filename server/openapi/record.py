"""The record of an answer, the extension field `gpt_oss:record` of responses."""

from typing_extensions import TypedDict

from server.schemas.descriptions import described


@described
class RecordedLogprobs(TypedDict):
    """The logprob of a sampled token."""

    logprob: float
    top: list[tuple[int, float]]
    """The likeliest tokens at its place, best first: ids and logprobs."""


@described
class RecordedCall(TypedDict):
    """A hosted call that ran between two samplings."""

    recipient: str
    started_ms: int
    ended_ms: int


@described
class RecordedSampling(TypedDict):
    """One sampling by the engine. Times are milliseconds since the request was admitted.

    Of a record that was rendered again, only the place and the grammar are known.
    """

    start: int
    """The place of its first token in `token_ids`."""
    end: int
    """The place after its last token."""
    prompt_tokens: int | None
    cached_tokens: int | None
    """How many tokens of its prompt came from the engine's prefix cache, if that is known."""
    max_tokens: int | None
    """How many tokens it could sample."""
    grammar: str | None
    """The llguidance grammar that constrained it."""
    started_ms: int | None
    ended_ms: int | None
    token_ms: list[int] | None
    """When each token arrived."""
    logprobs: list[RecordedLogprobs] | None
    """For each token, where the request asks for logprobs; not of the final message alone."""


@described
class SamplingRecord(TypedDict):
    """The tokens of an answer, and how they were sampled."""

    recorded: bool
    """False where the record was rendered again from what is stored."""
    prompt_token_ids: list[int]
    token_ids: list[int]
    """All tokens after the prompt: those that were sampled, and results of hosted calls."""
    samplings: list[RecordedSampling]
    calls: list[RecordedCall]
    """The hosted calls that ran."""
