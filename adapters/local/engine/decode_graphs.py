"""Captures decode steps as CUDA graphs, which the GPU replays without Python.

Without graphs, Python launches some 69 operations for each layer and step, which takes longer than
the GPU computes them for few rows. A graph has fixed sizes and addresses. A step that only decodes
is therefore padded to one of a few sizes, and its scores are copied to a buffer, from which tokens
are sampled after the replay as in any other step. Steps with prompts run without a graph.

transformers can capture graphs too, but it captures the sampling with them (here it needs the host,
for grammars and seeds), and either all steps or none, prompts included.
"""

import logging
from collections.abc import Callable
from typing import Any, Protocol

import torch
from torch import Tensor
from transformers.generation.continuous_batching.utils import CudaGraphBuffer

from adapters.errors import BackendFailed
from adapters.local.model import attention
from adapters.local.model.weights import has_packed_experts

logger = logging.getLogger(__name__)

_LEAST_KEYS = 4096
# A graph holds the memory of its copies of keys and values: 0.5 GB for as many of gpt-oss. Steps
# that read more take so long on the GPU that Python delays them little.
_MOST_KEYS = 262_144
# Of the largest score. The same kernels compute a step and its graph.
_TOLERANCE = 0.01
# Bytes that must be free beside the cache, if nobody asked for graphs: the largest step needs some.
_ROOM = 1 << 30
# The major compute capability of Hopper. There, PyTorch's grouped_mm does not wait for the device.
_HOPPER = 9

Sample = Callable[[Tensor, Tensor], None]
"""Chooses tokens: called with the scores [1, n, vocabulary] and the ids to set [., >= n]."""


class Graph(Protocol):
    """A captured computation. transformers calls `reset` when it is no longer used."""

    def replay(self) -> None: ...

    def reset(self) -> None: ...


Capture = Callable[[Callable[[], None]], Graph]
"""Captures what a function computes."""


def capture_on(device: torch.device) -> Capture:
    """Captures CUDA graphs that share the memory of their intermediate results.

    Raises BackendFailed for a device without graphs.
    """
    if device.type != "cuda":
        raise BackendFailed(f"decode_graphs needs a CUDA device, and this is {device}")
    pool = torch.cuda.graph_pool_handle()

    def capture(compute: Callable[[], None]) -> Graph:
        graph = torch.cuda.CUDAGraph()
        stream = torch.cuda.current_stream(device)
        try:
            with torch.cuda.graph(graph, pool=pool, capture_error_mode="thread_local"):
                compute()
        finally:  # a capture that fails leaves its own stream
            torch.cuda.set_stream(stream)
        return graph

    return capture


def wanted(choice: str, model: Any) -> bool:
    """Whether to capture graphs. choice: `true`, `false`, or `auto`, which is true on CUDA with
    `flash_with_sinks`, a gigabyte of free memory, and packed experts, or bfloat16 on Hopper.

    Only Hopper has been measured.
    """
    if choice != "auto":
        return choice == "true"
    return (
        model.device.type == "cuda"
        and model.config._attn_implementation.removeprefix("paged|") == attention.NAME
        and (has_packed_experts(model) or _computes_without_waits(model))
        and torch.cuda.mem_get_info(model.device)[0] >= _ROOM
    )


def _computes_without_waits(model: Any) -> bool:
    capability = torch.cuda.get_device_capability(model.device)
    return model.dtype is torch.bfloat16 and capability[0] == _HOPPER


