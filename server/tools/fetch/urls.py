"""Checks a URL before anything is resolved: scheme, port, credentials, spelling of the host."""

from collections.abc import Container, Iterable
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import httpx

from server.tools.fetch.addresses import AddressPolicy, literal
from server.tools.fetch.errors import BlockedTarget

MOST_URL_CHARACTERS = 8192
PORTS = frozenset({80, 443})
_DEFAULT_PORTS = {"http": 80, "https": 443}
_LOCAL_NAMES = ("localhost", "local", "internal", "localdomain", "home.arpa", "in-addr.arpa")


@dataclass(frozen=True, slots=True)
class AllowedDomain:
    """A domain of the operator's own network, with its subdomains.

    port: the only port beside the usual ones; None for no other.
    """

    name: str
    port: int | None = None

    def covers(self, host: str, port: int) -> bool:
        """Whether it allows the host, on a port that is usual or its own."""
        return is_within(host, self.name) and port in (self.port, 80, 443)


def parse_domains(texts: Iterable[str]) -> tuple[AllowedDomain, ...]:
    """Domains from `NAME` or `NAME:PORT`. Raises ValueError."""
    return tuple(map(_domain, texts))


def _domain(text: str) -> AllowedDomain:
    name, colon, port = text.strip().lower().partition(":")
    name = ascii_host(name).strip(".")
    if not name or (colon and not (port.isdigit() and 0 < int(port) < 65536)):
        raise ValueError(f"{text!r} is not a domain or DOMAIN:PORT")
    return AllowedDomain(name, int(port) if colon else None)


def is_within(host: str, domain: str) -> bool:
    """Whether the host is the domain or one of its subdomains. Case and a final dot are ignored."""
    host, domain = host.lower().removesuffix("."), domain.lower().removesuffix(".")
    return host == domain or host.endswith(f".{domain}")


@dataclass(frozen=True, slots=True)
class FetchPolicy:
    """Which targets may be fetched.

    addresses: the addresses. domains: names whose addresses may be private. ports: the ports.
    """

    addresses: AddressPolicy = field(default_factory=AddressPolicy)
    domains: tuple[AllowedDomain, ...] = ()
    ports: Container[int] = PORTS

    def allows_domain(self, host: str, port: int) -> bool:
        """Whether the operator allows the name with whatever address it has."""
        return any(domain.covers(host, port) for domain in self.domains)

    def check(self, text: str) -> httpx.URL:
        """The URL, without its fragment. Raises BlockedTarget for one that may not be fetched."""
        url = _parsed(text)
        if url.scheme not in _DEFAULT_PORTS:
            raise BlockedTarget("only http and https URLs can be opened")
        if url.userinfo:
            raise BlockedTarget("the URL has a user name or a password")
        host, port = host_of(url), url.port or _DEFAULT_PORTS[url.scheme]
        if not self.allows_domain(host, port):
            self.check_port(port)
            self._check_host(host)
        return url.copy_with(fragment=None)

    def check_port(self, port: int) -> None:
        """Raises BlockedTarget for a port that only some domains may have."""
        if port not in self.ports:
            raise BlockedTarget(f"port {port} is not allowed")

    def _check_host(self, host: str) -> None:
        try:
            address = literal(host)
        except ValueError as error:
            raise BlockedTarget("the host of the URL is not valid") from error
        is_local = any(is_within(host, name) for name in _LOCAL_NAMES)
        if is_local and self.addresses.allowed:
            return  # what it resolves to decides
        if is_local or (address is not None and not self.addresses.permits(address)):
            raise BlockedTarget("the address is not public")


def hostname(url: str) -> str | None:
    """The host that a URL names, on the web as it is resolved; "" if it names none.

    None for a text that is no URL.
    """
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
        return ascii_host(host) if parts.scheme in _DEFAULT_PORTS else host
    except ValueError:
        return None


def ascii_host(name: str) -> str:
    """A host name as it is resolved: in ASCII. Raises ValueError for what cannot be a name."""
    if name.isascii():
        return name
    try:
        return host_of(httpx.URL(scheme="http", host=name))
    except httpx.InvalidURL as error:
        raise ValueError(f"{name!r} is no host name") from error


def host_of(url: httpx.URL) -> str:
    """The host as it is resolved: ASCII, in lower case."""
    return url.raw_host.decode("ascii").lower()


def _parsed(text: str) -> httpx.URL:
    text = text.strip()
    if len(text) > MOST_URL_CHARACTERS:
        raise BlockedTarget("the URL is too long")
    try:
        url = httpx.URL(text)
        host = url.host  # decoded: httpx makes no request to a name that it cannot decode
    except (httpx.InvalidURL, ValueError, TypeError) as error:
        raise BlockedTarget("the URL is not valid") from error
    if url.scheme in _DEFAULT_PORTS and (not host.strip(".[]") or "\\" in text):
        raise BlockedTarget("the URL is not valid")
    return url
