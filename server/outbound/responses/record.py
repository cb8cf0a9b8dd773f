"""The record of an answer as the extension field `gpt_oss:record` shows it."""

from typing import Any

from server.generation.recording import Record, Sampling
from server.generation.turn_events import TurnFinished


def record_fields(finished: TurnFinished, record: Record) -> dict[str, Any]:
    """The record of the answer that ends with `finished`."""
    return {
        "recorded": True,
        "prompt_token_ids": finished.prompt_token_ids,
        "token_ids": finished.token_ids,
        "samplings": [_sampling(each) for each in record.samplings],
        "calls": [
            {
                "recipient": call.recipient,
                "started_ms": call.started_ms,
                "ended_ms": call.ended_ms,
            }
            for call in record.calls
        ],
    }


def _sampling(sampling: Sampling) -> dict[str, Any]:
    return {
        "start": sampling.start,
        "end": sampling.end,
        "prompt_tokens": sampling.prompt_tokens,
        "cached_tokens": sampling.cached_tokens,
        "max_tokens": sampling.max_tokens,
        "grammar": sampling.grammar,
        "started_ms": sampling.started_ms,
        "ended_ms": sampling.ended_ms,
        "token_ms": sampling.token_ms,
        "logprobs": sampling.logprobs or None,
    }
