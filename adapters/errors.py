"""What can go wrong below the Backend protocol.

BackendError
  + Overloaded       the engine's queue is full; trying again later may work
  |   + NotReady     it starts or stops, and takes no requests meanwhile
  + ContextTooLong   prompt and max tokens do not fit the context
  + Unsupported      the request needs what this engine lacks; names it
  + Rejected         the engine refused the request for another reason; it would again
  + BackendFailed    the engine broke; this request is lost, and perhaps all others
  |   + EngineFault  in words that are not for clients
  |   |   + Unreached  nothing says that the engine would not serve the request
  |   + EngineDied   in this process, for good: only a new process helps
  |   + DeadEnd      the request's grammar allows no token where it has led
  + InvalidGrammar   the request's grammar does not compile or cannot be followed; says why
  + UnknownBackend   no backend has that name; lists those that exist
"""

from collections.abc import Sequence


class BackendError(Exception):
    """Base of all errors that a backend may raise from `start`, `generate` or `check`."""


class Overloaded(BackendError):
    """The engine cannot take the request now. `retry_after` is in seconds."""

    def __init__(self, message: str, retry_after: float = 1.0) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class NotReady(Overloaded):
    """The engine is there, but takes no requests: it starts, or finishes what it has and stops."""


class ContextTooLong(BackendError):
    """The prompt (or prompt and max tokens) exceeds what the engine can hold; sizes in tokens."""

    def __init__(self, prompt_tokens: int, context_length: int) -> None:
        super().__init__(
            f"the prompt has at least {prompt_tokens} tokens; the context holds {context_length}, "
            "sampled tokens included"
        )
        self.prompt_tokens = prompt_tokens
        self.context_length = context_length


class Unsupported(BackendError):
    """The engine cannot do what the request asks; `feature` names it, such as `grammar`."""

    def __init__(self, feature: str, backend: str) -> None:
        super().__init__(f"the {backend} backend does not support {feature}")
        self.feature = feature
        self.backend = backend


class Rejected(BackendError):
    """The engine refused this request, and would refuse it again; the message says why."""


class BackendFailed(BackendError):
    """The engine broke while the request ran, or is dead; the message says why."""


class EngineFault(BackendFailed):
    """A foreign engine failed; the message names its host or quotes it, and may quote prompts."""


class Unreached(EngineFault):
    """No connection to a foreign engine came about, or it broke: the engine may yet serve."""


class EngineDied(BackendFailed):
    """The engine that this process runs is dead, and nothing here brings it back."""


class DeadEnd(BackendFailed):
    """The grammar allows no token after those that it has allowed: whoever wrote it is at fault."""

    def __init__(self) -> None:
        super().__init__("the grammar leads to where it allows no token")


class InvalidGrammar(BackendError):
    """The request's grammar cannot be compiled or followed, or not soon; the message says why."""


class UnknownBackend(BackendError):
    """No backend is registered under `name`; `known` are the names that are."""

    def __init__(self, name: str, known: Sequence[str]) -> None:
        super().__init__(f"unknown backend {name!r}; known are {', '.join(known)}")
        self.name = name
        self.known = tuple(known)
