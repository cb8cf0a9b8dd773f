import socket

import pytest

from server.commands.listening import CannotListen, bind, listen, reachable_by_others, url


@pytest.mark.parametrize(
    ("host", "reachable"),
    [("127.0.0.1", False), ("localhost", False), ("0.0.0.0", True)],
)
def test_what_others_reach_is_told_by_the_bound_address(host: str, reachable: bool) -> None:
    with bind(host, 0) as listener:
        assert reachable_by_others(listener) is reachable


def test_a_port_that_another_listens_on_cannot_be_bound() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(CannotListen, match=f"127.0.0.1:{port}: Address already in use"):
            bind("127.0.0.1", port)


def test_of_two_that_bound_a_port_the_first_one_listens() -> None:
    with bind("127.0.0.1", 0) as first, bind(*first.getsockname()) as second:
        listen(first)
        with pytest.raises(CannotListen, match="Address already in use"):
            listen(second)


def test_an_address_of_version_6_stands_in_brackets() -> None:
    class Listener:
        def getsockname(self) -> tuple[str, int, int, int]:
            return ("::1", 8000, 0, 0)

    assert url(Listener()) == "http://[::1]:8000"  # type: ignore[arg-type]
