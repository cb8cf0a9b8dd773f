"""Engines behind one interface: token ids in, token ids out.

The names in `__all__` are the interface for authors of backends. A backend is a class with the
methods of `Backend`, made by a `BackendFactory` from a `BackendConfig`. It receives a
`GenerationRequest` and yields `GenerationChunk`s. It raises the errors of `adapters.errors` only;
the server maps them to HTTP statuses. A package registers its factory under the entry-point group
`gpt_oss_server.backends`. docs/backends.md has a complete example.
"""

from adapters.base import (
    FEATURES,
    Backend,
    BackendConfig,
    BackendFactory,
    BackendInfo,
    FinishReason,
    GenerationChunk,
    GenerationRequest,
    SamplingParams,
    SamplingPhase,
    TokenLogprobs,
)
from adapters.errors import (
    BackendError,
    BackendFailed,
    ContextTooLong,
    DeadEnd,
    EngineDied,
    EngineFault,
    GenerationFailed,
    InvalidGrammar,
    Lost,
    Mismatch,
    NotReady,
    Overloaded,
    Rejected,
    UnknownBackend,
    Unreached,
    Unsupported,
)

__all__ = [
    "FEATURES",
    "Backend",
    "BackendConfig",
    "BackendError",
    "BackendFactory",
    "BackendFailed",
    "BackendInfo",
    "ContextTooLong",
    "DeadEnd",
    "EngineDied",
    "EngineFault",
    "FinishReason",
    "GenerationChunk",
    "GenerationFailed",
    "GenerationRequest",
    "InvalidGrammar",
    "Lost",
    "Mismatch",
    "NotReady",
    "Overloaded",
    "Rejected",
    "SamplingParams",
    "SamplingPhase",
    "TokenLogprobs",
    "UnknownBackend",
    "Unreached",
    "Unsupported",
]
