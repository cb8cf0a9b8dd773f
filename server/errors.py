"""The errors that clients get, in OpenAI's error body.

APIError
  + InvalidRequest           400  the request; `param` names the field
  |   + ContextLengthExceeded
  + AuthenticationFailed     401
  + Forbidden                403
  + NotFound                 404
  + RequestTimeout           408
  + ClientTooSlow            408  only in a stream: the client reads too slowly
  + BodyTooLarge             413
  + UnsupportedEncoding      415
  + RangeNotSatisfiable      416  with Content-Range
  + Misdirected              421
  + KeyReused                422
  + RateLimited              429  with Retry-After
  + HeadersTooLarge          431
  + ServerFailed             500  the server, the engine or the model; never the client
  + NoSummary                502  the model wrote no summary in two attempts
  + Unavailable              503  with Retry-After
  |   + Busy                 too many connections or requests
  |   + BodyMemoryExhausted  other requests use all memory for bodies
  |   + EngineDown           the engine cannot be reached or cannot serve

A 4xx is caused by the request only, never by what the model samples. Two exceptions: a grammar from
the request may turn out to be impossible during sampling, and a call on Chat may need an approval.
Source: https://platform.openai.com/docs/guides/error-codes
"""

import math
from typing import Any, ClassVar, Self

from adapters.errors import (
    BackendError,
    BackendFailed,
    ContextTooLong,
    DeadEnd,
    EngineDied,
    EngineFault,
    InvalidGrammar,
    NotReady,
    Overloaded,
    Rejected,
    Unreached,
    Unsupported,
)

MAX_MESSAGE = 2000
MAX_PARAM = 256
"""Characters. Messages are limited because they may quote the request."""


class APIError(Exception):
    """Base of all errors for clients. `code` and `param` may be None, as in OpenAI's body.

    retry_after: seconds until the client may come again, None where the error gives no time. A
    message or param longer than `MAX_MESSAGE` or `MAX_PARAM` characters is truncated.
    """

    status: ClassVar[int] = 500
    type: ClassVar[str] = "server_error"
    default_code: ClassVar[str | None] = None
    retry_after: float | None = None

    def __init__(
        self,
        message: str,
        *,
        param: str | None = None,
        code: str | None = None,
        retry_after: float | None = None,
    ) -> None:
        message = _truncate(message, MAX_MESSAGE)
        super().__init__(message)
        self.message = message
        self.param = None if param is None else _truncate(param, MAX_PARAM)
        self.code = code if code is not None else self.default_code
        if retry_after is not None:
            self.retry_after = retry_after

    @property
    def headers(self) -> dict[str, str]:
        """Headers that belong to the status."""
        if self.retry_after is None:
            return {}
        # Whole seconds, at least one.
        return {"Retry-After": str(max(1, math.ceil(self.retry_after)))}

    def body(self) -> dict[str, Any]:
        """OpenAI's error object: `{"error": {message, type, param, code}}`."""
        return {
            "error": {
                "message": self.message,
                "type": self.type,
                "param": self.param,
                "code": self.code,
            }
        }

    def without_frames(self) -> Self:
        """The error without its traceback and causes, whose frames hold what failed in memory."""
        self.__traceback__ = self.__cause__ = self.__context__ = None
        return self


