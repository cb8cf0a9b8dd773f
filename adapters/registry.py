"""Backends by name. The module of a backend is imported when the backend is created.

Other packages add backends through the entry-point group `gpt_oss_server.backends`. The object of
an entry point is a `BackendFactory`. An entry point cannot replace a built-in backend.
"""

from importlib.metadata import EntryPoint, entry_points

from adapters.base import Backend, BackendConfig, BackendFactory
from adapters.errors import BackendFailed, UnknownBackend

GROUP = "gpt_oss_server.backends"

_REMOTE = "adapters.http.backends"
_BUILT_IN = (
    EntryPoint("transformers", "adapters.local.opening:LocalBackend", GROUP),
    EntryPoint("vllm", "adapters.vllm.backend:open_vllm", GROUP),
    EntryPoint("vllm-http", f"{_REMOTE}:open_vllm", GROUP),
    EntryPoint("sglang", f"{_REMOTE}:open_sglang", GROUP),
    EntryPoint("llama-cpp", f"{_REMOTE}:open_llama_cpp", GROUP),
    EntryPoint("scripted", "adapters.scripted:ScriptedBackend", GROUP),
)

BUILT_IN = tuple(entry.name for entry in _BUILT_IN)
REMOTE = tuple(entry.name for entry in _BUILT_IN if entry.module == _REMOTE)
"""The built-in backends whose engines are servers with URLs."""

_INSTALL_VLLM = (
    "; install it in an environment of its own: "
    "python3.11 -m venv .venv-vllm && .venv-vllm/bin/pip install '.[vllm]'"
)


def names() -> list[str]:
    """The names that `create` accepts, sorted."""
    return sorted(_all_backends())


def create(name: str, config: BackendConfig) -> Backend:
    """A new backend `name`, which is not started.

    Raises UnknownBackend, or BackendFailed if the module of the backend cannot be imported.
    """
    entry = _all_backends().get(name)
    if entry is None:
        raise UnknownBackend(name, names())
    try:
        factory: BackendFactory = entry.load()
    except Exception as error:  # an import runs code, and loads libraries of the system
        lacks_vllm = isinstance(error, ModuleNotFoundError) and error.name == "vllm"
        advice = _INSTALL_VLLM if lacks_vllm else ""
        raise BackendFailed(f"the {name} backend cannot be imported: {error}{advice}") from error
    return factory(config)


def _all_backends() -> dict[str, EntryPoint]:
    installed = {entry.name: entry for entry in entry_points(group=GROUP)}
    return installed | {entry.name: entry for entry in _BUILT_IN}