class DecodeGraphs:
    """Replaces the methods of a batch processor that prepare and compute a step.

    The first step of each size is captured and replayed once. Sizes for which no memory is left
    have no graph. Graphs are switched off with a warning if the capture fails otherwise, or if the
    scores of the replay are not those of the step itself.
    """

    def __init__(self, processor: Any, model: Any, sample: Sample, capture: Capture) -> None:
        """sample: samples every step, instead of `processor.model_runner._sample`.

        Raises BackendFailed for a model whose attention needs masks: they are not of a fixed size.
        """
        self._ios = processor.inputs_and_outputs
        if self._ios.attention_mask is not None:
            name = model.config._attn_implementation
            raise BackendFailed(f"decode_graphs needs a flash attention, and this is {name}")
        self._runner = processor.model_runner
        self._sample = sample
        self._capture = capture
        self._active = True
        self._decodes = False
        self._rows = 0
        most_rows: int = self._ios.max_requests_per_batch
        self._most_keys = min(_MOST_KEYS, int(processor.cache.max_tokens_read))
        device, width = model.device, model.config.vocab_size
        self._scores = torch.zeros((1, most_rows, width), dtype=torch.float32, device=device)
        self._counting = torch.arange(1, most_rows + 1, dtype=torch.int32, device=device)
        self._prepare = self._ios.prepare_batch_tensors
        self._compute = self._runner.compute_batch
        self._ios.prepare_batch_tensors = self._prepare_padded
        self._runner.compute_batch = self._compute_and_sample
        self._runner.maybe_pad_inputs = _unpadded
        self._runner._sample = self._sample_or_store
        self._runner._capture_graph = self._capture_step

    def _prepare_padded(
        self,
        requests_in_batch: list[Any],
        logits_processors: Any,
        use_decode_fast_path: bool,
        num_q_tokens: int,
        max_kv_read: int,
        use_padding: bool,
    ) -> None:
        """Replaces `prepare_batch_tensors`: pads a step in which each request has one token."""
        self._rows = rows = len(requests_in_batch)
        self._decodes = (
            self._active
            and max_kv_read <= self._most_keys
            and all(one.query_length == 1 for one in requests_in_batch)
        )
        self._runner.pad_inputs = self._runner.use_cuda_graph_varlen = self._decodes
        if self._decodes:
            num_q_tokens = padded(rows, 1, len(self._counting))
            max_kv_read = padded(max_kv_read, _LEAST_KEYS, self._most_keys)
        self._prepare(
            requests_in_batch,
            logits_processors,
            use_decode_fast_path,
            num_q_tokens,
            max_kv_read,
            self._decodes,
        )
        if self._decodes:
            self._complete(rows, num_q_tokens, max_kv_read)

    def _complete(self, rows: int, padded_rows: int, most_keys: int) -> None:
        """Make each row of padding a sequence of one token with one key, which is zero.

        transformers makes sequences without tokens of them. Their results are what the memory
        held before, and not a number would choose the experts.
        """
        ios = self._ios
        more = self._counting[: padded_rows - rows]
        ios.cumulative_seqlens_q[rows + 1 : padded_rows + 1] = rows + more
        for name, lengths in ios.cumulative_seqlens_k.items():
            lengths[rows + 1 : padded_rows + 1] = ios.total_seqlen_k[name] + more
            # A part of the graph, and only a bound: the lengths above are what is computed.
            ios.max_length_k[name] = most_keys

    def _compute_and_sample(self, model: Any, batch_data: dict[str, Any]) -> None:
        """Replaces `compute_batch`."""
        if not self._decodes:
            self._compute(model, batch_data)
            return
        batch_data["max_length_q"] = 1
        self._compute(model, batch_data)
        self._sample(self._scores[:, : self._rows], self._ios.output_ids)

    def _sample_or_store(self, scores: Tensor, output_ids: Tensor) -> None:
        """Replaces the sampling: with a graph, it follows the replay."""
        if self._decodes:
            self._scores[:, : scores.shape[1]].copy_(scores)
        else:
            self._sample(scores, output_ids)

    def _capture_step(self, compute: Callable[..., None], _stream: Any, *arguments: Any) -> None:
        """Replaces `_capture_graph`: computes the step, and stores a graph of it."""
        compute(*arguments)
        expected = self._scores[:, : self._rows].clone()
        try:
            graph = self._capture(lambda: compute(*arguments))
            graph.replay()
            error = float((self._scores[:, : self._rows] - expected).abs().max())
            bound = _TOLERANCE * float(expected.abs().max())
        except torch.OutOfMemoryError:
            self._most_keys = self._ios.max_kv_read // 2
            logger.warning("no memory for decode graphs with more than %d keys", self._most_keys)
            self._restore(expected)
            return
        except Exception as failure:  # from CUDA, or from the compiler of a kernel
            self._switch_off(f"the capture failed: {failure}", expected)
            return
        if error <= bound:
            self._ios.set_graph(graph)
        else:
            self._switch_off(f"the replay of a step has an error of {error:g}", expected)

    def _switch_off(self, reason: str, scores: Tensor) -> None:
        logger.warning("decode graphs are switched off: %s", reason)
        self._active = False
        self._ios.graphs = CudaGraphBuffer()  # those of other sizes hold memory
        self._restore(scores)

    def _restore(self, scores: Tensor) -> None:
        self._scores[:, : scores.shape[1]].copy_(scores)


def padded(count: int, least: int, most: int) -> int:
    """The smallest power of two that is at least `count` and `least`, or `most` if that is less."""
    return int(min(max(least, 1 << max(count - 1, 0).bit_length()), most))


def _unpadded(num_q_tokens: int, max_kv_read: int, use_decode_fast_path: bool) -> tuple[int, int]:
    """Replaces `maybe_pad_inputs`, which is called before it is known what a step contains."""
    return num_q_tokens, max_kv_read
