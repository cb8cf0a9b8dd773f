"""When parts are requested, and how the answer waits for them."""

import asyncio
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server.summaries.base import (
    NoCapacity,
    SummaryFailed,
    SummaryPart,
    SummaryRequest,
    SummaryUsage,
)
from server.summaries.sources import Sources
from server.summaries.writer import EVERY, LATEST, LEAST, LatePart, SummaryWriter
from tests.waiting import settle

SECONDS = 60.0


class Held:
    """A summariser whose parts are written when the test says so."""

    quotes = False

    def __init__(self) -> None:
        self.requests: list[SummaryRequest] = []
        self.results: list[asyncio.Future[SummaryPart]] = []

    async def summarise(self, request: SummaryRequest) -> SummaryPart:
        self.requests.append(request)
        result = asyncio.get_running_loop().create_future()
        self.results.append(result)
        part: SummaryPart = await result
        return part

    async def close(self) -> None:
        """Nothing to close."""


class Ready(Held):
    """A summariser that writes at once."""

    def __init__(self, *outcomes: SummaryPart | Exception) -> None:
        super().__init__()
        self._outcomes = list(outcomes)

    async def summarise(self, request: SummaryRequest) -> SummaryPart:
        self.requests.append(request)
        outcome = self._outcomes.pop(0) if self._outcomes else SummaryPart(f"{len(self.requests)}")
        if isinstance(outcome, Exception):
            raise outcome
        return outcome


def writer(summariser: Held, *, patience: float = SECONDS) -> SummaryWriter:
    made = SummaryWriter(
        summariser, "auto", Sources(), patience=patience, all_counts=Counter(), name="r"
    )
    made.begin()
    return made


def think(made: SummaryWriter, text: str, tokens: int) -> list[SummaryPart]:
    made.add(text)
    made.count(tokens)
    return made.take()


def texts(parts: Any) -> list[str]:
    return [part.text if isinstance(part, SummaryPart) else "late" for part in parts]


async def test_a_part_is_requested_at_the_end_of_a_paragraph() -> None:
    summariser = Held()
    made = writer(summariser)
    think(made, "one\n\n", EVERY - 1)
    await settle()
    assert summariser.requests == []
    think(made, "two two\n\nthree", 1)
    await settle()
    assert [each.text for each in summariser.requests] == ["one\n\ntwo two\n\n"]
    made.close()


@pytest.mark.parametrize(
    ("text", "requested"),
    [
        ("aa bb\ncc", "aa bb\n"),
        ("aa bb. cc", "aa bb. "),
        ("aa bb cc", "aa bb "),
        ("aabbcc", "aabbcc"),
        ("x\n\n" + "word " * 40, "x\n\n" + "word " * 40),
    ],
)
async def test_a_long_paragraph_is_cut_at_a_line_a_sentence_or_a_word(
    text: str, requested: str
) -> None:
    summariser = Held()
    made = writer(summariser)
    think(made, text, LATEST - 1)
    await settle()
    assert summariser.requests == []
    think(made, "", 1)
    await settle()
    assert [each.text for each in summariser.requests] == [requested]
    made.close()


async def test_parts_come_while_the_model_thinks_and_know_what_came_before() -> None:
    summariser = Held()
    made = writer(summariser)
    assert think(made, "one\n\n", EVERY) == []
    await settle()
    # Only one part is written at a time.
    assert think(made, "two\n\n", EVERY) == []
    await settle()
    assert len(summariser.requests) == 1
    summariser.results[0].set_result(SummaryPart("first", usage=SummaryUsage(3, 2)))
    await settle()
    assert texts(made.take()) == ["first"]
    await settle()
    assert (summariser.requests[1].text, summariser.requests[1].earlier) == ("two\n\n", ("first",))
    assert made.usage == SummaryUsage(3, 2)
    made.close()


async def test_the_last_part_has_the_rest() -> None:
    summariser = Ready()
    made = writer(summariser)
    think(made, "one\n\n", EVERY)
    await settle()
    assert texts(think(made, "two", LEAST)) == ["1"]
    assert texts(await made.end(EVERY + LEAST)) == ["2"]
    assert [each.text for each in summariser.requests] == ["one\n\n", "two"]
    assert made.counts == {"written": 2}


async def test_a_rest_of_a_few_tokens_has_no_part() -> None:
    summariser = Ready()
    made = writer(summariser)
    think(made, "one\n\n", EVERY)
    think(made, "two", LEAST - 1)
    assert texts(await made.end(EVERY + LEAST - 1)) == ["1"]


async def test_reasoning_of_a_few_tokens_has_no_summary() -> None:
    summariser = Ready()
    made = writer(summariser)
    think(made, "one", LEAST - 1)
    assert await made.end(LEAST - 1) == []
    assert summariser.requests == []


async def test_each_message_has_parts_of_its_own() -> None:
    summariser = Ready()
    made = writer(summariser)
    for text in ("one", "two"):
        made.begin()
        think(made, text, LEAST)
        await made.end(LEAST)
    assert [(each.text, each.earlier) for each in summariser.requests] == [
        ("one", ()),
        ("two", ("1",)),
    ]


