"""The interface between the server and engines: token ids in, token ids out.

The interface is independent of harmony and HTTP. `BackendConfig` provides the functions of harmony
that an adapter needs (an encoder for scripts, a tokenizer for grammars).
"""

from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol

FinishReason = Literal["stop", "length"]

CONTEXT_LENGTH = 131_072
"""The tokens of gpt-oss's context, where no engine reports its own."""
VOCAB_SIZE = 201_088
"""The number of logits of all gpt-oss models, for engines that do not report it."""

LEAST_LOGPROB = -9999.0
"""Replaces missing and lower logprobs, and -inf, which JSON does not have; as in vLLM's servers."""

Progress = Callable[[str, float], None]
"""Gets the name of a stage, and the completed fraction of it in [0, 1]."""

_SEED_LIMIT = 1 << 63


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """How the next token is sampled. The parameters mean the same as in OpenAI's API and in vLLM.

    temperature: >= 0; 0 is greedy.
    top_p: (0, 1]; top_k: 0 is off; min_p: [0, 1].
    presence_penalty, frequency_penalty: [-2, 2], over sampled tokens (while the params hold).
    repetition_penalty: > 0, 1 is off, over prompt and sampled tokens.
    logit_bias: token id -> added to the logit, [-100, 100].
    """

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    repetition_penalty: float = 1.0
    logit_bias: Mapping[int, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SamplingPhase:
    """Sampling parameters for a part of the sampled tokens.

    The phase begins when the last sampled tokens equal one of `begin`; its parameters apply from
    the next token on. It ends after a token of `end` is sampled, and may begin again. Penalties
    count only tokens that were sampled in this phase.

    begin: token sequences, each with at least one id.
    grammar: the grammar for the tokens after the beginning of the phase, for engines that need a
    new request when parameters change; None if it is not known.
    """

    begin: tuple[tuple[int, ...], ...]
    end: frozenset[int]
    params: SamplingParams
    grammar: str | None = None


@dataclass(frozen=True, slots=True)
class GenerationRequest:
    """One sampling from one prompt.

    prompt_token_ids: at least one id.
    max_tokens: >= 1, the maximum of sampled tokens; prompt and max_tokens together fit the context.
    stop_token_ids: sampling one of these ends the generation; it is returned as the last id.
    seed: equal prompts, parameters, logits and seeds give equal tokens; None for no seed.
    logprobs: None for no logprobs; n >= 0 for the logprobs of each sampled token and of the n most
    likely tokens.
    grammar: llguidance Lark text over token ids that constrains every sampled token, or None.
    affinity: requests with equal affinity share a prefix of the prompt; a pool may route by it.
    cache_salt: only requests with equal salts share cached tokens of their prompts; None is a value
    like others. Engines whose cache knows no salts ignore it.
    priority: lower numbers are served earlier; engines without priorities ignore it.
    """

    request_id: str
    prompt_token_ids: tuple[int, ...]
    max_tokens: int
    stop_token_ids: frozenset[int]
    sampling: SamplingParams = SamplingParams()
    phases: tuple[SamplingPhase, ...] = ()
    seed: int | None = None
    logprobs: int | None = None
    grammar: str | None = None
    affinity: str | None = None
    cache_salt: str | None = None
    priority: int = 0

    def after(self, tokens: tuple[int, ...], *, max_tokens: int) -> "GenerationRequest":
        """The request that continues after `tokens`, which are appended to the prompt.

        The seed changes, so that the random numbers do not repeat. Phases and grammar are copied;
        the caller has to replace them if they do not apply to the rest.
        """
        seed = None if self.seed is None else (self.seed + len(tokens)) % _SEED_LIMIT
        return replace(
            self,
            request_id=f"{self.request_id}-{len(tokens)}",
            prompt_token_ids=self.prompt_token_ids + tokens,
            max_tokens=max_tokens,
            seed=seed,
        )


@dataclass(frozen=True, slots=True)
class TokenLogprobs:
    """The logprob of a sampled token, and the most likely tokens at its position, best first.

    Logprobs are those of the model: the log-softmax of the raw logits, before temperature,
    penalties, bias and masks. Under a grammar, vLLM's are of the tokens that the mask leaves.
    """

    token_id: int
    logprob: float
    top: tuple[tuple[int, float], ...] = ()


# Not frozen, since creating a frozen instance takes three times as long, and each token needs one.
@dataclass(slots=True)
class GenerationChunk:
    """Tokens sampled since the last chunk.

    token_ids: only the last chunk may have none.
    logprobs: one entry for each token if the request has `logprobs`, else None.
    finish_reason: set on the last chunk only: `stop` after a stop token, else `length`.
    cached_tokens: the number of prompt tokens from the engine's prefix cache, on one chunk (the
    first or the last). None on the others, and for engines that do not report it.
    """

    token_ids: tuple[int, ...]
    logprobs: tuple[TokenLogprobs, ...] | None = None
    finish_reason: FinishReason | None = None
    cached_tokens: int | None = None

    def split(self, count: int) -> "tuple[GenerationChunk, GenerationChunk | None]":
        """The first `count` tokens, and the rest, None if there is no rest."""
        if count >= len(self.token_ids):
            return self, None
        logprobs = self.logprobs
        head = GenerationChunk(
            self.token_ids[:count],
            None if logprobs is None else logprobs[:count],
            cached_tokens=self.cached_tokens,
        )
        tail = GenerationChunk(
            self.token_ids[count:],
            None if logprobs is None else logprobs[count:],
            self.finish_reason,
        )
        return head, tail


FEATURES = frozenset(
    {
        "grammar",
        "logit_bias",
        "penalties",
        "seed",
        "logprobs",
        "phases",
        "cached_tokens",
        "top_k",
        "min_p",
        "structure",
    }
)
"""The optional features of engines. Every engine supports temperature and `top_p`.

structure: text in a grammar never matches a structural token. Without it, a grammar is enforced
completely only if it names no structural tokens.
"""


@dataclass(frozen=True, slots=True)
class BackendInfo:
    """The properties of an engine.

    name: the name of the backend in the registry.
    model: a folder or the name of a model on the hub; None for an engine without one (scripted).
    context_length: the maximum of tokens of prompt and completion together.
    vocab_size: the number of logits.
    features: a subset of `FEATURES`. The server refuses requests that need another one.
    masks_are_cheap: whether a grammar costs at most 3 % of the tokens per second.
    max_requests: the number of requests that the engine computes at once, >= 1; None if unknown.
    """

    name: str
    model: str | None
    context_length: int
    vocab_size: int
    features: frozenset[str]
    masks_are_cheap: bool = False
    max_requests: int | None = None


@dataclass(frozen=True, slots=True)
class BackendConfig:
    """The arguments of a `BackendFactory`.

    model: a checkpoint folder or the name of a model on the hub.
    options: the values of `--backend-option`, by name.
    encode: converts text with the names of control tokens to ids.
    decode: converts ids to text with the names of control tokens.
    mask_tokenizer: returns the shared llguidance LLTokenizer for grammars, and builds it first if
    necessary.
    progress: called while loading.
    """

    model: str | None
    options: Mapping[str, str]
    encode: Callable[[str], list[int]]
    decode: Callable[[list[int]], str]
    mask_tokenizer: Callable[[], Any]
    progress: Progress = lambda stage, fraction: None


class Backend(Protocol):
    """An engine that continues token ids.

    The server calls `start` once, then `generate` any number of times concurrently, then `stop`.
    """

    @property
    def info(self) -> BackendInfo:
        """The properties of the engine, available after `start`."""
        ...

    async def start(self) -> None:
        """Load the model. Raises BackendFailed with the reason if the engine cannot run."""
        ...

    async def stop(self) -> None:
        """End all generations and free the device. Safe to call twice, and after a failed start."""
        ...

    def generate(self, request: GenerationRequest) -> AsyncGenerator[GenerationChunk, None]:
        """Sample. Closing the generator (`aclose`) cancels the generation within one step.

        Raises Overloaded, ContextTooLong, Unsupported or Rejected before the first chunk,
        InvalidGrammar before the first chunk or when the grammar becomes too complex, and
        BackendFailed at any time.
        """
        ...

    async def check(self) -> None:
        """Raises BackendFailed if the engine cannot serve. `/health` calls it."""
        ...


BackendFactory = Callable[[BackendConfig], Backend]
