"""Measure what summaries of reasoning cost the users' streams.

    python -m benchmarks.summaries [--streams 16] [--rounds 4] [--seconds 30] [--every 300]

A load of as many streams as there are slots, with more requests in the queue, reasons without end.
In turn, its requests ask for summaries and do not; the engine of all rounds is the same. The output
has the users' tokens per second with and without summaries, first with a full queue and then with
as many free slots as streams. Ratios are medians of the rounds' ratios, of tokens per second and of
tokens per second of processor time, which other load affects less (set OMP_NUM_THREADS=1 for it).

The engine is the transformers backend on a checkpoint with random weights, whose reasoning is
random text without paragraphs: a part is requested every `2 * every` tokens, and its own text is
random JSON. A small `--every` requests more parts than a server does, for slow machines.
"""

import argparse
import asyncio
from contextlib import suppress
from dataclasses import replace

from adapters.local.backend import LocalBackend
from benchmarks.library.backends import local_backend
from benchmarks.library.timing import Rate, Stopwatch, ratio
from demo import checkpoint
from harmony.messages import Author, Channel, Conversation, Message, Role, SystemContent
from harmony.tokenizer import encode_with_control
from harmony.vocab import END
from server.errors import APIError
from server.generation.admission import Admission
from server.generation.answer_spec import AnswerSpec
from server.generation.gateway import Gateway
from server.generation.plan import Constraint, TurnPlan
from server.generation.runs import WireEvent
from server.generation.summary_model import EngineModel
from server.generation.turn_events import TextDelta, TurnEvent
from server.ids import new_id
from server.summaries import writer
from server.summaries.model import ModelSummariser
from server.summaries.policy import Policy

HEADER = tuple(encode_with_control(f"<|channel|>{Channel.ANALYSIS}<|message|>"))
TEXT = rf"start: /(.|\n)*/ <[{END}]>"
PLAN = TurnPlan(
    conversation=Conversation(
        (
            Message(Author(Role.SYSTEM), SystemContent()),
            Message(Author(Role.USER), "How many primes are there below a thousand?"),
        )
    ),
    max_tokens=2000,
    constraint=Constraint(TEXT, prefill=HEADER),
)


class Counting:
    """An outbound that counts the pieces of text, of which a token has at most one."""

    open_item_id: str | None = None
    pieces = 0

    def start(self) -> list[WireEvent]:
        return []

    def push(self, event: TurnEvent) -> list[WireEvent]:
        Counting.pieces += isinstance(event, TextDelta)
        return [{"type": type(event).__name__}]

    def fail(self, error: APIError) -> list[WireEvent]:
        return []

    def cancel(self) -> list[WireEvent]:
        return []


async def use(gateway: Gateway, plan: TurnPlan) -> None:
    """One user, who makes one request after another until cancelled."""
    while True:
        run = await gateway.start(AnswerSpec(plan, Counting(), new_id("bench")))
        try:
            await run.wait()
        finally:
            run.cancel()
            await run.wait()


async def measure(gateway: Gateway, plan: TurnPlan, users: int, seconds: float) -> Rate:
    """The rate of the users' tokens."""
    tasks = [asyncio.create_task(use(gateway, plan)) for _ in range(users)]
    # Until all slots are taken and all prompts are read.
    await asyncio.sleep(seconds / 10)
    pieces, stopwatch = Counting.pieces, Stopwatch()
    await asyncio.sleep(seconds)
    rate = stopwatch.rate(Counting.pieces - pieces)
    for task in tasks:
        task.cancel()
    for task in tasks:
        with suppress(asyncio.CancelledError):
            await task
    return rate


async def compare(
    backend: LocalBackend, slots: int, users: int, rounds: int, seconds: float
) -> None:
    admission = Admission(slots, users)
    summariser = ModelSummariser(EngineModel(backend, admission, masks=True), Policy())
    gateway = Gateway(backend, admission, summariser=summariser, guard=False)
    rates: dict[bool, list[Rate]] = {True: [], False: []}
    for number in range(rounds):
        for asked in (number % 2 == 0, number % 2 == 1):
            plan = replace(PLAN, summary="auto" if asked else None)
            rates[asked].append(await measure(gateway, plan, users, seconds))
    for asked, name in ((True, "with summaries"), (False, "without")):
        print(f"  {name:20} {[round(rate.clock) for rate in rates[asked]]} tokens/s")
    of = ratio(rates[True], rates[False])
    print(f"  ratio of tokens/s    {of.clock:6.3f}\n  ratio of tokens/CPU s{of.processor:6.3f}")
    print(f"  parts                {dict(gateway.summaries)}", flush=True)


async def main(streams: int, rounds: int, seconds: float) -> None:
    most = str(2 * streams)
    async with local_backend(checkpoint.ensure_random(), batch_requests=most) as backend:
        print(f"{streams} streams, full queue", flush=True)
        await compare(backend, streams, 2 * streams, rounds, seconds)
        print(f"{streams} streams, {streams} free slots", flush=True)
        await compare(backend, 2 * streams, streams, rounds, seconds)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--streams", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--every", type=int, default=writer.EVERY)
    options = parser.parse_args()
    writer.EVERY, writer.LATEST = options.every, 2 * options.every
    asyncio.run(main(options.streams, options.rounds, options.seconds))
