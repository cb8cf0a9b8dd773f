"""Clients that take little processor time, so that they do not slow the servers down."""

import asyncio
import json
import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

EVENT = re.compile(rb"data: ")
TEXT = re.compile(rb'"text": ?"[^"]')
"""In a chunk of a completion. The first chunk of some servers has no text."""


class RequestFailed(Exception):
    """A server answered with an error. The message has the path and the answer."""


@dataclass(frozen=True)
class Answer:
    """The raw answer to one request. first, seconds: until its first part, and until its end."""

    content: bytes
    first: float
    seconds: float


@dataclass(frozen=True)
class Usage:
    prompt_tokens: int
    output_tokens: int


async def post(port: int, path: str, body: Any, part: re.Pattern[bytes] = EVENT) -> Answer:
    """Send one request to a server on this machine, and read the streamed answer to its end.

    body: as JSON, or encoded. part: what is found in the answer from its first part on. A plain
    socket takes a tenth of the processor time of httpx. Raises RequestFailed if there is no part.
    """
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    began = time.perf_counter()
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 24)
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    head += f"Connection: close\r\nContent-Length: {len(content)}\r\n\r\n"
    writer.write(head.encode() + content)
    answer = b""
    try:
        while not part.search(answer):
            received = await reader.read(1 << 16)
            if not received:
                raise RequestFailed(f"{path} answered {answer[-600:]!r}")
            answer += received
        first = time.perf_counter() - began
        answer += await reader.read()
    finally:
        writer.close()
    await writer.wait_closed()
    return Answer(answer, first, time.perf_counter() - began)


def usage(answer: Answer) -> Usage:
    """The usage at the end of a streamed answer. Raises RequestFailed without output tokens."""
    names = (rb"(?:prompt|input)_tokens", rb"(?:completion|output)_tokens")
    counts = [re.findall(rb'"%b":\s*(\d+)' % name, answer.content) for name in names]
    if not all(counts) or int(counts[1][-1]) == 0:
        shown = answer.content
        raise RequestFailed(f"no usage in {shown[:300]!r} ... {shown[-600:]!r}")
    return Usage(*(int(found[-1]) for found in counts))


@contextmanager
def batch_scheduling() -> Iterator[None]:
    """Keep this process from running in a server's place after each write of the server."""
    if not hasattr(os, "SCHED_BATCH"):  # on other systems than Linux
        yield
        return
    os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
    try:
        yield
    finally:
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
