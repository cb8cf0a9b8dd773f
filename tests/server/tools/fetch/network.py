"""A DNS server, a resolver that asks it, and an HTTP server: real sockets of this machine."""

import asyncio
import socket
import struct
from collections.abc import Awaitable, Callable, Iterable, Sequence
from ipaddress import ip_address
from typing import Any

Handler = Callable[[str, dict[str, str]], Awaitable[bytes] | bytes | None]

PRIVATE = "127.0.0.1"
"""The address that no test without an allowance may reach."""
PUBLIC = "127.0.0.2"
"""Stands for a public address: tests allow it."""


class DnsServer(asyncio.DatagramProtocol):
    """Answers A and AAAA queries over UDP.

    names: the successive answers of each name; the last one is repeated. queries: the names that
    were asked for, with the type of the record.
    """

    def __init__(self, names: dict[str, Sequence[Sequence[str]]]) -> None:
        self.names = {name: list(answers) for name, answers in names.items()}
        self.queries: list[tuple[str, int]] = []
        self._current: dict[str, Sequence[str]] = {}

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def datagram_received(self, data: bytes, address: Any) -> None:
        name, kind, end = _question(data)
        self.queries.append((name, kind))
        if kind == 1:
            answers = self.names.get(name)
            if answers is None:
                self._current.pop(name, None)
            else:
                self._current[name] = answers.pop(0) if len(answers) > 1 else answers[0]
        version = 4 if kind == 1 else 6
        found = [
            ip_address(text).packed
            for text in self._current.get(name, ())
            if ip_address(text).version == version
        ]
        flags = 0x8180 if name in self.names else 0x8183
        header = data[:2] + struct.pack("!HHHHH", flags, 1, len(found), 0, 0)
        records = b"".join(
            b"\xc0\x0c" + struct.pack("!HHIH", kind, 1, 0, len(packed)) + packed for packed in found
        )
        self._transport.sendto(header + data[12:end] + records, address)


def _question(data: bytes) -> tuple[str, int, int]:
    labels, place = [], 12
    while length := data[place]:
        labels.append(data[place + 1 : place + 1 + length].decode())
        place += length + 1
    return ".".join(labels).lower(), struct.unpack("!H", data[place + 1 : place + 3])[0], place + 5


class UdpResolver:
    """Asks one DNS server, as a stub resolver does."""

    def __init__(self, server: tuple[str, int]) -> None:
        self._server = server

    async def __call__(self, host: str) -> Sequence[str]:
        found = [text for kind in (1, 28) for text in await self._ask(host, kind)]
        if not found:
            raise OSError("no such name")
        return found

    async def _ask(self, host: str, kind: int) -> Sequence[str]:
        loop = asyncio.get_running_loop()
        labels = [label.encode() for label in host.rstrip(".").split(".")]
        name = b"".join(bytes([len(label)]) + label for label in labels) + b"\0"
        query = struct.pack("!HHHHHH", 7, 0x100, 1, 0, 0, 0) + name + struct.pack("!HH", kind, 1)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
            client.setblocking(False)
            client.connect(self._server)
            await loop.sock_sendall(client, query)
            return list(_records(await loop.sock_recv(client, 4096), len(query)))


def _records(answer: bytes, start: int) -> Iterable[str]:
    for _ in range(struct.unpack("!H", answer[6:8])[0]):
        size = struct.unpack("!H", answer[start + 10 : start + 12])[0]
        packed = answer[start + 12 : start + 12 + size]
        yield str(ip_address(packed))
        start += 12 + size


class Site:
    """An HTTP/1.1 server. handler: the whole response for a path; hits: the paths, with headers."""

    def __init__(self, handler: Handler) -> None:
        self._handler = handler
        self.hits: list[tuple[str, dict[str, str]]] = []
        self.connections = 0
        self.ended = 0

    @property
    def paths(self) -> list[str]:
        return [path for path, _ in self.hits]

    async def listen(self, addresses: Sequence[str], port: int = 0) -> int:
        """Listen on one port of some addresses; it is the result."""
        self._servers = []
        for address in addresses:
            server = await asyncio.start_server(self._serve, address, port)
            port = server.sockets[0].getsockname()[1]
            self._servers.append(server)
        return port

    async def close(self) -> None:
        for server in self._servers:
            server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                line, *fields = head.decode("latin-1").strip().split("\r\n")
                pairs = (field.split(": ", 1) for field in fields)
                headers = {name.lower(): value for name, value in pairs}
                path = line.split(" ")[1]
                self.hits.append((path, headers))
                answer = self._handler(path, headers)
                if answer is not None and not isinstance(answer, bytes):
                    answer = await answer
                if answer is None:
                    break
                writer.write(answer)
                await writer.drain()
        except (asyncio.CancelledError, asyncio.IncompleteReadError, ConnectionError):
            self.ended += 1
        finally:
            writer.close()


def answer(
    body: bytes | str = b"", status: int = 200, content_type: str = "text/html", **headers: str
) -> bytes:
    """A whole response. An underscore in the name of a header is a hyphen."""
    data = body.encode() if isinstance(body, str) else body
    fields = {"Content-Type": content_type, "Content-Length": str(len(data))}
    fields |= {name.replace("_", "-"): value for name, value in headers.items()}
    lines = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    return f"HTTP/1.1 {status} Reason\r\n{lines}\r\n".encode("latin-1") + data
