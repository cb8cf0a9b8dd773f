"""Which addresses are allowed."""

from ipaddress import ip_address

import pytest

from server.tools.fetch.addresses import AddressPolicy, embedded, literal, parse_networks


@pytest.mark.parametrize(
    "text",
    [
        "1.1.1.1",
        "8.8.8.8",
        "93.184.216.34",
        "::ffff:8.8.8.8",
        "64:ff9b::8.8.8.8",
        "2002:808:808::1",
        "2606:4700:4700::1111",
        "2a00:1450:4001:82b::200e",
    ],
)
def test_public_addresses_are_allowed(text: str) -> None:
    assert AddressPolicy().permits(ip_address(text))


@pytest.mark.parametrize(
    ("text", "allowed"),
    [
        ("10.1.2.3", True),
        ("::ffff:10.1.2.3", True),
        ("64:ff9b::10.1.2.3", True),
        ("10.2.0.1", False),
        ("fd00::1", True),
        ("fd01::1", False),
    ],
)
def test_networks_of_the_operator_are_allowed(text: str, allowed: bool) -> None:
    policy = AddressPolicy(parse_networks(["10.1.0.0/16", "fd00::/64"]))
    assert policy.permits(ip_address(text)) is allowed


def test_a_network_has_to_be_one() -> None:
    with pytest.raises(ValueError, match="does not appear"):
        parse_networks(["intranet"])


@pytest.mark.parametrize("host", ["example.com", "1.example", "a.1b", "localhost"])
def test_names_are_no_addresses(host: str) -> None:
    assert literal(host) is None


def test_an_ipv4_address_embeds_none() -> None:
    assert list(embedded(ip_address("127.0.0.1"))) == []
