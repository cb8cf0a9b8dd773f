"""The `usage` object of Chat and the legacy completions."""

from collections.abc import Iterable
from typing import Any

from server.generation.turn_events import Usage


def usage_object(prompts: Iterable[Usage], samples: Iterable[Usage]) -> dict[str, Any]:
    """The sum of the prompts' tokens and of all samples' tokens.

    prompts: the usage of one sample for each prompt. samples: the usage of each sample.
    """
    prompt_usages, usages = list(prompts), list(samples)
    prompt_tokens = sum(usage.input for usage in prompt_usages)
    completion_tokens = sum(usage.output for usage in usages)
    return {
        "prompt_tokens": prompt_tokens,
        "completion_tokens": completion_tokens,
        "total_tokens": prompt_tokens + completion_tokens,
        "prompt_tokens_details": {
            "cached_tokens": sum(usage.cached for usage in prompt_usages),
            "audio_tokens": 0,
        },
        "completion_tokens_details": {
            "reasoning_tokens": sum(usage.reasoning for usage in usages),
            "audio_tokens": 0,
            "accepted_prediction_tokens": 0,
            "rejected_prediction_tokens": 0,
        },
    }
