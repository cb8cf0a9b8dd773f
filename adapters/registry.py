"""Backends by name, imported only when asked for.

Third parties plug in through the entry-point group `gpt_oss_server.backends`; an entry point's
object is a `BackendFactory`. A built-in name cannot be taken over.
"""

from importlib.metadata import EntryPoint, entry_points

from adapters.base import Backend, BackendConfig, BackendFactory
from adapters.errors import BackendFailed, UnknownBackend

GROUP = "gpt_oss_server.backends"

_REMOTE = "adapters.http.backends"
_BUILT_IN = (
    EntryPoint("transformers", "adapters.local.backend:LocalBackend", GROUP),
    EntryPoint("vllm", "adapters.vllm.backend:VLLMBackend", GROUP),
    EntryPoint("vllm-http", f"{_REMOTE}:open_vllm", GROUP),
    EntryPoint("sglang", f"{_REMOTE}:open_sglang", GROUP),
    EntryPoint("llama-cpp", f"{_REMOTE}:open_llama_cpp", GROUP),
    EntryPoint("scripted", "adapters.scripted:ScriptedBackend", GROUP),
)

BUILT_IN = tuple(entry.name for entry in _BUILT_IN)
REMOTE = tuple(entry.name for entry in _BUILT_IN if entry.module == _REMOTE)
"""The built-in backends of engines that are reached by URLs."""


def names() -> list[str]:
    """The names that `create` knows, sorted."""
    return sorted(_known())


def create(name: str, config: BackendConfig) -> Backend:
    """Make the backend `name`, not yet started.

    Raises UnknownBackend, or BackendFailed when the backend's own packages are not installed.
    """
    entry = _known().get(name)
    if entry is None:
        raise UnknownBackend(name, names())
    try:
        factory: BackendFactory = entry.load()
    except ImportError as error:
        raise BackendFailed(f"the {name} backend cannot be imported: {error}") from error
    return factory(config)


def _known() -> dict[str, EntryPoint]:
    installed = {entry.name: entry for entry in entry_points(group=GROUP)}
    return installed | {entry.name: entry for entry in _BUILT_IN}
