"""Work that is begun without a task; as eager tasks (Python 3.12) do.

It runs in the task of whoever begins it until it has to wait: it must have no time limit or cancel
scope of its own, which would be that task's.
"""

from collections.abc import Awaitable, Generator
from typing import Any


class Begun:
    """What began and has to wait. To be awaited once, by a task, which goes on with it."""

    def __init__(self, steps: Generator[Any, Any, None], waited_for: Any) -> None:
        self._steps = steps
        self._waited_for = waited_for

    def __await__(self) -> Generator[Any, Any, None]:
        try:
            yield self._waited_for
        except GeneratorExit:
            self._steps.close()
            raise
        except BaseException as error:
            try:
                waited_for = self._steps.throw(error)
            except StopIteration:
                return
            yield from Begun(self._steps, waited_for).__await__()
        else:
            yield from self._steps

    def close(self) -> None:
        """Give up work that no task goes on with."""
        self._steps.close()


def begin(work: Awaitable[None]) -> Begun | None:
    """Do the work up to where it has to wait; None where it never has to.

    Raises what the work raises until then.
    """
    steps = work.__await__()
    try:
        return Begun(steps, next(steps))
    except StopIteration:
        return None