def _truncate(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


class InvalidRequest(APIError):
    """The request is not valid, or asks for something that is not supported."""

    status = 400
    type = "invalid_request_error"
    default_code = "invalid_value"


class ContextLengthExceeded(InvalidRequest):
    """The prompt leaves no room in the context. problem: a clause without a full stop.

    Many clients do not read the code. They look for words of OpenAI's messages, and shorten the
    conversation where they find them.
    """

    default_code = "context_length_exceeded"

    def __init__(self, problem: str, *, param: str | None = None) -> None:
        message = (
            "Input tokens exceed the configured limit. The request exceeds the context window, the"
            f" maximum context length: {problem}."
        )
        super().__init__(message, param=param)


class AuthenticationFailed(APIError):
    """The API key is missing or unknown."""

    status = 401
    type = "invalid_request_error"
    default_code = "invalid_api_key"

    @property
    def headers(self) -> dict[str, str]:
        """RFC 9110 requires the challenge."""
        return {"WWW-Authenticate": "Bearer"}


class Forbidden(APIError):
    """A browser sent the request from a page of another origin, which is not allowed."""

    status = 403
    type = "invalid_request_error"
    default_code = "origin_not_allowed"


class NotFound(APIError):
    """The object does not exist, or belongs to another key."""

    status = 404
    type = "invalid_request_error"
    default_code = "not_found"


class RequestTimeout(APIError):
    """The client was too slow to send its request."""

    status = 408
    type = "invalid_request_error"
    default_code = "request_timeout"


class ClientTooSlow(APIError):
    """More than `limit` bytes of a streamed answer wait for its client."""

    status = 408
    type = "invalid_request_error"
    default_code = "client_too_slow"

    def __init__(self, limit: int) -> None:
        super().__init__(
            f"The client reads too slowly: more than {limit} bytes of the answer wait for it."
        )


class BodyTooLarge(APIError):
    """The request's body is over the limit."""

    status = 413
    type = "invalid_request_error"
    default_code = "request_too_large"


class UnsupportedEncoding(APIError):
    """The body's Content-Encoding is not supported. accepted: the supported encodings."""

    status = 415
    type = "invalid_request_error"
    default_code = "unsupported_encoding"

    def __init__(self, accepted: tuple[str, ...]) -> None:
        super().__init__(f"The body's Content-Encoding is none of: {', '.join(accepted)}.")
        self.accepted = accepted

    @property
    def headers(self) -> dict[str, str]:
        """The supported encodings, as RFC 9110 permits for a 415."""
        return {"Accept-Encoding": ", ".join(self.accepted)}


class RangeNotSatisfiable(APIError):
    """The `Range` begins after the end of the file. size: that of the file, in bytes."""

    status = 416
    type = "invalid_request_error"
    default_code = "range_not_satisfiable"

    def __init__(self, size: int) -> None:
        super().__init__(f"The range begins after the end of the file, which has {size} bytes.")
        self.size = size

    @property
    def headers(self) -> dict[str, str]:
        """The size, as RFC 9110 asks for."""
        return {"Content-Range": f"bytes */{self.size}"}


class Misdirected(APIError):
    """The `Host` header names a host that this server does not serve."""

    status = 421
    type = "invalid_request_error"
    default_code = "host_not_allowed"


class KeyReused(APIError):
    """An Idempotency-Key was used again with a different request."""

    status = 422
    type = "invalid_request_error"
    default_code = "idempotency_key_reused"


class RateLimited(APIError):
    """The queue is full."""

    status = 429
    type = "too_many_requests"
    default_code = "rate_limit_exceeded"
    retry_after = 1.0


class HeadersTooLarge(APIError):
    """The request line and the headers exceed a limit."""

    status = 431
    type = "invalid_request_error"
    default_code = "headers_too_large"


class ServerFailed(APIError):
    """The server or its engine failed; a retry may succeed.

    message: the default does not describe what failed, as that of a defect should not.
    """

    default_code = "server_error"

    def __init__(
        self, message: str = "The server had an error while processing your request."
    ) -> None:
        super().__init__(message)


class NoSummary(APIError):
    """The model wrote no summary of a conversation."""

    status = 502
    default_code = "no_summary"


class Unavailable(APIError):
    """The server cannot take this request now; a retry may succeed."""

    status = 503
    default_code = "server_unavailable"
    retry_after = 1.0


class Busy(Unavailable):
    """There are too many connections or requests; a retry may succeed."""

    default_code = "server_overloaded"


class BodyMemoryExhausted(Unavailable):
    """The bodies of other requests use all memory for bodies."""

    default_code = "body_memory_exhausted"


class EngineDown(Unavailable):
    """The engine cannot be reached, is starting, or has died; nothing was sampled."""

    default_code = "engine_unavailable"
    retry_after = 5.0
    """The time between two health checks of an engine."""


def engine_down(error: BackendFailed) -> EngineDown:
    """The client's error for an engine that failed before it sampled anything."""
    is_external = isinstance(error, EngineFault)
    return EngineDown("The engine cannot be reached now." if is_external else str(error))


def from_backend(
    error: BackendError,
    *,
    prompt_param: str | None = None,
    own_grammar: bool = False,
    has_sampled: bool = False,
) -> APIError:
    """The client's error for an error of a backend.

    prompt_param: the request field that holds the prompt. own_grammar: whether a part of the
    grammar is from the request; only then a dead end in it is the request's fault. has_sampled:
    whether the engine had sampled a token. If not, a retry is safe; if it had, it did not refuse
    the request.
    Messages of external engines are not passed on: they name hosts, and may quote prompts.
    """
    match error:
        case NotReady():
            return EngineDown("The engine takes no requests now.", retry_after=error.retry_after)
        case Overloaded() if not has_sampled:
            return RateLimited(str(error), retry_after=error.retry_after)
        case ContextTooLong():
            return ContextLengthExceeded(str(error), param=prompt_param)
        case Unsupported():
            return InvalidRequest(str(error), param=error.feature, code="unsupported_parameter")
        case DeadEnd() if own_grammar:
            return InvalidRequest(str(error), code="invalid_grammar")
        case InvalidGrammar():
            return InvalidRequest(str(error), code="invalid_grammar")
        case Rejected() if not has_sampled:
            return InvalidRequest("The engine refused the request.", code="engine_refused")
        case Unreached() | EngineDied() if not has_sampled:
            return engine_down(error)
        case EngineFault() | Rejected() | Overloaded():
            return ServerFailed("The engine failed to serve the request.")
        case _:
            return ServerFailed(str(error))
