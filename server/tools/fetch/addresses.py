"""Decides which IP addresses may be reached.

An address is allowed if it is a public unicast address, or lies in a network that the operator
allows. An IPv6 address that embeds an IPv4 address (mapped, compatible, 6to4, Teredo, NAT64,
ISATAP) is allowed only if the embedded address is allowed, too: a translator may forward to it.
Sources: the IANA registries of special-purpose addresses
(https://www.iana.org/assignments/iana-ipv4-special-registry), RFC 6890, RFC 6052, RFC 5214.
"""

import socket
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

# `is_global` depends on the version of Python, and misses some of these.
_DENIED: tuple[Network, ...] = tuple(
    map(
        ip_network,
        (
            "0.0.0.0/8",
            "10.0.0.0/8",
            "100.64.0.0/10",
            "127.0.0.0/8",
            "168.63.129.16/32",  # Azure's host
            "169.254.0.0/16",
            "172.16.0.0/12",
            "192.0.0.0/24",
            "192.0.2.0/24",
            "192.31.196.0/24",
            "192.52.193.0/24",
            "192.88.99.0/24",
            "192.168.0.0/16",
            "192.175.48.0/24",
            "198.18.0.0/15",
            "198.51.100.0/24",
            "203.0.113.0/24",
            "224.0.0.0/3",
            "::/8",
            "100::/8",
            "2001::/23",
            "2001:db8::/32",
            "3fff::/20",
            "5f00::/16",
            "fc00::/6",  # fc00::/7 unique local, fe80::/10 link-local, fec0::/10 site-local
            "ff00::/8",
        ),
    )
)
_NAT64 = tuple(map(IPv6Network, ("64:ff9b::/96", "64:ff9b:1::/48")))
_ISATAP = (0x00005EFE, 0x02005EFE)
_LOW_32 = 0xFFFFFFFF


def parse_networks(texts: Iterable[str]) -> tuple[Network, ...]:
    """The networks of CIDR texts; a bare address is a network of one. Raises ValueError."""
    return tuple(ip_network(text.strip(), strict=False) for text in texts)


def literal(host: str) -> Address | None:
    """The address that a host name spells, None for a name that needs resolution.

    Decimal, octal, hexadecimal and short IPv4 spellings are read as browsers and the C library
    read them. Raises ValueError for what ends in a number and is no address, and for a zone id.
    """
    host = host.removesuffix(".").strip("[]")
    if ":" in host or "%" in host:
        address = ip_address(host)
        if isinstance(address, IPv6Address) and address.scope_id is not None:
            raise ValueError("an address with a zone id")
        return address
    last = host.rpartition(".")[2].lower()
    if not (last.isdigit() or last.startswith("0x")):
        return None
    try:
        return IPv4Address(socket.inet_aton(host))
    except OSError as error:
        raise ValueError("a name that ends in a number, and is no address") from error


def embedded(address: Address) -> Iterator[IPv4Address]:
    """The IPv4 addresses that an IPv6 address stands for, or may be translated to."""
    if isinstance(address, IPv4Address):
        return
    value = int(address)
    if address.ipv4_mapped is not None:
        yield address.ipv4_mapped
    if address.sixtofour is not None:
        yield address.sixtofour
    if address.teredo is not None:
        yield from address.teredo
    if value >> 32 == 0 or any(address in network for network in _NAT64):
        yield IPv4Address(value & _LOW_32)
    if value >> 32 & _LOW_32 in _ISATAP:
        yield IPv4Address(value & _LOW_32)


@dataclass(frozen=True, slots=True)
class AddressPolicy:
    """The addresses that may be reached: public ones, and those of `allowed` networks."""

    allowed: tuple[Network, ...] = ()

    def permits(self, address: Address) -> bool:
        """Whether the address, and each address that it embeds, may be reached."""
        if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
            return self.permits(address.ipv4_mapped)
        if self._is_allowed(address):
            return True
        if not _is_public(address):
            return False
        return all(map(self.permits, embedded(address)))

    def _is_allowed(self, address: Address) -> bool:
        return any(
            network.version == address.version and address in network for network in self.allowed
        )


def _is_public(address: Address) -> bool:
    nat64 = isinstance(address, IPv6Address) and address in _NAT64[0]
    if nat64:  # public where the embedded address is
        return True
    denied = any(network.version == address.version and address in network for network in _DENIED)
    return address.is_global and not address.is_multicast and not denied
