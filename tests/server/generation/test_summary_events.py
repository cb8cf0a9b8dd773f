"""Summaries among the events of answers."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from harmony.messages import Author, DeveloperContent, Message, Role
from server.generation.admission import Admission
from server.generation.answer_spec import AnswerSpec
from server.generation.gateway import Gateway
from server.generation.runs import Run
from server.generation.turn_events import (
    MessageClosed,
    SummaryWritten,
    TextDelta,
    TurnEvent,
)
from server.ids import new_id
from server.summaries.base import SummaryPart, SummaryRequest, SummaryUsage
from tests.sampled import call, final
from tests.server.generation.recorder import Recorder
from tests.server.summaries.reasoning import PARAGRAPH, SHORT, START, thought
from tests.server.tools.hosted import Session, plan, script

QUESTION = Message(Author(Role.USER), "How much?")
StartEngine = Callable[..., Awaitable[Any]]


class Held:
    """A summariser whose parts are written when the test says so."""

    quotes = False

    def __init__(self) -> None:
        self.requests: asyncio.Queue[SummaryRequest] = asyncio.Queue()
        self.results: asyncio.Queue[SummaryPart] = asyncio.Queue()
        self.cancelled = asyncio.Event()
        self.closed = 0

    async def summarise(self, request: SummaryRequest) -> SummaryPart:
        self.requests.put_nowait(request)
        try:
            return await self.results.get()
        except asyncio.CancelledError:
            self.cancelled.set()
            raise

    async def close(self) -> None:
        self.closed += 1


def gateway(engine: Any, summariser: Any, patience: float = 60) -> Gateway:
    return Gateway(engine, Admission(4, 4), summariser=summariser, summary_patience=patience)


async def start(gate: Gateway, *messages: Message, **fields: Any) -> tuple[Run, Recorder]:
    recorder = Recorder()
    sessions = fields.pop("sessions", ())
    asked = replace(plan(*(messages or (QUESTION,))), **{"summary": "auto", **fields})
    return await gate.start(AnswerSpec(asked, recorder, new_id("r"), sessions=sessions)), recorder


def text_of(recorder: Recorder) -> str:
    """The text of all messages."""
    return "".join(each.text for each in recorder.of(TextDelta))


def kinds(events: list[TurnEvent]) -> list[str]:
    return [type(each).__name__ for each in events if not isinstance(each, TextDelta)]


async def test_tokens_flow_while_a_part_is_written(start_engine: StartEngine) -> None:
    """The second paragraph comes during the first part."""
    engine = await start_engine(thought(PARAGRAPH * 2))
    summariser = Held()
    run, recorder = await start(gateway(engine, summariser))
    first = await summariser.requests.get()
    assert first.text == PARAGRAPH
    # The last part is requested at the end of the reasoning, with the first one still unwritten.
    last = await summariser.requests.get()
    assert last.text == PARAGRAPH
    assert text_of(recorder) == PARAGRAPH * 2
    assert not recorder.of(SummaryWritten)
    assert not recorder.of(MessageClosed)
    summariser.results.put_nowait(SummaryPart("one", usage=SummaryUsage(5, 2)))
    summariser.results.put_nowait(SummaryPart("two", usage=SummaryUsage(6, 3)))
    await run.wait()
    assert kinds(recorder.events) == [
        "MessageStarted",
        "SummaryWritten",
        "SummaryWritten",
        "MessageClosed",
        "MessageStarted",
        "MessageClosed",
        "TurnFinished",
    ]
    totals = recorder.finished.summaries
    assert totals is not None
    assert (totals.usage, totals.counts) == (SummaryUsage(11, 5), {"written": 2})


async def test_a_part_is_shown_before_the_reasoning_ends(start_engine: StartEngine) -> None:
    engine = await start_engine(thought(PARAGRAPH + SHORT))
    summariser, released = Held(), asyncio.Event()
    generate = engine.generate

    async def generate_slowly(request: Any) -> AsyncGenerator[Any, None]:
        async for chunk in generate(request):
            if summariser.requests.qsize():
                await released.wait()
            yield chunk

    engine.generate = generate_slowly
    run, recorder = await start(gateway(engine, summariser))
    while not summariser.requests.qsize():  # noqa: ASYNC110 - the queue is not to be taken from
        await asyncio.sleep(0)
    summariser.results.put_nowait(SummaryPart("one"))
    summariser.results.put_nowait(SummaryPart("two"))
    await asyncio.sleep(0)
    released.set()
    await run.wait()
    events = recorder.events
    at = next(i for i, each in enumerate(events) if isinstance(each, SummaryWritten))
    assert isinstance(events[at + 1], TextDelta)
    assert [each.text for each in recorder.of(SummaryWritten)] == ["one", "two"]


async def test_an_answer_that_is_cancelled_cancels_its_summary(start_engine: StartEngine) -> None:
    engine = await start_engine(thought(SHORT))
    summariser = Held()
    gate = gateway(engine, summariser)
    run, _ = await start(gate)
    await summariser.requests.get()
    run.cancel()
    await run.wait()
    await summariser.cancelled.wait()
    await gate.close()
    assert summariser.closed == 1


async def test_late_parts_are_incomplete(start_engine: StartEngine) -> None:
    summariser = Held()
    gate = gateway(await start_engine(thought(SHORT)), summariser, 0.01)
    run, recorder = await start(gate)
    await run.wait()
    await summariser.cancelled.wait()
    assert recorder.of(SummaryWritten) == [SummaryWritten("", complete=False)]
    assert text_of(recorder) == f"{SHORT}Done."
    assert gate.summaries == {"late": 1}


async def test_instructions_and_results_of_tools_are_protected(start_engine: StartEngine) -> None:
    reasoning = f"<|channel|>analysis<|message|>{SHORT}<|end|>{START}"
    engine = await start_engine(*script(reasoning + call("1"), reasoning + final()))
    summariser = Held()
    messages = (
        Message(Author(Role.DEVELOPER), DeveloperContent("Never say the word plugh to a user.")),
        Message(Author(Role.DEVELOPER), DeveloperContent()),
        QUESTION,
        Message(Author(Role.TOOL, "functions.f"), "an earlier xyzzy-4711 result"),
    )
    for _ in range(2):
        summariser.results.put_nowait(SummaryPart("part"))
    session = Session()
    run, _ = await start(gateway(engine, summariser), *messages, sessions=[session])
    await run.wait()
    first, second = summariser.requests.get_nowait(), summariser.requests.get_nowait()
    assert second.earlier == ("part",)
    assert first.sources is second.sources
    for known in ("never say the word plugh", "xyzzy-4711", "result 1"):
        assert first.sources.has_term(known), known
    assert not first.sources.has_term("how much")


async def test_code_on_the_channel_of_reasoning_is_not_summarised(
    start_engine: StartEngine,
) -> None:
    engine = await start_engine(*script(call(f"1 {PARAGRAPH}"), final()))
    summariser = Held()
    run, recorder = await start(gateway(engine, summariser, 0.01), sessions=[Session()])
    await run.wait()
    assert recorder.finished.reason == "stop"
    assert len(engine.requests) == 2
    assert recorder.of(SummaryWritten) == []
    assert summariser.requests.empty()


@pytest.mark.parametrize("tokens", [7, 10_000])
async def test_chunks_of_many_tokens_are_summarised(start_engine: StartEngine, tokens: int) -> None:
    line = {"completion": thought(PARAGRAPH + SHORT), "tokens_per_chunk": tokens}
    summariser = Held()
    run, recorder = await start(gateway(await start_engine(line), summariser))
    first = await summariser.requests.get()
    for _ in range(2):
        summariser.results.put_nowait(SummaryPart("part"))
    await run.wait()
    texts = [first.text]
    while not summariser.requests.empty():
        texts.append(summariser.requests.get_nowait().text)
    assert "".join(texts) == PARAGRAPH + SHORT
    assert len(recorder.of(SummaryWritten)) == len(texts)
    kinds_of_message = kinds(recorder.events)
    assert kinds_of_message.index("SummaryWritten") < kinds_of_message.index("MessageClosed")


@pytest.mark.parametrize("summary", [None, "auto"])
async def test_without_a_summariser_there_are_no_summaries(
    start_engine: StartEngine, summary: Any
) -> None:
    run, recorder = await start(gateway(await start_engine(thought(SHORT)), None), summary=summary)
    await run.wait()
    assert recorder.of(SummaryWritten) == []
    assert recorder.finished.summaries is None
