"""The sizes of the steps and of the cache of transformers' continuous batching."""

from typing import Any

from transformers.generation.configuration_utils import ContinuousBatchingConfig

from adapters.local.device import free_memory
from adapters.local.options import LEAST_CACHE_TOKENS, PAGE_TOKENS, Options

_CPU_CACHE_TOKENS = 32_768
_FLASH_BATCH_TOKENS = 4096
_EAGER_BATCH_TOKENS = 512
# With more parameters a CPU takes minutes for 4,096 tokens, and a cancellation waits for them.
_SMALL_PARAMETERS = 1_000_000_000
_LARGE_CPU_BATCH_TOKENS = 512
_EAGER_CUDA_BATCH_TOKENS = 128
# Bytes that eager attention writes for each head, query and key, all its copies included.
# Measured: 346 kB for a key, 64 heads and 512 queries.
_BYTES_OF_SCORE = 11
_MEMORY_SHARE = 0.8


def batching(model: Any, options: Options) -> ContinuousBatchingConfig:
    """The configuration of transformers' batching for `model` with `options`."""
    eager = model.config._attn_implementation in ("eager", "paged|eager")
    on_cuda = model.device.type == "cuda"
    batch_tokens = options.batch_tokens or _batch_tokens(model, eager)
    cache_tokens = options.cache_tokens
    if not cache_tokens and model.device.type == "cpu":
        cache_tokens = min(_CPU_CACHE_TOKENS, model.config.max_position_embeddings)
    elif not cache_tokens and eager and on_cuda:
        cache_tokens = _eager_cache_tokens(model, batch_tokens)
    return ContinuousBatchingConfig(
        page_size=PAGE_TOKENS,
        num_blocks=-(-cache_tokens // PAGE_TOKENS) or None,
        max_batch_tokens=batch_tokens,
        max_requests_per_batch=min(options.batch_requests, batch_tokens),
        max_memory_percent=_MEMORY_SHARE,
        max_blocks_per_request=0,
        auto_switch_to_flash=False,  # loading has selected one that supports attention sinks
        # Grammars and streams need each token on the host: no graph, no overlapping steps.
        use_cuda_graph=False,
        use_async_batching=False,
    )


def _batch_tokens(model: Any, eager: bool) -> int:
    if eager:
        return _EAGER_CUDA_BATCH_TOKENS if model.device.type == "cuda" else _EAGER_BATCH_TOKENS
    if model.device.type == "cpu" and model.num_parameters() > _SMALL_PARAMETERS:
        return _LARGE_CPU_BATCH_TOKENS
    return _FLASH_BATCH_TOKENS


def _eager_cache_tokens(model: Any, batch_tokens: int) -> int:
    """The size of a cache that leaves enough memory for the scores of a step over all of it.

    transformers reserves a twentieth of that memory, so that steps fail when its cache is full.
    """
    config = model.config
    states = 2 * config.num_hidden_layers * config.num_key_value_heads * config.head_dim
    scores = _BYTES_OF_SCORE * config.num_attention_heads * batch_tokens
    free = free_memory(model.device) or 0
    tokens = int(_MEMORY_SHARE * free / (states * model.dtype.itemsize + scores))
    return max(LEAST_CACHE_TOKENS, min(tokens, int(config.max_position_embeddings)))
