"""Limits on connections, in total and per address, and on what each may send."""

import ipaddress
import logging
import time
from collections import Counter
from dataclasses import dataclass

logger = logging.getLogger(__name__)

LOG_SECONDS = 10.0
"""The least time between two log lines about refused connections."""

IPV6_PREFIX = 64
"""Bits of an IPv6 address that identify a host, which usually gets a whole prefix."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits on connections, requests and their headers; times are in seconds.

    connections: open at once, WebSockets included. connections_per_address: open at once from one
    IPv4 address or one /64 prefix of IPv6. requests: processed at once; health checks are exempt.
    head_bytes, head_fields: size of the request line and the headers together. head_seconds: from
    the first byte (or the connection's start) to the end of the headers. body_seconds: time
    without any byte of the body. unread_seconds: time for the rest of a body after its answer was
    sent. closing_seconds: time for the client to read the error before its connection is closed.
    pipelined: requests that wait on a connection while another one is answered.
    """

    connections: int = 4096
    connections_per_address: int = 1024
    requests: int = 2048
    head_bytes: int = 64 * 1024
    head_fields: int = 128
    head_seconds: float = 10.0
    body_seconds: float = 60.0
    unread_seconds: float = 30.0
    closing_seconds: float = 2.0
    pipelined: int = 16


class Connections:
    """Counts the open connections, in all and by the client's address."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._open = 0
        self._by_address: Counter[str] = Counter()
        self._logged = -LOG_SECONDS

    @property
    def open(self) -> int:
        """The number of open connections."""
        return self._open

    def enter(self, host: str | None) -> bool:
        """Count a connection from `host`. Returns False, and does not count it, over a limit.

        host: None for a client without an address (a Unix socket), which counts in total only.
        """
        address = address_of(host)
        if self._open >= self._limits.connections:
            self._log("in all", self._open)
            return False
        if address is not None:
            if self._by_address[address] >= self._limits.connections_per_address:
                self._log("from one address", self._by_address[address])
                return False
            self._by_address[address] += 1
        self._open += 1
        return True

    def leave(self, host: str | None) -> None:
        """Note that a counted connection from `host` has closed."""
        self._open -= 1
        address = address_of(host)
        if address is not None:
            self._by_address[address] -= 1
            if not self._by_address[address]:
                del self._by_address[address]

    def _log(self, where: str, count: int) -> None:
        now = time.monotonic()
        if now - self._logged >= LOG_SECONDS:
            self._logged = now
            logger.warning("new connections are refused: %d are open %s", count, where)


def address_of(host: str | None) -> str | None:
    """The address by which connections of `host` are counted: IPv4, or the prefix of IPv6."""
    if host is None or ":" not in host:
        return host
    address = ipaddress.IPv6Address(host.partition("%")[0])
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ipaddress.IPv6Network((address, IPV6_PREFIX), strict=False))
