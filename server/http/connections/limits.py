"""Limits on connections, in total and per address, and on what each may send."""

import ipaddress
import logging
import time
from collections import Counter
from dataclasses import dataclass
from enum import Enum, auto

logger = logging.getLogger(__name__)

LOG_SECONDS = 10.0
"""The least time between two log lines about refused connections."""

IPV6_PREFIX = 64
"""Bits of an IPv6 address that identify a host, which usually gets a whole prefix."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits on connections, requests and their headers; times are in seconds.

    connections: open at once, WebSockets included. connections_per_address: open at once from one
    IPv4 address or one /64 prefix of IPv6. spare: open beyond these two limits, for health checks.
    spare_seconds: how long one of them may be open, which is more than the checks of `/ready` take.
    requests: processed at once; health checks are exempt.
    head_bytes, head_fields: size of the request line and the headers together. head_seconds: from
    the first byte (or the connection's start) to the end of the headers. body_seconds: time
    without any byte of the body. unread_seconds: time for the rest of a body after its answer was
    sent. closing_seconds: time for the client to read the error before its connection is closed.
    idle_seconds: time between two requests. crowded_idle_seconds: the same while half of
    the connections that a limit allows are open. pipelined: requests that wait on a connection
    while another one is answered.
    """

    connections: int = 4096
    connections_per_address: int = 1024
    spare: int = 32
    spare_seconds: float = 5.0
    requests: int = 2048
    head_bytes: int = 64 * 1024
    head_fields: int = 128
    head_seconds: float = 10.0
    body_seconds: float = 60.0
    unread_seconds: float = 30.0
    closing_seconds: float = 2.0
    idle_seconds: int = 75
    crowded_idle_seconds: int = 5
    pipelined: int = 16


class Place(Enum):
    """What an open connection may be used for."""

    ORDINARY = auto()
    SPARE = auto()
    """Health checks only: another limit is reached."""


class Connections:
    """Counts the open connections, in all and by the client's address.

    Idle ones are kept for longer than most load balancers keep theirs, which is a minute: where the
    server closes first, a request may already be on its way. Where connections become scarce, room
    for others matters more, and those that become idle are kept for less.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._open = 0
        self._spare = 0
        self._by_address: Counter[str] = Counter()
        self._logged = -LOG_SECONDS

    @property
    def open(self) -> int:
        """The number of open connections, without the spare ones."""
        return self._open

    def enter(self, host: str | None) -> Place | None:
        """Count a connection from `host`. Returns None, and does not count it, over all limits.

        host: None for a client without an address (a Unix socket), which counts in total only.
        """
        address = address_of(host)
        if self._is_full(address):
            self._log()
            if self._spare >= self._limits.spare:
                return None
            self._spare += 1
            return Place.SPARE
        if address is not None:
            self._by_address[address] += 1
        self._open += 1
        return Place.ORDINARY

    def idle_seconds(self, host: str | None) -> int:
        """How long a connection from `host` may now be idle before it is closed."""
        is_crowded = self._is_full(address_of(host), share=0.5)
        return self._limits.crowded_idle_seconds if is_crowded else self._limits.idle_seconds

    def _is_full(self, address: str | None, share: float = 1) -> bool:
        """Whether this share of all connections, or of those of the address, is open."""
        of_address = 0 if address is None else self._by_address[address]
        return (
            self._open >= share * self._limits.connections
            or of_address >= share * self._limits.connections_per_address
        )

    def leave(self, host: str | None, place: Place = Place.ORDINARY) -> None:
        """Note that a counted connection from `host` has closed."""
        if place is Place.SPARE:
            self._spare -= 1
            return
        self._open -= 1
        address = address_of(host)
        if address is not None:
            self._by_address[address] -= 1
            if not self._by_address[address]:
                del self._by_address[address]

    def _log(self) -> None:
        now = time.monotonic()
        if now - self._logged >= LOG_SECONDS:
            self._logged = now
            most = [f", {n} of them from {host}" for host, n in self._by_address.most_common(1)]
            logger.warning(
                "too many connections: %d are open%s; new ones get health checks only",
                self._open,
                "".join(most),
            )


def address_of(host: str | None) -> str | None:
    """The address by which connections of `host` are counted: IPv4, or the prefix of IPv6."""
    if host is None or ":" not in host:
        return host
    address = ipaddress.IPv6Address(host.partition("%")[0])
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ipaddress.IPv6Network((address, IPV6_PREFIX), strict=False))
