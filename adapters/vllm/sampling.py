"""A request's sampling in vLLM's terms: what both ways of reaching it share."""

from typing import Any

from adapters.base import GenerationRequest

_SEEDS = 1 << 63  # -1 stands for none there


def sampling_fields(request: GenerationRequest) -> dict[str, Any]:
    """Arguments of vLLM's SamplingParams; the grammar is the caller's to add.

    ignore_eos: which tokens end the generation is the request's to say, not the checkpoint's.
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
