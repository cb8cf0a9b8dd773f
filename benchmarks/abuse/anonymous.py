"""Bodies of clients without a key, and of so many with one that they do not fit into memory."""

import asyncio
import itertools
import time
from collections import Counter
from collections.abc import Awaitable, Iterable

import zstandard

from benchmarks.abuse.harness import Attack, Row, Target, post

BOMB = zstandard.compress(bytes(32 * 1024 * 1024))
"""1 KB that is 32 MiB of zeros."""

LONG = b'"' + b"a" * (30 * 1024 * 1024) + b'"'
"""JSON, but of no request."""

API_KEY = ("--api-key", "secret")
KNOWN = "Authorization: Bearer secret"
WRONG = "Authorization: Bearer wrong"
ZSTD = "Content-Encoding: zstd"
MEMORY = 256 * 1024 * 1024
"""What `--max-body-memory` is by default."""

ENTRIES = 14_000
SAMPLE = 500
"""Requests that are timed while few answers are kept for retries, and while many are."""

TOKENIZE = b'{"model":"scripted","prompt":"hi"}'


def at_once(count: int, path: str, body: bytes, *headers: str) -> Attack:
    """The same request on `count` connections, each with an `Idempotency-Key` of its own."""

    async def attack(target: Target) -> str:
        return await _statuses(
            post(target, path, body, f"Idempotency-Key: {number}", *headers)
            for number in range(count)
        )

    return attack


async def _statuses(requests: Iterable[Awaitable[str]]) -> str:
    counts = Counter(await asyncio.gather(*requests))
    return ", ".join(f"{count} x {status}" for status, count in counts.most_common())


async def fill_retries(target: Target) -> str:
    """Have ENTRIES answers kept for retries; how many requests a second at first and at last."""
    reader, writer = await asyncio.open_connection(target.host, target.port)
    keys = itertools.count()

    async def ask(count: int) -> float:
        began = time.perf_counter()
        for key in itertools.islice(keys, count):
            head = [
                "POST /tokenize HTTP/1.1",
                f"Host: {target.host}:{target.port}",
                f"Content-Length: {len(TOKENIZE)}",
                f"Idempotency-Key: {key}",
            ]
            writer.write("\r\n".join([*head, "", ""]).encode() + TOKENIZE)
            answer = (await reader.readuntil(b"\r\n\r\n")).lower()
            assert answer.startswith(b"http/1.1 200"), answer
            length = int(answer.partition(b"content-length: ")[2].split(b"\r\n")[0])
            await reader.readexactly(length)
        return count / (time.perf_counter() - began)

    try:
        first = await ask(SAMPLE)
        await ask(ENTRIES - 2 * SAMPLE)
        last = await ask(SAMPLE)
    finally:
        writer.close()
    return f"{first:.0f} requests/s at first, {last:.0f} with {ENTRIES} answers kept"


ROWS: tuple[Row, ...] = (
    Row("60 zstd bombs to an unknown path", at_once(60, "/nowhere", BOMB, ZSTD)),
    Row("60 zstd bombs without a key", at_once(60, "/v1/responses", BOMB, ZSTD), options=API_KEY),
    Row(
        "60 zstd bombs with a key",
        at_once(60, "/v1/responses", BOMB, ZSTD, KNOWN),
        options=API_KEY,
    ),
    Row(
        "150 bodies of 30 MB with a wrong key at once",
        at_once(150, "/v1/responses", LONG, WRONG),
        options=API_KEY,
    ),
    Row("150 bodies of 30 MB to an unknown path at once", at_once(150, "/nowhere", LONG)),
    Row(
        "150 bodies of 30 MB with a key at once",
        at_once(150, "/v1/responses", LONG, KNOWN),
        memory=MEMORY + 50_000_000,
        options=API_KEY,
    ),
    Row(f"{ENTRIES} answers kept for retries", fill_retries),
)
