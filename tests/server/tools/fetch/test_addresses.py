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


@pytest.mark.parametrize(
    ("host", "address"),
    [
        ("127.0.0.1.", "127.0.0.1"),
        ("0x7f.1", "127.0.0.1"),
        ("017700000001", "127.0.0.1"),
        ("2130706433", "127.0.0.1"),
        ("0X7F000001.", "127.0.0.1"),
        ("::1", "::1"),
        ("[::1]", "::1"),
    ],
)
def test_all_spellings_of_an_address_are_read(host: str, address: str) -> None:
    assert literal(host) == ip_address(address)


@pytest.mark.parametrize("host", ["1.2.3.4.5", "999.1.1.1", "a.0x7g", "fe80::1%lo", "1.2%3"])
def test_what_ends_in_a_number_and_is_no_address_is_refused(host: str) -> None:
    with pytest.raises(ValueError, match="address"):
        literal(host)


@pytest.mark.parametrize("host", ["example.com", "1.example", "a.1b", "localhost"])
def test_names_are_no_addresses(host: str) -> None:
    assert literal(host) is None


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("127.0.0.1", []),
        ("2606:4700:4700::1111", []),
        ("::7f00:1", ["127.0.0.1"]),
        ("::1:7f00:1", []),
        ("::ffff:10.1.2.3", ["10.1.2.3"]),
        ("64:ff9b::10.1.2.3", ["10.1.2.3"]),
        ("64:ff9b:1:2::10.1.2.3", ["10.1.2.3"]),
        ("2002:a01:203::1", ["10.1.2.3"]),
        ("2001:0:53aa:64c::80ff:fffe", ["83.170.6.76", "127.0.0.1"]),
        ("2606:4700::5efe:10.1.2.3", ["10.1.2.3"]),
        ("2606:4700::200:5efe:10.1.2.3", ["10.1.2.3"]),
    ],
)
def test_the_addresses_that_an_address_embeds(text: str, found: list[str]) -> None:
    assert [str(each) for each in embedded(ip_address(text))] == found


@pytest.mark.parametrize(
    "text", ["64:ff9b::10.2.0.1", "2002:a02:1::1", "2606:4700::200:5efe:10.2.0.1"]
)
def test_an_address_that_embeds_a_private_one_is_not_allowed(text: str) -> None:
    """Nor where the operator allows another network."""
    assert not AddressPolicy(parse_networks(["10.1.0.0/16"])).permits(ip_address(text))
