"""Limits sampling parameters to the number formats of engines, without changing their meaning.

Engines store parameters in 32- and 64-bit tensors. A value that does not fit can make the whole
batch fail.
"""

from dataclasses import replace

from adapters.base import GenerationRequest, SamplingParams

GREEDY_BELOW = 1e-5
"""A temperature below this is 0, as in vLLM: logits divided by it would overflow."""


def bounded(request: GenerationRequest, vocab_size: int) -> GenerationRequest:
    """`request` with sampling parameters, those of its phases included, that engines can store.

    vocab_size: the number of logits. A `top_k` of at least so many has no effect and becomes 0.
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
