"""The backend `transformers`, imported without what it does not use."""

from adapters.local.importing.imports import lean_imports

with lean_imports():
    from adapters.local.backend import LocalBackend as LocalBackend
