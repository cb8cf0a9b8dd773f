"""The seam between the server and any engine: token ids in, token ids out.

Nothing here knows harmony or HTTP. What an adapter needs of harmony (turning text to ids for a
script, a tokenizer for masks) is handed to it in `BackendConfig`.
"""

from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol

FinishReason = Literal["stop", "length"]

_SEED_LIMIT = 1 << 63


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """How the next token is drawn, in OpenAI's and vLLM's meanings.

    temperature: 0 is greedy, else >= 0.
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
    """Sampling parameters that hold for a stretch of the sampled tokens.

    The phase begins when the last sampled tokens equal one of `begin` (its params first apply to
    the token after that) and ends after a token of `end` was sampled; it may begin again.
    Penalties count only tokens sampled within the phase's stretches.

    begin: each has at least one id.
    grammar: what of the request's grammar is left once the phase has begun, for engines that need
    a new request where the parameters change; None where that is not known.
    """

    begin: tuple[tuple[int, ...], ...]
    end: frozenset[int]
    params: SamplingParams
    grammar: str | None = None


@dataclass(frozen=True, slots=True)
class GenerationRequest:
    """One sampling from one prompt.

    prompt_token_ids: at least one id.
    max_tokens: >= 1, the most tokens to sample; prompt and max_tokens together fit the context.
    stop_token_ids: sampling one of these ends the generation; it is returned as the last id.
    seed: same prompt, parameters, logits and seed give the same tokens; None is unseeded.
    logprobs: None for none; n >= 0 for each sampled token's own logprob and the n likeliest.
    grammar: llguidance Lark text over token ids that masks every sampled token; None is free.
    affinity: requests with equal affinity share a prompt prefix; a pool may route by it.
    priority: lower is served earlier; engines that know none serve in order of arrival.
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
    priority: int = 0

    def after(self, tokens: tuple[int, ...], *, max_tokens: int) -> "GenerationRequest":
        """The request that goes on once `tokens` follow the prompt, sampled ones or others.

        A seed is moved on, else its draws would repeat. Phases begin anew, and a grammar is for
        what follows: both are the caller's to change.
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
    """The sampled token's logprob, and the likeliest tokens at its place, best first.

    Logprobs are of the model's own distribution: after softmax of the raw logits, before
    temperature, penalties, bias and masks.
    """

    token_id: int
    logprob: float
    top: tuple[tuple[int, float], ...] = ()


# Not frozen, though nobody changes one: each token makes one, which would take three times as long.
@dataclass(slots=True)
class GenerationChunk:
    """Tokens sampled since the last chunk.

    token_ids: may be empty only on the last chunk.
    logprobs: one entry a token where they were asked for, else None.
    finish_reason: set on the last chunk alone: `stop` when a stop token ended it, else `length`.
    cached_tokens: prompt tokens that the engine took from its prefix cache; set by engines that
    know it on one chunk: the first, or the last where only that tells.
    """

    token_ids: tuple[int, ...]
    logprobs: tuple[TokenLogprobs, ...] | None = None
    finish_reason: FinishReason | None = None
    cached_tokens: int | None = None

    def split(self, count: int) -> "tuple[GenerationChunk, GenerationChunk | None]":
        """The first `count` tokens, and the others with the end; None where there are none."""
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
"""What an engine may be able to do beyond temperature and `top_p`.

structure: no text of a grammar lets a structural token in; without it a grammar holds in full only
where it names none of them.
"""


@dataclass(frozen=True, slots=True)
class BackendInfo:
    """What an engine is and can do.

    name: the registry's name; model: folder or hub name, None where there is none (scripted).
    context_length: the most tokens of prompt and completion together.
    vocab_size: rows of the logits.
    features: of `FEATURES`; a request that needs another raises Unsupported.
    masks_are_cheap: to hold an answer to a grammar costs no more than 3 % of its tokens per second.
    max_requests: requests that the engine computes at once, >= 1; None where that is not known.
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
    """What the server hands an adapter when it makes one.

    model: checkpoint folder or hub name. options: the backend's own `--backend-option` values.
    encode: text with control tokens -> ids; decode: ids -> text with control tokens spelled out.
    mask_tokenizer: builds (once, then shared) the llguidance LLTokenizer for grammars.
    progress: called with a stage's name and its fraction done in [0, 1] while loading.
    """

    model: str | None
    options: Mapping[str, str]
    encode: Callable[[str], list[int]]
    decode: Callable[[list[int]], str]
    mask_tokenizer: Callable[[], Any]
    progress: Callable[[str, float], None] = lambda stage, fraction: None


class Backend(Protocol):
    """An engine that continues token ids.

    Life: `start()` once, then any number of concurrent `generate`, then `stop()` once.
    """

    @property
    def info(self) -> BackendInfo:
        """Known once `start` has returned."""
        ...

    async def start(self) -> None:
        """Load. Raises BackendFailed with the reason when the engine cannot run."""
        ...

    async def stop(self) -> None:
        """End all generations and free the device. Safe to call twice, and after a failed start."""
        ...

    def generate(self, request: GenerationRequest) -> AsyncGenerator[GenerationChunk, None]:
        """Sample. Closing the generator (`aclose`) cancels: the slot is free within a step.

        Raises Overloaded, ContextTooLong, Unsupported or Rejected before the first chunk,
        InvalidGrammar then or where the grammar proves too complex to be followed, BackendFailed
        at any point.
        """
        ...

    async def check(self) -> None:
        """Raises BackendFailed when the engine cannot serve (any more); cheap, for `/health`."""
        ...


BackendFactory = Callable[[BackendConfig], Backend]
