"""Measure the duration of the store's operations with a million responses.

    python -m benchmarks.store [--responses N] [--samples N] [--url URL]

Fills an empty database (chains of five responses) or uses one that an earlier run filled. Then it
measures operations on `--samples` random responses: `show` (GET), `get` (reads the whole chain, to
continue it), `ledger` (replays a stream), and `begin` with `end` (stores a new response). The
output has p50 and p99 in milliseconds.
"""

import argparse
import asyncio
import random
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from sqlalchemy import insert

from harmony.messages import Author, Channel, Message, Role
from server.store import rows
from server.store.items import StoredItem
from server.store.responses.base import StoredResponse
from server.store.responses.sql import SqlStore
from server.store.tables import INPUT, OUTPUT, events, items, responses

TURNS = 5
BATCH = 2_000
OWNER = "anyone"
REASONING = "The user wants the weather, so the tool has to be asked for it. " * 6
ANSWER = "It is sunny, with some wind from the west and no rain before the night. " * 4


def main() -> None:
    """Fill, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--responses", type=int, default=1_000_000)
    parser.add_argument("--samples", type=int, default=2_000)
    parser.add_argument("--url", help="a database of the benchmark's; default: a file of its own")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        url = options.url or f"sqlite:///{folder}/store.db"
        asyncio.run(_run(url, options.responses, options.samples))
        if not options.url:
            size = sum(file.stat().st_size for file in Path(folder).iterdir())
            print(f"size: {size / 2**30:.2f} GiB, {size / options.responses:,.0f} bytes a response")


async def _run(url: str, count: int, samples: int) -> None:
    store = SqlStore(url)
    await store.start()
    if await store.show(OWNER, _id(count - 1)) is None:
        started = time.perf_counter()
        for first in range(0, count, BATCH):
            await _fill(store, range(first, min(first + BATCH, count)))
        print(
            f"filled with {count:,} responses in {time.perf_counter() - started:.0f} s", flush=True
        )
    chosen = [_id(random.randrange(count)) for _ in range(samples)]
    await _measure("show", chosen, lambda name: store.show(OWNER, name))
    await _measure("get", chosen, lambda name: store.get(OWNER, name))
    await _measure("ledger", chosen, lambda name: store.ledger(OWNER, name))
    await _measure("begin and end", chosen, lambda name: _make(store, name))
    await store.stop()


async def _measure(
    what: str, chosen: list[str], operation: Callable[[str], Awaitable[object]]
) -> None:
    taken = []
    for name in chosen:
        started = time.perf_counter()
        assert await operation(name) is not None
        taken.append(1000 * (time.perf_counter() - started))
    taken.sort()
    p50, p99 = taken[len(taken) // 2], taken[len(taken) * 99 // 100]
    print(f"{what:14} p50 {p50:6.2f} ms   p99 {p99:6.2f} ms")


async def _make(store: SqlStore, name: str) -> bool:
    made = _response(0)
    new = {**made.response, "id": f"resp_new_{random.getrandbits(128):x}"}
    made = replace(made, response={**new, "previous_response_id": name})
    await store.begin(made)
    await store.end(made, _events(made))
    return True


async def _fill(store: SqlStore, numbers: range) -> None:
    stored_responses = [_response(number) for number in numbers]
    now = time.time()
    async with store.database.writing() as connection:
        await connection.execute(
            insert(responses),
            [rows.response(each) | {"created_at": now} for each in stored_responses],
        )
        item_rows = [
            row
            for each in stored_responses
            for side, part in ((INPUT, each.input), (OUTPUT, each.output))
            for row in await rows.items(each.id, side, part)
        ]
        await connection.execute(insert(items), item_rows)
        await connection.execute(
            insert(events), [await rows.batch(each.id, _events(each)) for each in stored_responses]
        )


def _response(number: int) -> StoredResponse:
    turn = number % TURNS
    question = StoredItem(
        {
            "type": "message",
            "id": f"msg_in_{number:040x}",
            "role": "user",
            "content": [{"type": "input_text", "text": "What is the weather like today?"}],
        }
    )
    reasoning = StoredItem(
        {
            "type": "reasoning",
            "id": f"rs_{number:048x}",
            "status": "completed",
            "summary": [],
            "content": [{"type": "reasoning_text", "text": REASONING}],
        },
        _message(REASONING, Channel.ANALYSIS, number),
    )
    answer = StoredItem(
        {
            "type": "message",
            "id": f"msg_{number:048x}",
            "status": "completed",
            "role": "assistant",
            "content": [{"type": "output_text", "text": ANSWER, "annotations": []}],
        },
        _message(ANSWER, Channel.FINAL, number),
    )
    response: dict[str, Any] = {
        "id": _id(number),
        "object": "response",
        "status": "completed",
        "previous_response_id": _id(number - 1) if turn else None,
        "output": [reasoning.item, answer.item],
    }
    return StoredResponse(OWNER, response, "2026-01-31", (), (question,), (reasoning, answer))


def _message(text: str, channel: Channel, number: int) -> Message:
    tokens = random.Random(number).choices(range(200_000), k=len(text) // 4)
    return Message(Author(Role.ASSISTANT), text, channel, tokens=tuple(tokens))


def _events(stored: StoredResponse) -> list[dict[str, Any]]:
    words = (REASONING + ANSWER).split()
    return [
        {
            "type": "response.output_text.delta",
            "item_id": stored.output[1].item["id"],
            "output_index": 1,
            "content_index": 0,
            "delta": f"{word} ",
            "logprobs": [],
            "sequence_number": number,
        }
        for number, word in enumerate(words)
    ]


def _id(number: int) -> str:
    return f"resp_{number:048x}"


if __name__ == "__main__":
    main()
