"""Large bodies drawn from the schemas, and how long they delay other requests.

How long a request kept the event loop is told in the processor's time of this process: what other
processes take does not count, so that the bound holds on a busy machine too. A thread that computes
hands the interpreter's lock over every 5 ms; a call that does not, or work on the loop itself, adds
all of its time. The bound is wide of the 100 ms that `python -m benchmarks.abuse` holds from
outside: before bodies were bounded, these requests took 0.3 to 20 s.
"""

import asyncio
import gc
import json
import time
from collections.abc import Iterator
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import pytest

from benchmarks.abuse.drawn import ENDPOINTS, FORMS, Drawn, all_places, draw
from server.commands.garbage import COLLECT_AFTER

MOST_SECONDS = 0.25
DRAWS = 25
SIZES = (300_000, 1_000_000, 3_000_000, 8_000_000)
REFUSALS = {400, 404, 413}
FINAL = "<|channel|>final<|message|>Yes.<|return|>"

NAMED = [
    Drawn("/v1/responses", ("input",), "empty objects"),
    Drawn("/v1/responses", ("input",), "numbers"),
    Drawn("/v1/responses", ("input",), "copies"),
    Drawn("/v1/responses", ("input",), "surrogates"),
    Drawn("/v1/responses", ("input", 0, "type"), "one word"),
    Drawn("/v1/responses", ("include",), "numbers"),
    Drawn("/v1/responses", ("client_metadata",), "empty objects"),
    Drawn("/v1/responses", ("reasoning",), "names"),
    Drawn("/v1/responses", ("tools", 0, "description"), "one word"),
    Drawn("/v1/responses", ("prediction",), "depth"),
    Drawn("/v1/chat/completions", ("logit_bias",), "names of texts"),
    Drawn("/v1/chat/completions", ("messages", 2, "tool_calls"), "copies"),
    Drawn("/v1/chat/completions", ("messages",), "copies"),
    Drawn("/v1/completions", ("prompt",), "numbers"),
    Drawn("/v1/conversations", ("items",), "empty objects"),
    Drawn("/v1/conversations", ("items", 0), "names of objects"),
    Drawn("/detokenize", ("tokens",), "ids"),
    Drawn("/tokenize", ("prompt",), "wide"),
]
"""Bodies that a longer run of the benchmark found."""


class EventLoopMonitor:
    """The longest time that the event loop was blocked, in seconds of processor time."""

    longest = 0.0

    async def measure(self) -> None:
        last = time.process_time()
        while True:
            await asyncio.sleep(0.001)
            now = time.process_time()
            self.longest = max(self.longest, now - last)
            last = now


@pytest.fixture
def collections_as_served() -> Iterator[None]:
    """Exclude pytest's own objects from garbage collection, which would take most of the time."""
    gc.collect()
    gc.freeze()
    before = gc.get_threshold()
    gc.set_threshold(COLLECT_AFTER)
    yield
    gc.set_threshold(*before)
    gc.unfreeze()


@pytest.fixture
def open_warm(open_app: Any, collections_as_served: None) -> Any:
    """A warmed-up application, and the monitor of its event loop."""

    @asynccontextmanager
    async def start() -> Any:
        async with open_app(FINAL) as app:
            for path, (_, example) in ENDPOINTS.items():
                await app.post(path, example)
            monitor = EventLoopMonitor()
            measuring = asyncio.ensure_future(monitor.measure())
            yield app, monitor
            measuring.cancel()

    return start


async def longest_block(app: Any, monitor: EventLoopMonitor, drawn: Drawn, size: int) -> float:
    body = drawn.body(size)
    gc.collect()
    await asyncio.sleep(0)
    await asyncio.sleep(0.002)
    monitor.longest = 0.0
    answer = await app.client.post(drawn.path, content=body)
    await asyncio.sleep(0.002)
    assert answer.status_code == 200 or answer.status_code in REFUSALS, drawn
    assert len(answer.content) < 3 * size + 1_000_000, drawn
    return monitor.longest


@pytest.mark.parametrize("seed", range(4))
async def test_no_drawn_body_keeps_others_waiting(open_warm: Any, seed: int) -> None:
    source = Random(seed)
    async with open_warm() as (app, monitor):
        for _ in range(DRAWS):
            drawn, size = draw(source), source.choice(SIZES)
            assert await longest_block(app, monitor, drawn, size) < MOST_SECONDS, (str(drawn), size)


async def test_slow_bodies_found_earlier_keep_no_others_waiting(open_warm: Any) -> None:
    async with open_warm() as (app, monitor):
        for drawn in NAMED:
            assert await longest_block(app, monitor, drawn, SIZES[-1]) < MOST_SECONDS, str(drawn)


@pytest.mark.parametrize("path", ENDPOINTS)
async def test_the_examples_are_what_a_client_may_send(open_app: Any, path: str) -> None:
    async with open_app(FINAL, hosted_tools="none") as app:
        answer = await app.post(path, ENDPOINTS[path][1])
    stored = path.rpartition("/")[2] in ("chatcmpl_none", "conv_none", "items")
    assert answer.status_code == (404 if stored else 200), answer.text


@pytest.mark.parametrize(
    "path", {id(example): path for path, (_, example) in ENDPOINTS.items()}.values()
)
def test_every_value_can_be_drawn_in_every_form(path: str) -> None:
    schema, example = ENDPOINTS[path]
    places = all_places(path)
    assert {(name,) for name in (*schema.model_fields, *example)} <= set(places)
    for place in places:
        for form in FORMS:
            body = Drawn(path, place, form).body(200)
            if form not in ("depth", "surrogates"):
                assert json.loads(body).keys() >= example.keys() - {place[0]}
