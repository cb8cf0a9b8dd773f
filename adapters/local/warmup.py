"""Steps that no request has asked for: before the first one, and to see whether the engine works.

The first step of each size loads kernels, compiles some and grows the pool of memory. Whatever is
missing for that shows here, before anybody waits.
"""

import shutil
import sysconfig
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from transformers.generation.continuous_batching import RequestStatus
from transformers.generation.continuous_batching.utils import create_warmup_future_states

from adapters.base import GenerationRequest, SamplingParams
from adapters.local.cache import longest_request
from adapters.local.row import Row

_DECODING = (1, 16, 64)
_PREFILLING = 512
_CPU_PREFILLING = 64
_SAMPLINGS = (
    SamplingParams(temperature=0.0),
    SamplingParams(temperature=1.0),
    SamplingParams(temperature=0.7, top_p=0.9, top_k=50, min_p=0.01),
    SamplingParams(temperature=1.0, presence_penalty=0.5, logit_bias={0: 1.0}),
)

Watch = Callable[[list[Row]], None]
"""Takes the rows of a step that is about to run."""


def warm_up(processor: Any, model: Any, watch: Watch) -> None:
    """Run steps of the sizes that requests bring. Raises what the first of them to fail raises."""
    most_rows = processor.scheduler.max_requests_per_batch
    room = longest_request(processor.cache) - _past(processor.cache)
    most_tokens = min(processor.cache.max_batch_tokens, room)
    on_cpu = model.device.type == "cpu"
    for rows in _DECODING[:1] if on_cpu else _DECODING:
        run_step(processor, model, watch, rows=min(rows, most_rows), tokens=1)
    for tokens in (_CPU_PREFILLING,) if on_cpu else (_PREFILLING, most_tokens):
        run_step(processor, model, watch, rows=1, tokens=min(tokens, most_tokens))


def run_step(processor: Any, model: Any, watch: Watch, *, rows: int, tokens: int) -> None:
    """One step of `rows` rows with `tokens` tokens each, through the model and sampling.

    Fewer rows where the cache has no room. Raises what the step raises; the cache is as before.
    """
    status = RequestStatus.DECODING if tokens == 1 else RequestStatus.PREFILLING
    past = _past(processor.cache)
    with _states(processor, rows, status, tokens, past) as states:
        if not states:
            return
        watch([_row(state.state.request_id, place) for place, state in enumerate(states)])
        ios = processor.inputs_and_outputs
        ios.prepare_batch_tensors(
            requests_in_batch=states,
            logits_processors=processor.logit_processor,
            use_decode_fast_path=False,
            num_q_tokens=tokens * len(states),
            max_kv_read=past * len(states),
            use_padding=False,
        )
        processor._generation_step(model)


def _past(cache: Any) -> int:
    """Tokens that each row has in the cache, so that a step reads some."""
    return int(cache.cache_allocators["full_attention"].tokens_per_page)


@contextmanager
def _states(
    processor: Any, rows: int, status: RequestStatus, tokens: int, past: int
) -> Iterator[list[Any]]:
    cache, ios = processor.cache, processor.inputs_and_outputs
    states = create_warmup_future_states(rows, status, tokens, past, cache)
    try:
        yield states
    finally:
        forget_batch(ios)
        for state in states:
            cache.free_blocks(state.state.request_id)


def forget_batch(ios: Any) -> None:
    """Let the step that was prepared last bring nobody a token."""
    ios.requests_in_batch = []
    ios.num_request_in_batch = 0


def _row(key: str, place: int) -> Row:
    params = _SAMPLINGS[place % len(_SAMPLINGS)]
    logprobs = 20 if place % 2 else None
    request = GenerationRequest(key, (0,), 1, frozenset(), params, seed=place, logprobs=logprobs)
    return Row(key, request, None)


def explain(error: BaseException, device: torch.device) -> str:
    """What to do about an error of the first steps, as the end of a sentence; may be empty."""
    if isinstance(error, torch.OutOfMemoryError):
        return ": lower cache_tokens or batch_tokens"
    if isinstance(error, ModuleNotFoundError):
        return f": install the package {error.name}"
    if device.type != "cuda":
        return ""
    missing = []
    if not any(map(shutil.which, ("cc", "gcc", "clang"))):
        missing.append("a C compiler (the package gcc)")
    if not Path(sysconfig.get_paths()["include"], "Python.h").exists():
        missing.append("Python's headers (Python.h, of the package python3-dev)")
    if missing:
        return f": triton compiles its launchers with {' and '.join(missing)}, not found here"
    return ""
