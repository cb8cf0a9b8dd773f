"""Runs a coroutine without a task until it has to wait, as eager tasks (Python 3.12) do.

Until then it runs in the caller's task. It must therefore not use timeouts or cancel scopes, which
would apply to that task.
"""

from collections.abc import Awaitable, Generator
from typing import Any


class Suspended:
    """Work that has to wait. Await it once, in a task, to run the rest of it.

    steps: the coroutine's iterator. awaited: the future that it waits for.
    """

    def __init__(self, steps: Generator[Any, Any, None], awaited: Any) -> None:
        self._steps = steps
        self._awaited = awaited

    def __await__(self) -> Generator[Any, Any, None]:
        try:
            yield self._awaited
        except GeneratorExit:
            self._steps.close()
            raise
        except BaseException as error:
            try:
                awaited = self._steps.throw(error)
            except StopIteration:
                return
            yield from Suspended(self._steps, awaited).__await__()
        else:
            yield from self._steps

    def close(self) -> None:
        """Close the work if no task has awaited it."""
        self._steps.close()


def run_until_suspended(work: Awaitable[None]) -> Suspended | None:
    """Run the work until it has to wait. Returns None if it ends without waiting.

    Raises the errors that the work raises until then.
    """
    steps = work.__await__()
    try:
        return Suspended(steps, next(steps))
    except StopIteration:
        return None
