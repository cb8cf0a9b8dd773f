"""Holds requests back from an engine that fails one after another.

A circuit only advises: the pool sends requests all the same where no other engine is available.
"""

from collections.abc import Callable

FAILURES_TO_OPEN = 3
_OPEN_SECONDS = 10.0

Clock = Callable[[], float]


class Circuit:
    """A circuit breaker: opens after consecutive failures, and admits one request per interval."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._failures = 0
        self._tickets = 0
        self._last_failure = 0
        self._retry_at = 0.0

    @property
    def is_open(self) -> bool:
        """Whether requests are held back."""
        return self._failures >= FAILURES_TO_OPEN

    @property
    def passes(self) -> bool:
        """Whether a request may be sent."""
        return not self.is_open or self._clock() >= self._retry_at

    @property
    def last_failure(self) -> int:
        """The number of the last failure that counted."""
        return self._last_failure

    def sent(self) -> int:
        """Record that a request is sent. Returns its ticket; later ones are higher.

        An open circuit admits no other request until `_OPEN_SECONDS` later.
        """
        self._retry_at = self._clock() + _OPEN_SECONDS
        self._tickets += 1
        return self._tickets

    def undecided(self, ticket: int) -> None:
        """Record that a request ended without showing whether the engine works.

        If it is the one that an open circuit has admitted, another one is admitted in its place.
        """
        if self._last_failure < ticket == self._tickets:
            self._retry_at = self._clock()

    def succeeded(self, ticket: int) -> None:
        """Record that the engine has not failed a request by the end of its answer.

        It does not count if a failure has counted since the request was sent.
        """
        if ticket > self._last_failure:
            self._failures = 0

    def failed(self, ticket: int) -> None:
        """Record that the engine failed a request.

        It does not count if another failure has counted since the request was sent.
        """
        if ticket <= self._last_failure:
            return
        self._failures += 1
        self._last_failure = self._tickets
        self._retry_at = self._clock() + _OPEN_SECONDS

    def passed_check(self, last_failure: int) -> None:
        """Record a passed health check. last_failure: the value when the check began.

        Closes the circuit, unless the engine has failed since. The next failure opens it again.
        """
        if last_failure == self._last_failure:
            self._failures = min(self._failures, FAILURES_TO_OPEN - 1)
