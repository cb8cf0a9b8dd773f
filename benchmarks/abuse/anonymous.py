"""Request bodies from clients without an API key, or too many at once to fit into memory."""

import asyncio
import itertools
import time

import zstandard

from benchmarks.abuse.harness import LOST, Answers, Attack, Row, Target, answers_of, post, request

BOMB = zstandard.compress(bytes(32 * 1024 * 1024))
"""32 MiB of zeros, compressed to 1 KB."""

LONG = b'"' + b"a" * (30 * 1024 * 1024) + b'"'
"""JSON that is no valid request."""

API_KEY = ("--api-key", "secret")
KNOWN = "Authorization: Bearer secret"
WRONG = "Authorization: Bearer wrong"
ZSTD = "Content-Encoding: zstd"
MEMORY = 256 * 1024 * 1024
"""The default of `--max-body-memory`."""

ENTRIES = 14_000
SAMPLE = 500
"""How many requests are timed, with few and with many answers stored for retries."""

TOKENIZE = b'{"model":"scripted","prompt":"hi"}'


def at_once(count: int, path: str, body: bytes, *headers: str) -> Attack:
    """The same request on `count` connections, each with its own `Idempotency-Key`."""

    async def attack(target: Target) -> Answers:
        return await answers_of(
            post(target, path, body, f"Idempotency-Key: {number}", *headers)
            for number in range(count)
        )

    return attack


async def fill_retries(target: Target) -> Answers:
    """Store ENTRIES answers for retries. The note has the rates of the first and the last ones."""
    reader, writer = await asyncio.open_connection(target.host, target.port)
    keys = itertools.count()

    async def request_rate(count: int) -> float:
        start = time.perf_counter()
        for key in itertools.islice(keys, count):
            retried = f"Idempotency-Key: {key}"
            writer.write(request(target, "POST", "/tokenize", TOKENIZE, retried))
            answer = (await reader.readuntil(b"\r\n\r\n")).lower()
            assert answer.startswith(b"http/1.1 200"), answer
            length = int(answer.partition(b"content-length: ")[2].split(b"\r\n")[0])
            await reader.readexactly(length)
        return count / (time.perf_counter() - start)

    try:
        first = await request_rate(SAMPLE)
        await request_rate(ENTRIES - 2 * SAMPLE)
        last = await request_rate(SAMPLE)
    finally:
        writer.close()
    note = f"{first:.0f} requests/s at first, {last:.0f} with {ENTRIES} answers stored"
    return Answers({"200": ENTRIES}, note)


ROWS: tuple[Row, ...] = (
    Row(
        "60 zstd bombs to an unknown path",
        at_once(60, "/nowhere", BOMB, ZSTD),
        frozenset({"404"}),
    ),
    Row(
        "60 zstd bombs without a key",
        at_once(60, "/v1/responses", BOMB, ZSTD),
        frozenset({"401"}),
        options=API_KEY,
    ),
    Row(
        "60 zstd bombs with a key",
        at_once(60, "/v1/responses", BOMB, ZSTD, KNOWN),
        frozenset({"413"}),
        options=API_KEY,
    ),
    Row(
        "150 bodies of 30 MB with a wrong key at once",
        at_once(150, "/v1/responses", LONG, WRONG),
        LOST | {"401"},
        options=API_KEY,
    ),
    Row(
        "150 bodies of 30 MB to an unknown path at once",
        at_once(150, "/nowhere", LONG),
        LOST | {"404"},
    ),
    Row(
        "150 bodies of 30 MB with a key at once",
        at_once(150, "/v1/responses", LONG, KNOWN),
        LOST | {"400", "503"},
        # All bodies have one budget, and one of them is parsed at a time.
        memory=MEMORY + 10 * len(LONG),
        options=API_KEY,
    ),
    Row(f"{ENTRIES} answers stored for retries", fill_retries, frozenset({"200"})),
)
