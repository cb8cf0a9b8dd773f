"""Token logprobs in the form that Chat and Responses share."""

from collections.abc import Iterable
from typing import Any

import orjson

from adapters.base import TokenLogprobs
from harmony.tokenizer import decode
from harmony.vocab import token_bytes


def logprob_entries(logprobs: Iterable[TokenLogprobs]) -> list[orjson.Fragment]:
    """One object for each token: `token`, `logprob`, `bytes` and `top_logprobs`, likeliest first.

    The `token` of incomplete UTF-8 contains U+FFFD; `bytes` are exact. The objects are encoded: an
    answer has up to 21 alternatives for each of its tokens, which would be millions of dicts.
    """
    return [orjson.Fragment(orjson.dumps(_object(sampled))) for sampled in logprobs]


def _object(sampled: TokenLogprobs) -> dict[str, Any]:
    top = [_entry(token_id, logprob) for token_id, logprob in sampled.top]
    return {**_entry(sampled.token_id, sampled.logprob), "top_logprobs": top}


def _entry(token_id: int, logprob: float) -> dict[str, Any]:
    return {
        "token": decode((token_id,)),
        "logprob": logprob,
        "bytes": list(token_bytes()[token_id]),
    }
