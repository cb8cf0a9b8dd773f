"""How connections are counted."""

import logging

import pytest

from server.http.connections.limits import Connections, Limits, address_of


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
    connections = Connections(Limits(connections=2))
    assert [connections.enter(f"192.0.2.{i}") for i in range(3)] == [True, True, False]
    connections.leave("192.0.2.0")
    assert connections.enter("192.0.2.9")
    assert connections.open == 2


def test_each_address_is_bounded() -> None:
    connections = Connections(Limits(connections_per_address=1))
    hosts = ("2001:db8::1", "2001:db8::2", "192.0.2.1", "192.0.2.1", None, None)
    assert [*map(connections.enter, hosts)] == [True, False, True, False, True, True]
    connections.leave("2001:db8::1")
    assert connections.enter("2001:db8::2")


def test_who_has_left_once_still_has_the_rest() -> None:
    connections = Connections(Limits(connections_per_address=2))
    assert [connections.enter("192.0.2.1") for _ in range(2)] == [True, True]
    connections.leave("192.0.2.1")
    assert [connections.enter("192.0.2.1") for _ in range(2)] == [True, False]


def test_a_flood_is_one_line_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "server")
    connections = Connections(Limits(connections=1, connections_per_address=1))
    for _ in range(5):
        connections.enter("192.0.2.1")
    assert [record.getMessage() for record in caplog.records] == [
        "new connections are refused: 1 are open in all"
    ]
