"""Connects to checked addresses only.

A guarded backend resolves each host once, requires every address of it to be allowed, and connects
to one of these addresses. TLS, the Host header and the pool still use the name. The check therefore
applies to every connection of a transport, redirects included, and a name server cannot change its
answer between the check and the connection. The backends of httpcore and httpcore2 have the same
interface; `guard_transport` serves both.
"""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from ipaddress import ip_address
from typing import Any, TypeVar

from server.tools.fetch.addresses import Address, literal
from server.tools.fetch.errors import BlockedTarget, FetchTimeout, Unreachable
from server.tools.fetch.urls import FetchPolicy

Resolver = Callable[[str], Awaitable[Sequence[str]]]
"""The addresses of a host name. Raises OSError if it has none."""

T = TypeVar("T")

_MOST_ADDRESSES = 64
_MOST_TRIED = 4
_RESOLVE_SECONDS = 10.0
_MOST_THREADS = 192
"""Of one resolver. A thread cannot be ended: where no name server answers, it may wait for 30
seconds, three times as long as anybody waits for it. The pages' client has 64 connections: even if
all of them wait for such names, one after another, each other name has a thread."""


class SystemResolver:
    """Resolves names as the operating system does, on threads of its own.

    A slow name server then never takes the threads that the rest of the server uses. A thread is
    made where all others wait for an answer.
    """

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(_MOST_THREADS, thread_name_prefix="resolve")

    async def __call__(self, host: str) -> Sequence[str]:
        """The addresses of the host, each once. Raises OSError."""
        found = await asyncio.get_running_loop().run_in_executor(
            self._threads, lambda: socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
        )
        return list(dict.fromkeys(str(entry[4][0]) for entry in found))

    def close(self) -> None:
        """Let the threads end; a resolution that runs is not waited for."""
        self._threads.shutdown(wait=False, cancel_futures=True)


class Guard:
    """Turns a host and a port into the addresses that may be connected to."""

    def __init__(self, policy: FetchPolicy, resolver: Resolver) -> None:
        self._policy = policy
        self._resolver = resolver

    async def addresses(self, host: str, port: int) -> list[str]:
        """The addresses of the host, all of them allowed.

        Raises BlockedTarget, Unreachable, FetchTimeout.
        """
        is_allowed = self._policy.allows_domain(host, port)
        if not is_allowed:
            self._policy.check_port(port)
        found = await self._resolved(host)
        if not (is_allowed or all(map(self._policy.addresses.permits, found))):
            raise BlockedTarget("the address is not public")
        return list(map(str, found))

    async def _resolved(self, host: str) -> list[Address]:
        try:
            address = literal(host)
        except ValueError as error:
            raise BlockedTarget("the host of the URL is not valid") from error
        if address is not None:
            return [address]
        try:
            async with asyncio.timeout(_RESOLVE_SECONDS):
                texts = await self._resolver(host)
            found = [ip_address(text) for text in texts]
        except TimeoutError as error:
            raise FetchTimeout("the name server did not answer in time") from error
        except (OSError, ValueError) as error:
            raise Unreachable("the host name could not be resolved") from error
        if not found or len(found) > _MOST_ADDRESSES:
            raise Unreachable("the host name has no usable address")
        return found


class GuardedBackend:
    """A network backend of httpcore or httpcore2 that connects to what its guard allows.

    inner: the backend that makes the connections.
    """

    def __init__(self, guard: Guard, inner: Any) -> None:
        self._guard = guard
        self._inner = inner

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - the interface of httpcore
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> Any:
        """A stream to one of the host's addresses. Raises BlockedTarget or what `inner` raises."""
        addresses = (await self._guard.addresses(host, port))[:_MOST_TRIED]
        share = None if timeout is None else timeout / len(addresses)
        for address in addresses[:-1]:
            try:
                return await self._inner.connect_tcp(
                    address, port, share, local_address, socket_options
                )
            except BaseException as error:
                if not _is_connect_error(error):
                    raise
        return await self._inner.connect_tcp(
            addresses[-1], port, share, local_address, socket_options
        )

    async def connect_unix_socket(self, *_arguments: Any, **_options: Any) -> Any:
        """Raises BlockedTarget."""
        raise BlockedTarget("sockets of this machine cannot be opened")

    async def sleep(self, seconds: float) -> None:
        """Wait between two attempts."""
        await self._inner.sleep(seconds)


def _is_connect_error(error: BaseException) -> bool:
    """Whether another address may work. The classes of both libraries have these names."""
    return type(error).__name__ in ("ConnectError", "ConnectTimeout")


def guard_transport(transport: T, guard: Guard) -> T:
    """The transport of httpx or httpx2, which from now on makes guarded connections only.

    It must be new and have no proxy. Raises TypeError for another kind of transport.
    """
    pool = getattr(transport, "_pool", None)
    inner = getattr(pool, "_network_backend", None)
    if inner is None or type(pool).__name__ != "AsyncConnectionPool":
        raise TypeError(f"{type(transport).__name__} has no pool that can be guarded")
    pool._network_backend = GuardedBackend(guard, inner)  # type: ignore[union-attr]
    return transport
