"""The errors that backends raise.

BackendError
  + Overloaded       the engine is busy; a later attempt may succeed
  |   + NotReady     the engine starts or stops, and accepts no requests
  + ContextTooLong   prompt and max tokens do not fit the context
  + Unsupported      the request needs a feature that the engine does not have
  + Rejected         the engine refused the request, and would refuse it again
  + BackendFailed    the engine failed; this request is lost, and perhaps others
  |   + EngineFault  a failure whose message must not be sent to clients
  |   |   + Unreached  there was no connection; the engine may accept the request later
  |   |   |   + Lost   it was lost when the engine had the request, which may have ended the engine
  |   |   + Mismatch   the engine does not take such requests, though it said it does
  |   + EngineDied   the engine of this process ended; only a new process helps
  |   + GenerationFailed  the engine gave up this request; others go on
  |   + DeadEnd      the grammar of the request allows no further token
  + InvalidGrammar   the grammar of the request does not compile, or is too complex
  + UnknownBackend   there is no backend with this name
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
    """The engine is starting, or finishes its requests before it stops. It accepts no requests."""


class ContextTooLong(BackendError):
    """The prompt, or prompt and max tokens, exceed the context length. Sizes are in tokens."""

    def __init__(self, prompt_tokens: int, context_length: int) -> None:
        super().__init__(
            f"the prompt has at least {prompt_tokens} tokens; the context holds {context_length}, "
            "sampled tokens included"
        )
        self.prompt_tokens = prompt_tokens
        self.context_length = context_length


class Unsupported(BackendError):
    """The request needs a `feature`, such as `grammar`, that the engine does not have."""

    def __init__(self, feature: str, backend: str) -> None:
        super().__init__(f"the {backend} backend does not support {feature}")
        self.feature = feature
        self.backend = backend


class Rejected(BackendError):
    """The engine refused this request, and would refuse it again. The message says why."""


class BackendFailed(BackendError):
    """The engine failed during the request, or is not running. The message says why."""


class EngineFault(BackendFailed):
    """An external engine failed. The message may contain its host name, or parts of prompts."""


class Unreached(EngineFault):
    """A connection to an external engine failed or was lost. The engine may still be running."""


class Lost(Unreached):
    """The connection was lost after the request was sent. The request may have ended the engine."""


class Mismatch(EngineFault):
    """The engine runs, but expects another model, interface or key than it did.

    Its properties have to be requested again.
    """


class EngineDied(BackendFailed):
    """The engine of this process ended, and cannot be started again in this process."""


class GenerationFailed(BackendFailed):
    """The engine ended this generation with an error. A grammar is often the cause."""


class DeadEnd(BackendFailed):
    """The grammar allows no further token. The author of the grammar has to change it."""

    def __init__(self) -> None:
        super().__init__("the grammar leads to where it allows no token")


class InvalidGrammar(BackendError):
    """The grammar of the request does not compile, or is too complex. The message says why."""


class UnknownBackend(BackendError):
    """No backend is registered under `name`. `known` has the registered names."""

    def __init__(self, name: str, known: Sequence[str]) -> None:
        super().__init__(f"unknown backend {name!r}; known are {', '.join(known)}")
        self.name = name
        self.known = tuple(known)


def first_line(error: object) -> str:
    """The first line of an error's message, or the name of its class if it has no message."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def one_line(error: BaseException) -> str:
    """The name of an error's class, and the first line of its message if it has one."""
    name, message = type(error).__name__, first_line(error)
    return name if message == name else f"{name}: {message}"
