import signal
from collections.abc import Iterator
from contextlib import suppress

import pytest

from server.commands.stop_signals import StopSignals, ignore_hang_up

HANDLED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    """The handlers are as before after the test."""
    handlers = {number: signal.getsignal(number) for number in HANDLED}
    yield
    for number, handler in handlers.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_to_stop_interrupts(number: signal.Signals) -> None:
    stop = StopSignals()
    stop.install()
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(number)
    assert stop.came


def test_ctrl_c_is_no_signal_to_stop() -> None:
    stop = StopSignals()
    stop.install()
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
    assert not stop.came


def test_an_interrupt_that_was_lost_is_repeated() -> None:
    stop = StopSignals()
    stop.install()
    stop.check()
    with suppress(KeyboardInterrupt):
        signal.raise_signal(signal.SIGTERM)
    with pytest.raises(KeyboardInterrupt):
        stop.check()


def test_a_terminal_that_closes_interrupts_once() -> None:
    StopSignals().install()
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGHUP)
    signal.raise_signal(signal.SIGHUP)


def test_a_terminal_that_closes_while_the_server_stops_is_ignored() -> None:
    stop = StopSignals()
    stop.install()
    ignore_hang_up()
    signal.raise_signal(signal.SIGHUP)
    assert not stop.came


def test_a_hang_up_that_is_ignored_stays_so() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    stop = StopSignals()
    stop.install()
    signal.raise_signal(signal.SIGHUP)
    assert not stop.came
