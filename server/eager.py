"""Work that is begun without a task; as eager tasks (Python 3.12) do."""

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
        except BaseException:
            self._steps.close()
            raise
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
