"""SIGTERM and SIGHUP, which end the server as Ctrl-C does."""

import signal
from types import FrameType


def ignore_hang_up() -> None:
    """Ignore SIGHUP from now on.

    A terminal that closes while the server stops must not end it at once.
    """
    signal.signal(signal.SIGHUP, signal.SIG_IGN)


class StopSignals:
    """Turns SIGTERM and SIGHUP into SIGINT, and notes that they came.

    A second signal of a kind is passed on too: it ends the server at once. A second SIGHUP is not,
    because a terminal that closes may send it twice.
    """

    def __init__(self) -> None:
        self.came = False

    def install(self) -> None:
        """Handle the signals from now on, also SIGINT, which shells let background jobs ignore.

        SIGHUP stays ignored where it is, as `nohup` wants it.
        """
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGTERM, self._interrupt)
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
            signal.signal(signal.SIGHUP, self._hang_up)

    def check(self) -> None:
        """Raise KeyboardInterrupt if SIGTERM or SIGHUP came, in case that of the signal was lost.

        Python ignores exceptions in finalizers, which run at any time, as during imports. Ctrl-C is
        left out, because a person repeats it.
        """
        if self.came:
            raise KeyboardInterrupt

    def _hang_up(self, number: int, frame: FrameType | None) -> None:
        ignore_hang_up()
        self._interrupt(number, frame)

    def _interrupt(self, _number: int, _frame: FrameType | None) -> None:
        self.came = True
        signal.raise_signal(signal.SIGINT)
