"""The errors for what a server refuses, in the status of a response or in an event of a stream."""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import httpx
import orjson

from adapters.base import GenerationRequest
from adapters.errors import (
    BackendError,
    EngineFault,
    InvalidGrammar,
    Mismatch,
    NotReady,
    Overloaded,
    Rejected,
)

BAD_REQUEST = frozenset({int(httpx.codes.BAD_REQUEST)})
"""The usual `Wire.refused_statuses`. A 422 means that the server's version is incompatible."""

_RETRY_SECONDS = 1.0
_LONGEST_RETRY_SECONDS = 3600.0
_BUSY = frozenset({httpx.codes.REQUEST_TIMEOUT, httpx.codes.TOO_MANY_REQUESTS})
# The key, the model's name or the interface is not what the server expects.
_MISMATCHED = frozenset(
    {
        httpx.codes.UNAUTHORIZED,
        httpx.codes.FORBIDDEN,
        httpx.codes.NOT_FOUND,
        httpx.codes.METHOD_NOT_ALLOWED,
        httpx.codes.UNPROCESSABLE_ENTITY,
    }
)
# The most that is read of the response to a request that failed.
_ERROR_BYTES = 8192
_ERROR_SECONDS = 5.0
_MESSAGE_CHARACTERS = 500


async def error_of_response(
    response: httpx.Response, request: GenerationRequest, refused_statuses: frozenset[int]
) -> BackendError:
    """The error for a response whose body has not been read. refused_statuses: as in `Wire`."""
    status = response.status_code
    # Other errors do not depend on the message.
    message = message_of(await _beginning(response)) if status in refused_statuses else ""
    seconds = _retry_after(response.headers.get("retry-after", ""))
    return error_of_status(status, message, request, refused_statuses, seconds)


def error_of_status(
    status: int,
    message: str,
    request: GenerationRequest,
    refused_statuses: frozenset[int] = BAD_REQUEST,
    retry_after: float = _RETRY_SECONDS,
) -> BackendError:
    """The error for an error status. refused_statuses: as in `Wire`.

    message: from the server; the error does not contain it, since it may quote hosts and prompts.
    retry_after: the seconds after which a busy server may be tried again.
    """
    reason = f"the engine answered {status}"
    if status in refused_statuses:
        if request.grammar is not None and "grammar" in message.lower():
            return InvalidGrammar("the engine does not take the request's grammar")
        return Rejected(reason)
    if status == httpx.codes.SERVICE_UNAVAILABLE:
        return NotReady("the engine takes no requests now", retry_after)
    if status in _BUSY:
        return Overloaded("the engine is busy", retry_after)
    if status in _MISMATCHED:
        return Mismatch(reason)
    return Rejected(reason) if httpx.codes.is_client_error(status) else EngineFault(reason)


def error_of_event(event: Mapping[str, Any], without_code: int) -> tuple[int, str] | None:
    """Status and message of an event in the error format of OpenAI-like servers, else None.

    without_code: the status of an error that has none.
    """
    error = event.get("error")
    if error is None:
        return None
    if isinstance(error, Mapping):
        code = error.get("code")
        return code if type(code) is int else without_code, str(error.get("message", error))
    return without_code, str(error)


def message_of(body: bytes) -> str:
    """The message in the error response of a server, in any of the usual formats; truncated."""
    try:
        value: Any = orjson.loads(body)
        for key in ("error", "message", "detail"):
            if isinstance(value, Mapping) and key in value:
                value = value[key]
    except ValueError:
        value = body.decode(errors="replace")
    return str(value)[:_MESSAGE_CHARACTERS]


async def _beginning(response: httpx.Response) -> bytes:
    """What arrives of a body in `_ERROR_SECONDS`, `_ERROR_BYTES` at most."""
    body = b""
    with suppress(TimeoutError, httpx.HTTPError, httpx.StreamError):
        async with asyncio.timeout(_ERROR_SECONDS):
            async for part in response.aiter_raw():
                body += part
                if len(body) > _ERROR_BYTES:
                    break
    return body[:_ERROR_BYTES]


def _retry_after(value: str) -> float:
    """The seconds of the header `Retry-After`, an hour at most; 1 if it has no number of them."""
    if not value.isdecimal():
        return _RETRY_SECONDS
    return min(float(value), _LONGEST_RETRY_SECONDS)
