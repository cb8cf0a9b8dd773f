"""The producer of one answer: its first events, its turns, and its last events however it ends."""

import asyncio
import logging
from typing import NoReturn

from adapters.completion import completed
from server.errors import APIError, ServerFailed, Unavailable
from server.generation.answer_spec import AnswerSpec
from server.generation.hosted_calls import HostedCalls
from server.generation.loop import Loop
from server.generation.metering import Meter
from server.generation.runs import Emit, Runs

logger = logging.getLogger(__name__)


class Answer:
    """Implements `server.generation.runs.Producer`. runs: the answer's run is among them."""

    def __init__(
        self, spec: AnswerSpec, loop: Loop, calls: HostedCalls, meter: Meter, runs: Runs
    ) -> None:
        self._spec = spec
        self._outbound = spec.outbound
        self._loop = loop
        self._calls = calls
        self._meter = meter
        self._runs = runs

    async def __call__(self, emit: Emit) -> None:
        """Emit all events. Raises the APIError that the answer ends with."""
        try:
            await emit(self._outbound.start())
            await self._loop.run(emit)
        except asyncio.CancelledError as error:
            if not _is_cancelled():
                await self._fail(error, emit)
            self._meter.ended("abort")
            await self._end_early(emit)
            raise
        except Exception as error:
            await self._fail(error, emit)
        finally:
            if self._spec.sessions:
                await completed(self._calls.close())

    async def _fail(self, error: BaseException, emit: Emit) -> NoReturn:
        """Emit the last events of an answer that failed. Raises the client's error."""
        failure = to_api_error(error, self._spec.request_id)
        self._meter.ended("error", failure.code)
        await emit(self._outbound.fail(failure))
        raise failure from error

    async def _end_early(self, emit: Emit) -> None:
        """Emit the last events of a cancelled answer. Raises APIError if the server cancelled it.

        When the server stops, a foreground answer ends as cancelled if its API has that status.
        """
        if (reason := self._runs.reason(self._spec.request_id)) is not None:
            await emit(self._outbound.fail(reason))
            raise reason
        ending = self._runs.ending
        is_shown = not (ending and self._spec.background)
        events = self._outbound.cancel() if is_shown else []
        if events or not ending:
            await emit(events)
            return
        failure = stopped()
        await emit(self._outbound.fail(failure))
        raise failure


def _is_cancelled() -> bool:
    """Whether this task was cancelled. Else a CancelledError is of something that it awaited."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def stopped() -> Unavailable:
    """The error of an answer that is cancelled because the server stops."""
    return Unavailable("The server stopped before it was finished.")


def to_api_error(error: BaseException, request_id: str) -> APIError:
    """The error that the client gets. Errors of the server are logged."""
    if not isinstance(error, APIError):
        logger.error("request %s failed", request_id, exc_info=error)
        return ServerFailed()
    if error.status >= 500:
        # Without the message, which may quote the prompt; the engine logs the cause.
        logger.error("request %s failed with %s", request_id, error.code)
    return error
