"""The `vllm-http` backend: one or more running vLLM servers behind a pool."""

from adapters.base import Backend, BackendConfig
from adapters.http.engine import HTTPEngine
from adapters.http.options import parse_options
from adapters.pool import Pool
from adapters.vllm.wire import VLLMWire


def open_vllm_http(config: BackendConfig) -> Pool:
    """A `BackendFactory`. Raises BackendFailed for bad options."""
    options = parse_options(VLLMWire.name, config.options)
    wire = VLLMWire(options.model)
    engines: dict[str, Backend] = {url: HTTPEngine(url, wire, options) for url in options.urls}
    return Pool(VLLMWire.name, engines, options.health_seconds)
