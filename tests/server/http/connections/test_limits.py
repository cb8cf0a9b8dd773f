"""How connections are counted."""

import logging

import pytest

from server.http.connections.limits import Connections, Limits, Place, address_of
from server.telemetry import readiness


@pytest.mark.parametrize(
    ("host", "address"),
    [
        (None, None),
        ("192.0.2.1", "192.0.2.1"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
    ],
)
def test_what_a_client_is_counted_by(host: str | None, address: str | None) -> None:
    assert address_of(host) == address


def test_the_total_is_bounded() -> None:
    connections = Connections(Limits(connections=2, spare=0))
    entered = [connections.enter(f"192.0.2.{i}") for i in range(3)]
    assert entered == [Place.ORDINARY, Place.ORDINARY, None]
    connections.leave("192.0.2.0")
    assert connections.enter("192.0.2.9")
    assert connections.open == 2


def test_each_address_is_bounded() -> None:
    connections = Connections(Limits(connections_per_address=1, spare=0))
    hosts = ("2001:db8::1", "2001:db8::2", "192.0.2.1", "192.0.2.1", None, None)
    entered = [connections.enter(host) is not None for host in hosts]
    assert entered == [True, False, True, False, True, True]
    connections.leave("2001:db8::1")
    assert connections.enter("2001:db8::2")


def test_who_has_left_once_still_has_the_rest() -> None:
    connections = Connections(Limits(connections_per_address=2, spare=0))
    assert [connections.enter("192.0.2.1") for _ in range(2)] == [Place.ORDINARY] * 2
    connections.leave("192.0.2.1")
    assert [connections.enter("192.0.2.1") for _ in range(2)] == [Place.ORDINARY, None]


def test_spare_connections_are_bounded_and_take_no_other_place() -> None:
    connections = Connections(Limits(connections=1, spare=1))
    entered = [connections.enter("192.0.2.1") for _ in range(3)]
    assert entered == [Place.ORDINARY, Place.SPARE, None]
    assert connections.open == 1
    connections.leave("192.0.2.1", Place.SPARE)
    assert [connections.enter("192.0.2.1") for _ in range(2)] == [Place.SPARE, None]
    connections.leave("192.0.2.1")
    assert connections.enter("192.0.2.1") is Place.ORDINARY


def test_idle_connections_are_kept_for_a_shorter_time_where_connections_are_scarce() -> None:
    connections = Connections(Limits(connections=6, connections_per_address=4))
    idle, crowded = 75, 5
    connections.enter("192.0.2.1")
    assert connections.idle_seconds("192.0.2.1") == idle
    connections.enter("192.0.2.1")
    assert connections.idle_seconds("192.0.2.1") == crowded
    assert connections.idle_seconds("192.0.2.2") == idle
    connections.enter(None)
    assert connections.idle_seconds("192.0.2.2") == crowded


def test_a_flood_is_one_line_in_the_log_with_who_has_most(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING, "server")
    connections = Connections(Limits(connections_per_address=2))
    for host in ("192.0.2.1", *["192.0.2.2"] * 5):
        connections.enter(host)
    assert [record.getMessage() for record in caplog.records] == [
        "too many connections: 3 are open, 2 of them from 192.0.2.2;"
        " new ones get health checks only"
    ]


def test_a_spare_connection_outlasts_the_checks_of_ready() -> None:
    assert Limits().spare_seconds > readiness.CHECK_SECONDS
