"""Usage as Chat and the legacy completions show it."""

from collections.abc import Iterable
from typing import Any

from server.generation.turn_events import Usage


def usage_object(prompts: Iterable[Usage], choices: Iterable[Usage]) -> dict[str, Any]:
    """What the prompts took and the choices sampled, each added up.

    Choices of one prompt share it: `prompts` has one of them for each prompt.
    """
    given, made = list(prompts), list(choices)
    prompt_tokens = sum(usage.input for usage in given)
    completion_tokens = sum(usage.output for usage in made)
    return {
        "prompt_tokens": prompt_tokens,
        "completion_tokens": completion_tokens,
        "total_tokens": prompt_tokens + completion_tokens,
        "prompt_tokens_details": {
            "cached_tokens": sum(usage.cached for usage in given),
            "audio_tokens": 0,
        },
        "completion_tokens_details": {
            "reasoning_tokens": sum(usage.reasoning for usage in made),
            "audio_tokens": 0,
            "accepted_prediction_tokens": 0,
            "rejected_prediction_tokens": 0,
        },
    }
