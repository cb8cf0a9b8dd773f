"""Converts sampling parameters for vLLM, in this process and over HTTP."""

from typing import Any

from adapters.base import GenerationRequest

_SEEDS = 1 << 63  # vLLM uses -1 for no seed


def sampling_fields(request: GenerationRequest) -> dict[str, Any]:
    """The arguments of vLLM's SamplingParams, without the grammar.

    ignore_eos is set, so that only the stop tokens of the request end the generation.
    """
    sampling = request.sampling
    fields: dict[str, Any] = {
        "max_tokens": request.max_tokens,
        "stop_token_ids": sorted(request.stop_token_ids),
        "ignore_eos": True,
        "detokenize": False,
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "top_k": sampling.top_k,
        "min_p": sampling.min_p,
        "presence_penalty": sampling.presence_penalty,
        "frequency_penalty": sampling.frequency_penalty,
        "repetition_penalty": sampling.repetition_penalty,
        "seed": None if request.seed is None else request.seed % _SEEDS,
        "logprobs": request.logprobs,
    }
    if sampling.logit_bias:
        fields["logit_bias"] = dict(sampling.logit_bias)
    return fields
