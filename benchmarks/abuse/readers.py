"""Clients that request a long stream and do not read it.

An answer has some 15 MB of events, which take about five times as much memory as objects. Answers
are made one after another (`--max-running 1`), so that the memory is that of one answer in progress
and of the bytes that wait for the readers. A later short request is answered once all slots are
free.
"""

import asyncio
import json
import socket
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from benchmarks.abuse.harness import Answers, Row, Target, post, request

READERS = 12
TOKENS = 60_000
MAX_UNREAD = 8 * 1024 * 1024
IN_PROGRESS = 60_000_000
"""Bytes of one answer in progress: all its events as objects, and the interpreter's free memory."""

STATUS_LINE = b"HTTP/1.1 200"
"""As much of an answer as tells its status."""

RESPONSES, CHAT = "/v1/responses", "/v1/chat/completions"
MESSAGES = [{"role": "user", "content": "long"}]
SCRIPT = (
    {
        "prompt_contains": "long",
        "completion": f"<|channel|>final<|message|>{' word' * TOKENS}<|return|>",
    },
    {"completion": "<|channel|>final<|message|>Hello.<|return|>"},
)
UPGRADE = (
    "Connection: Upgrade",
    "Upgrade: websocket",
    "Sec-WebSocket-Version: 13",
    "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==",
)


@dataclass(frozen=True)
class Stalled:
    """A client that has received the status of its answer, and reads no more."""

    client: socket.socket
    status: str


async def stalled(target: Target, method: str, path: str, body: bytes, *headers: str) -> Stalled:
    loop = asyncio.get_running_loop()
    client = socket.socket()
    client.setblocking(False)
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    await loop.sock_connect(client, (target.host, target.port))
    await loop.sock_sendall(client, request(target, method, path, body, *headers))
    line = b""
    while len(line) < len(STATUS_LINE):
        received = await loop.sock_recv(client, len(STATUS_LINE) - len(line))
        if not received:
            break
        line += received
    return Stalled(client, line.partition(b" ")[2].decode() or "closed")


async def short_request(target: Target, clients: Sequence[Stalled]) -> Answers:
    """Send a short request and close the clients. Returns the answers to it and to the clients."""
    messages = [{"role": "user", "content": "short"}]
    body = json.dumps({"model": "scripted", "messages": messages}).encode()
    answer = await post(target, CHAT, body)
    for one in clients:
        one.client.close()
    return Answers(Counter([*(one.status for one in clients), answer]))


async def stall(path: str, fields: dict[str, Any], target: Target) -> Answers:
    """Request the same stream with READERS clients."""
    body = json.dumps({"model": "scripted", "stream": True, **fields}).encode()
    clients = [await stalled(target, "POST", path, body) for _ in range(READERS)]
    return await short_request(target, clients)


async def stall_replays(target: Target) -> Answers:
    """Request the stored events of one response with READERS clients."""
    body = json.dumps({"model": "scripted", "input": "long", "background": True}).encode()
    reader, writer = await asyncio.open_connection(target.host, target.port)
    writer.write(request(target, "POST", RESPONSES, body, "Connection: close"))
    created = json.loads((await reader.read()).partition(b"\r\n\r\n")[2])
    writer.close()
    await short_request(target, ())
    path = f"{RESPONSES}/{created['id']}?stream=true"
    clients = [await stalled(target, "GET", path, b"") for _ in range(READERS)]
    return await short_request(target, clients)


async def stall_sockets(target: Target) -> Answers:
    """Request a response over a WebSocket with READERS clients. Frames are masked with zeros."""
    loop = asyncio.get_running_loop()
    event = {"type": "response.create", "model": "scripted", "input": "long", "store": False}
    text = json.dumps(event).encode()
    frame = bytes([0x81, 0xFE, *len(text).to_bytes(2, "big"), 0, 0, 0, 0]) + text
    clients = []
    for _ in range(READERS):
        one = await stalled(target, "GET", RESPONSES, b"", *UPGRADE)
        while not (await loop.sock_recv(one.client, 4096)).endswith(b"\r\n\r\n"):
            continue
        await loop.sock_sendall(one.client, frame)
        await loop.sock_recv(one.client, 1)
        clients.append(one)
    return await short_request(target, clients)


def _row(name: str, attack: Any, unread: int, *further: str) -> Row:
    """A row. unread: how many bytes may wait for each reader. further: statuses besides 200."""
    return Row(
        f"reads nothing: {name}",
        attack,
        frozenset({"200", *further}),
        memory=IN_PROGRESS + READERS * (unread + 1_000_000),
        options=("--max-running", "1", "--max-unread", str(MAX_UNREAD)),
        script=SCRIPT,
    )


ROWS: tuple[Row, ...] = (
    _row("response that is stored", partial(stall, RESPONSES, {"input": "long"}), 0),
    _row(
        "response that is not stored",
        partial(stall, RESPONSES, {"input": "long", "store": False}),
        MAX_UNREAD,
    ),
    _row("chat completion", partial(stall, CHAT, {"messages": MESSAGES}), MAX_UNREAD),
    _row("response over a WebSocket", stall_sockets, MAX_UNREAD, "101"),
    _row("events of a stored response", stall_replays, 0),
)
