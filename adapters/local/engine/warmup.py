"""Steps without requests: to warm up the engine, and to check whether it works.

The first step of each size loads kernels, compiles some and allocates memory. If something is
missing for this, the start fails rather than the first request.
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
from adapters.local.engine.cache import longest_request
from adapters.local.engine.decode_graphs import padded
from adapters.local.steps.row import Row

_PREFILLING = 512
_CPU_PREFILLING = 64
_SAMPLINGS = (
    SamplingParams(temperature=0.0),
    SamplingParams(temperature=1.0),
    SamplingParams(temperature=0.7, top_p=0.9, top_k=50, min_p=0.01),
    SamplingParams(temperature=1.0, presence_penalty=0.5, logit_bias={0: 1.0}),
)

SetRows = Callable[[list[Row]], None]
"""Called with the rows of a step before it runs."""


def warm_up(processor: Any, model: Any, set_rows: SetRows) -> None:
    """Run steps of the sizes that requests need. Raises the error of the first step that fails."""
    most_rows = processor.scheduler.max_requests_per_batch
    room = longest_request(processor.cache) - _past(processor.cache)
    most_tokens = min(processor.cache.max_batch_tokens, room)
    on_cpu = model.device.type == "cpu"
    sizes = sorted({padded(rows, 1, most_rows) for rows in range(1, most_rows + 1)})
    for rows in sizes[:1] if on_cpu else sizes:
        run_step(processor, model, set_rows, rows=rows, tokens=1)
    for tokens in (_CPU_PREFILLING,) if on_cpu else (_PREFILLING, most_tokens):
        run_step(processor, model, set_rows, rows=1, tokens=min(tokens, most_tokens))


def run_step(processor: Any, model: Any, set_rows: SetRows, *, rows: int, tokens: int) -> None:
    """Run one step of `rows` rows with `tokens` tokens each, through the model and sampling.

    Uses fewer rows if the cache is too small. Raises the error of the step. The cache is restored.
    """
    status = RequestStatus.DECODING if tokens == 1 else RequestStatus.PREFILLING
    past = _past(processor.cache)
    with _states(processor, rows, status, tokens, past) as states:
        if not states:
            return
        set_rows([_row(state.state.request_id, place) for place, state in enumerate(states)])
        ios = processor.inputs_and_outputs
        ios.prepare_batch_tensors(
            states,
            logits_processors=processor.logit_processor,
            use_decode_fast_path=False,
            num_q_tokens=tokens * len(states),
            max_kv_read=past * len(states),
            use_padding=False,
        )
        processor._generation_step(model)


def _past(cache: Any) -> int:
    """The number of tokens that each row has in the cache, so that a step reads some."""
    return int(next(iter(cache.cache_allocators.values())).tokens_per_page)


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
    """Remove the requests of the prepared step, so that its tokens go to no request."""
    ios.requests_in_batch = []
    ios.num_request_in_batch = 0


def _row(key: str, place: int) -> Row:
    params = _SAMPLINGS[place % len(_SAMPLINGS)]
    logprobs = 20 if place % 2 else None
    request = GenerationRequest(key, (0,), 1, frozenset(), params, seed=place, logprobs=logprobs)
    return Row(key, request, None)


def explain(error: BaseException, device: torch.device) -> str:
    """Advice about an error of the first steps, as the end of a sentence; may be empty."""
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
