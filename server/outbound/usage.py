"""The `usage` object of Chat and the legacy completions, and the usage of summaries in all APIs."""

from collections.abc import Iterable
from typing import Any

from server.generation.turn_events import SummaryTotals, Usage
from server.summaries.base import OUTCOMES, SUMMARY_USAGE_FIELD


def usage_object(prompts: Iterable[Usage], samples: Iterable[Usage]) -> dict[str, Any]:
    """The sum of the prompts' tokens and of all samples' tokens.

    Samples share a prompt, but not the prompts of the turns that follow their hosted calls.

    prompts: the usage of one sample for each prompt. samples: the usage of each sample.
    """
    prompt_usages, usages = list(prompts), list(samples)
    prompt_tokens = sum(usage.input - usage.later_input for usage in prompt_usages)
    prompt_tokens += sum(usage.later_input for usage in usages)
    cached_tokens = sum(usage.cached - usage.later_cached for usage in prompt_usages)
    cached_tokens += sum(usage.later_cached for usage in usages)
    completion_tokens = sum(usage.output for usage in usages)
    return {
        "prompt_tokens": prompt_tokens,
        "completion_tokens": completion_tokens,
        "total_tokens": prompt_tokens + completion_tokens,
        "prompt_tokens_details": {
            "cached_tokens": cached_tokens,
            "audio_tokens": 0,
        },
        "completion_tokens_details": {
            "reasoning_tokens": sum(usage.reasoning for usage in usages),
            "audio_tokens": 0,
            "accepted_prediction_tokens": 0,
            "rejected_prediction_tokens": 0,
        },
    }


def summary_usage(answers: Iterable[SummaryTotals | None]) -> dict[str, Any]:
    """The field with the usage of the summaries of all answers; none where no model wrote any.

    These tokens are not part of the answers' own usage.
    """
    totals = [each for each in answers if each is not None]
    if not totals:
        return {}
    read = sum(each.usage.input for each in totals)
    sampled = sum(each.usage.output for each in totals)
    tokens = {"input_tokens": read, "output_tokens": sampled, "total_tokens": read + sampled}
    parts = {name: sum(each.counts.get(name, 0) for each in totals) for name in OUTCOMES}
    return {SUMMARY_USAGE_FIELD: {**tokens, "parts": parts}}
