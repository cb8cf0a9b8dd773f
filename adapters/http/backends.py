"""The factories of the HTTP backends. Each makes a pool of engines of one kind."""

from adapters.base import VOCAB_SIZE, Backend, BackendConfig
from adapters.http.engine import HTTPEngine
from adapters.http.grammar_guard import GrammarGuard
from adapters.http.llama_cpp import LlamaCppWire
from adapters.http.options import Options, parse_options
from adapters.http.sglang import SGLangWire
from adapters.http.wire import Wire
from adapters.pool import Pool
from adapters.vllm.wire import VLLMWire


def open_vllm(config: BackendConfig) -> Pool:
    """A `BackendFactory` for `vllm serve --enable-scale-out`. Raises BackendFailed."""
    options = parse_options(VLLMWire.name, config.options)
    return _pool(VLLMWire(options.model), options)


def open_sglang(config: BackendConfig) -> Pool:
    """A `BackendFactory` for SGLang's server. Raises BackendFailed."""
    options = parse_options(SGLangWire.name, config.options)
    return _pool(SGLangWire(), options)


def open_llama_cpp(config: BackendConfig) -> GrammarGuard:
    """A `BackendFactory` for llama.cpp's server. Raises BackendFailed."""
    options = parse_options(LlamaCppWire.name, config.options)
    pool = _pool(LlamaCppWire(config.encode), options)
    return GrammarGuard(pool, config.mask_tokenizer, VOCAB_SIZE)


def _pool(wire: Wire, options: Options) -> Pool:
    engines = [HTTPEngine(url, wire, options) for url in options.urls]
    named: dict[str, Backend] = {engine.name: engine for engine in engines}
    return Pool(wire.name, named, options.health_seconds)
