"""Checks and changes requests so that they fit an engine: its context, and its number formats.

Engines store sampling parameters in 32- and 64-bit tensors. A value that does not fit can make the
whole batch fail.
"""

from dataclasses import replace

from adapters.base import GenerationRequest, SamplingParams
from adapters.errors import ContextTooLong

GREEDY_BELOW = 1e-5
"""A temperature below this is 0, as in vLLM: logits divided by it would overflow."""


def check_length(request: GenerationRequest, context_length: int) -> None:
    """Raises ContextTooLong if the prompt and `max_tokens` together exceed the context."""
    length = len(request.prompt_token_ids)
    if length + request.max_tokens > context_length:
        raise ContextTooLong(length, context_length)


def bounded(request: GenerationRequest, vocab_size: int) -> GenerationRequest:
    """`request` with sampling parameters, those of its phases included, that engines can store.

    Their meaning does not change. vocab_size: the number of logits. A `top_k` of at least so many
    has no effect and becomes 0.
    """
    sampling = _bounded(request.sampling, vocab_size)
    phases = tuple(
        replace(phase, params=_bounded(phase.params, vocab_size)) for phase in request.phases
    )
    if sampling is request.sampling and phases == request.phases:
        return request
    return replace(request, sampling=sampling, phases=phases)


def _bounded(params: SamplingParams, vocab_size: int) -> SamplingParams:
    top_k = params.top_k if params.top_k < vocab_size else 0
    temperature = params.temperature if params.temperature >= GREEDY_BELOW else 0.0
    if (top_k, temperature) == (params.top_k, params.temperature):
        return params
    return replace(params, top_k=top_k, temperature=temperature)
