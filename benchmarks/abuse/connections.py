"""Attacks by endless or slow requests, and by many connections."""

import asyncio

from benchmarks.abuse.harness import LOST, Answers, Attack, Row, Target, answers_of

ATTACKER = "127.0.0.2"
"""The attacker's address. The observer's differs, because limits apply to each address."""

SLOW = 400
HEAD = b"POST /v1/responses HTTP/1.1\r\nHost: localhost\r\n"
PIECE = b"a" * 65536


class Connection:
    """A client's connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def send(self, data: bytes) -> None:
        """Send bytes. Raises OSError if the server has closed the connection."""
        self._writer.write(data)
        await self._writer.drain()

    async def status(self) -> str:
        """Read until the server closes. Returns the first status, `closed`, or the error's type."""
        try:
            answer = await self._reader.read()
            return answer.split(b" ", 2)[1].decode() if answer else "closed"
        except OSError as error:
            return type(error).__name__
        finally:
            self._writer.close()


async def connect(target: Target, data: bytes = b"") -> Connection:
    connection = Connection(
        *await asyncio.open_connection(target.host, target.port, local_addr=(ATTACKER, 0))
    )
    await connection.send(data)
    return connection


def endless(start: bytes, piece: bytes = PIECE) -> Attack:
    """One connection that sends `start` and then pieces, until it is closed or has sent 64 MB."""

    async def attack(target: Target) -> Answers:
        connection = await connect(target, start)
        try:
            for _ in range(64_000_000 // len(piece)):
                await connection.send(piece)
        except OSError:
            pass
        return Answers({await connection.status(): 1})

    return attack


def slow(data: bytes) -> Attack:
    """SLOW connections that send `data` and then wait until the server closes them."""

    async def attack(target: Target) -> Answers:
        connections = [await connect(target, data) for _ in range(SLOW)]
        return await answers_of(connection.status() for connection in connections)

    return attack


async def flood(target: Target) -> Answers:
    """Open three times as many connections as one address may have."""
    connections = await asyncio.gather(*[connect(target) for _ in range(3 * 1024)])
    return await answers_of(connection.status() for connection in connections)


async def pages(target: Target) -> Answers:
    """Send requests as a page of another site would, on up to 16 connections at a time."""
    body = b'{"input": "hi"}'
    lines = b"Origin: https://evil.example\r\nContent-Type: text/plain\r\nConnection: close\r\n"
    request = HEAD + lines + b"Content-Length: %d\r\n\r\n" % len(body) + body
    slots = asyncio.Semaphore(16)

    async def one() -> str:
        async with slots:
            return await (await connect(target, request)).status()

    return await answers_of(one() for _ in range(2000))


async def pipelined(target: Target) -> Answers:
    """Send 100,000 requests on one connection without waiting for an answer."""
    request = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
    connection = await connect(target)
    try:
        for _ in range(100):
            await connection.send(request * 1000)
    except OSError:
        pass
    return Answers({await connection.status(): 1})


CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
TOO_LARGE = LOST | {"431"}

ROWS: tuple[Row, ...] = (
    Row("a header without end", endless(HEAD + b"A: "), TOO_LARGE),
    Row("headers without end", endless(HEAD, b"A: b\r\n" * 10_000), TOO_LARGE),
    Row("a path without end", endless(b"GET /"), TOO_LARGE),
    Row("trailers without end", endless(CHUNKED + b"0\r\nA: "), TOO_LARGE),
    Row("a chunk's extension without end", endless(CHUNKED + b"1;"), TOO_LARGE),
    Row(
        "bytes behind a request without a body",
        endless(b"POST /x HTTP/1.1\r\nHost: localhost\r\n\r\n"),
        LOST | {"404"},
    ),
    Row(f"{SLOW} slow heads", slow(HEAD), frozenset({"408"})),
    Row(f"{SLOW} connections that send nothing", slow(b""), frozenset({"closed"})),
    Row(
        f"{SLOW} slow bodies",
        slow(HEAD + b"Content-Length: 9\r\n\r\n{"),
        frozenset({"408"}),
    ),
    Row(
        "3 x as many connections as one address may have",
        flood,
        frozenset({"503", "closed"}),
    ),
    Row("100,000 requests in one go", pipelined, LOST | {"400"}),
    Row("2,000 requests of another site's page", pages, frozenset({"403"})),
)
