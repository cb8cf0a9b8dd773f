"""Compiles legacy completion requests."""

from dataclasses import dataclass, replace
from itertools import chain

from harmony.tokenizer import decode
from server.generation.plan import RawPlan
from server.inbound.options import derived_seed, read_priority, read_sampling, read_stop
from server.inbound.prompts import read_prompts
from server.schemas.base import MAX_CHOICES, refuse
from server.schemas.fields import invalid
from server.schemas.legacy_completions import CreateCompletion

DEFAULT_MAX_TOKENS = 16


@dataclass(frozen=True, slots=True)
class CompiledCompletion:
    """A compiled legacy completion request.

    plans: `best_of` for each prompt, in order; the best `n` of these are the answer.
    echoes: for each plan, the text that its answer begins with.
    """

    plans: tuple[RawPlan, ...]
    echoes: tuple[str, ...]
    n: int
    best_of: int


def compile(
    request: CreateCompletion, *, context_length: int, cache_salt: str | None = None
) -> CompiledCompletion:
    """Compile a request. Long prompts take seconds: call it off the event loop.

    context_length: of the model, in tokens. cache_salt: as in `SamplingPlan`. Raises InvalidRequest
    naming the field.
    """
    refuse("suffix", request.suffix)
    n = request.n or 1
    best_of = request.best_of or n
    if best_of < n:
        raise invalid("best_of", f"expected at least 'n', which is {n}")
    if request.stream and best_of > n:
        raise invalid("best_of", "the best are known only when all have ended: do not stream")
    if request.echo and request.logprobs is not None:
        raise invalid("logprobs", "with 'echo' the prompt would need logprobs, and has none")
    prompts = read_prompts(
        request.prompt, context_length, control_tokens=bool(request.control_tokens)
    )
    if len(prompts) * best_of > MAX_CHOICES:
        raise invalid("prompt", f"expected at most {MAX_CHOICES} choices in all")
    ranked = best_of > n
    plan = RawPlan(
        prompts[0],
        sampling=read_sampling(request),
        max_tokens=request.max_tokens or DEFAULT_MAX_TOKENS,
        stop=read_stop(request.stop),
        # The best answers are those with the highest logprobs, so these are needed.
        top_logprobs=0 if ranked and request.logprobs is None else request.logprobs,
        affinity=request.prompt_cache_key,
        cache_salt=cache_salt,
        priority=read_priority(request.priority),
        prompt_param="prompt",
        logprobs_param="best_of" if request.logprobs is None else "logprobs",
    )
    plans = tuple(
        replace(plan, prompt=prompt, seed=derived_seed(request.seed, index))
        for prompt in prompts
        for index in range(best_of)
    )
    echoes = chain.from_iterable(
        [decode(prompt) if request.echo else ""] * best_of for prompt in prompts
    )
    return CompiledCompletion(plans, tuple(echoes), n, best_of)
