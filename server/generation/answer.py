"""The producer of one answer: its first events, its turns, and its last events however it ends."""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass

from server.errors import APIError, ServerFailed, Unavailable
from server.generation.hosted_calls import HostedCalls
from server.generation.loop import Loop
from server.generation.metering import Meter
from server.generation.outbound_protocol import Outbound
from server.generation.runs import Emit
from server.threads import completed

logger = logging.getLogger(__name__)

Reason = Callable[[], APIError | None]


@dataclass(frozen=True, slots=True)
class Cancellation:
    """What a cancelled answer has to know.

    ending: whether the server stops. reason: the error to end with, None if no reader needs the
    rest. background: whether the answer is made without readers.
    """

    ending: Callable[[], bool]
    reason: Reason
    background: bool = False


class Answer:
    """Implements `server.generation.runs.Producer`."""

    def __init__(
        self,
        loop: Loop,
        outbound: Outbound,
        calls: HostedCalls,
        meter: Meter,
        cancellation: Cancellation,
        request_id: str,
    ) -> None:
        self._loop = loop
        self._outbound = outbound
        self._calls = calls
        self._meter = meter
        self._cancellation = cancellation
        self._request_id = request_id

    async def __call__(self, emit: Emit) -> None:
        """Emit all events. Raises the APIError that the answer ends with."""
        try:
            await emit(self._outbound.start())
            await self._loop.run(emit)
        except asyncio.CancelledError:
            if not self._loop.finished:
                self._meter.ended("abort")
                await self._end_early(emit)
            raise
        except Exception as error:
            failure = to_api_error(error, self._request_id)
            if not self._loop.finished:
                self._meter.ended("error", failure.code)
                await emit(self._outbound.fail(failure))
                raise failure from error
        finally:
            if not self._calls.is_closed:
                await completed(self._calls.close())

    async def _end_early(self, emit: Emit) -> None:
        """Emit the last events of a cancelled answer. Raises APIError if the server cancelled it.

        When the server stops, a foreground answer ends as cancelled if its API has that status.
        """
        if (reason := self._cancellation.reason()) is not None:
            await emit(self._outbound.fail(reason))
            raise reason
        ending = self._cancellation.ending()
        is_shown = not (ending and self._cancellation.background)
        events = self._outbound.cancel() if is_shown else []
        if events or not ending:
            await emit(events)
            return
        failure = stopped()
        await emit(self._outbound.fail(failure))
        raise failure


def stopped() -> Unavailable:
    """The error of an answer that is cancelled because the server stops."""
    return Unavailable("The server stopped before it was finished.")


def to_api_error(error: Exception, request_id: str) -> APIError:
    """The error that the client gets. Errors of the server are logged."""
    if not isinstance(error, APIError):
        logger.error("request %s failed", request_id, exc_info=error)
        return ServerFailed()
    if error.status >= 500:
        # Without the message, which may quote the prompt; the engine logs the cause.
        logger.error("request %s failed with %s", request_id, error.code)
    return error
