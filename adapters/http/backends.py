"""The factories of the HTTP backends. Each makes a pool of engines of one kind."""

from collections.abc import Callable

from adapters.base import Backend, BackendConfig
from adapters.errors import BackendFailed
from adapters.grammar_guard import GrammarGuard
from adapters.http.engine import HTTPEngine
from adapters.http.llama_cpp import LlamaCppWire
from adapters.http.options import Options, parse_options
from adapters.http.sglang import SGLangWire
from adapters.http.vllm import VLLMWire
from adapters.http.wire import Wire
from adapters.pool import Pool

_WIRES: dict[str, Callable[[Options, BackendConfig], Wire]] = {
    VLLMWire.name: lambda options, _: VLLMWire(options.model),
    SGLangWire.name: lambda *_: SGLangWire(),
    LlamaCppWire.name: lambda _, config: LlamaCppWire(config.encode),
}


def open_vllm(config: BackendConfig) -> GrammarGuard:
    """A `BackendFactory` for `vllm serve --enable-scale-out`. Raises BackendFailed."""
    return GrammarGuard(_pool(VLLMWire.name, config), config.mask_tokenizer)


def open_sglang(config: BackendConfig) -> Pool:
    """A `BackendFactory` for SGLang's server. Raises BackendFailed."""
    return _pool(SGLangWire.name, config)


def open_llama_cpp(config: BackendConfig) -> GrammarGuard:
    """A `BackendFactory` for llama.cpp's server. Raises BackendFailed."""
    return GrammarGuard(_pool(LlamaCppWire.name, config), config.mask_tokenizer)


def open_engines(backend: str, config: BackendConfig) -> list[HTTPEngine]:
    """The engines of `backend` themselves, one for each URL. Raises BackendFailed."""
    return _engines(backend, parse_options(backend, config.options), config)


def _engines(backend: str, options: Options, config: BackendConfig) -> list[HTTPEngine]:
    if options.model and backend != VLLMWire.name:
        raise BackendFailed(f"{backend} has no option model: its engines serve one model each")
    wire = _WIRES[backend](options, config)
    return [HTTPEngine(url, wire, options) for url in options.urls]


def _pool(backend: str, config: BackendConfig) -> Pool:
    options = parse_options(backend, config.options)
    named: dict[str, Backend] = {each.name: each for each in _engines(backend, options, config)}
    return Pool(backend, named, options.health_seconds)