async def test_what_is_not_there_in_time_is_late() -> None:
    summariser = Held()
    made = writer(summariser, patience=0.01)
    think(made, "one\n\n", EVERY)
    await settle()
    think(made, "two", LEAST)
    assert texts(await made.end(EVERY + LEAST)) == ["late"]
    await settle()
    assert all(result.cancelled() for result in summariser.results)
    assert made.counts == {"late": 2}


async def test_the_patience_is_that_of_the_whole_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    timeouts: list[float] = []
    wait = asyncio.wait

    async def wait_briefly(tasks: Any, *, timeout: float) -> Any:  # noqa: ASYNC109 - as asyncio's
        timeouts.append(timeout)
        return await wait(tasks, timeout=0.01)

    monkeypatch.setattr(asyncio, "wait", wait_briefly)
    made = writer(Held())
    for _ in range(3):
        made.begin()
        think(made, "one", LEAST)
        assert texts(await made.end(LEAST)) == ["late"]
    assert SECONDS == timeouts[0] > timeouts[1] > timeouts[2]


async def test_text_whose_tokens_come_with_its_end_is_summarised() -> None:
    summariser = Ready()
    made = writer(summariser)
    think(made, "one\n\n", EVERY)
    made.add("two")
    assert texts(await made.end(EVERY + LEAST)) == ["1", "2"]


async def test_without_patience_parts_that_need_no_time_are_there() -> None:
    made = writer(Ready(), patience=0)
    think(made, "one", LEAST)
    assert texts(await made.end(LEAST)) == ["1"]


async def test_text_that_was_skipped_is_in_the_next_part() -> None:
    summariser = Ready(NoCapacity())
    made = writer(summariser)
    think(made, "one\n\n", EVERY)
    await settle()
    think(made, "two\n\n", EVERY - 1)
    await settle()
    assert len(summariser.requests) == 1
    think(made, "three\n\n", 1)
    await settle()
    assert [each.text for each in summariser.requests[1:]] == ["one\n\ntwo\n\nthree\n\n"]
    assert texts(made.take()) == ["2"]
    assert made.counts == {"skipped": 1, "written": 1}


async def test_a_last_part_that_is_skipped_is_left_out() -> None:
    made = writer(Ready(NoCapacity()))
    think(made, "one", LEAST)
    assert await made.end(LEAST) == []


@pytest.mark.parametrize("error", [SummaryFailed("no"), RuntimeError("secret words")])
async def test_a_last_part_that_fails_is_late(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    made = writer(Ready(error))
    think(made, "one", LEAST)
    assert texts(await made.end(LEAST)) == ["late"]
    assert made.counts == {"failed": 1}
    assert "request r: a summary failed" in caplog.text
    assert "secret" not in caplog.text


async def test_the_tokens_of_a_failed_part_are_counted() -> None:
    made = writer(Ready(SummaryFailed("no", SummaryUsage(5, 2))))
    think(made, "one", LEAST)
    await made.end(LEAST)
    assert made.usage == SummaryUsage(5, 2)


async def test_withheld_parts_are_counted() -> None:
    made = writer(Ready(SummaryPart("not shown", "copied")))
    think(made, "one", LEAST)
    assert texts(await made.end(LEAST)) == ["not shown"]
    assert made.counts == {"withheld": 1}


async def test_closing_cancels_what_is_being_written() -> None:
    summariser = Held()
    made = writer(summariser)
    think(made, "one\n\n", EVERY)
    await settle()
    made.close()
    await settle()
    assert summariser.results[0].cancelled()


@given(
    st.lists(st.tuples(st.text("ab .\n", max_size=40), st.integers(0, 2 * LATEST)), max_size=30),
    st.lists(st.sampled_from([None, NoCapacity(), SummaryFailed("no")]), max_size=30),
)
def test_every_text_is_summarised_once_in_order(
    pieces: list[tuple[str, int]], failures: list[Exception | None]
) -> None:
    async def play() -> None:
        outcomes: list[Any] = [each or SummaryPart("part") for each in failures]
        summariser = Ready(*outcomes)
        made = writer(summariser)
        shown: list[Any] = []
        for text, tokens in pieces:
            shown += think(made, text, tokens)
            await settle()
        total = sum(tokens for _, tokens in pieces)
        shown += await made.end(total)
        whole = "".join(text for text, _ in pieces)
        succeeded = [
            request.text
            for request, outcome in zip(
                summariser.requests,
                [*outcomes, *[None] * len(summariser.requests)],
                strict=False,
            )
            if not isinstance(outcome, Exception)
        ]
        assert whole.startswith("".join(succeeded)) or "".join(succeeded) in whole
        assert len([each for each in shown if isinstance(each, SummaryPart)]) == len(succeeded)
        assert len([each for each in shown if isinstance(each, LatePart)]) <= 1
        assert total >= LEAST or not shown

    asyncio.run(play())
