"""The lanes of a connection, without the connection."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from server.errors import APIError
from server.http.bodies.budget import Budget, Lease
from server.responses.lanes import MAX_ANSWERS, MAX_LANES, MAX_REQUESTS, Lane, Lanes
from server.threads import LARGE
from tests.waiting import settle


class Answers:
    """Answers that begin when they are asked for, and end when `end` names them."""

    def __init__(self, budget: int) -> None:
        self.lanes = Lanes(self._answer, Lease(Budget(budget)))
        self.begun: list[tuple[str, Lane]] = []
        self._one_more = asyncio.Event()
        self._ends: dict[str, asyncio.Event] = {}
        self.when_refused: Callable[[], None] | None = None

    async def _answer(self, message: bytes | APIError, lane: Lane) -> None:
        name = (message.code or "") if isinstance(message, APIError) else _input(message)
        self.begun.append((name, lane))
        self._one_more.set()
        if isinstance(message, bytes):
            await self._ends.setdefault(name, asyncio.Event()).wait()
        elif self.when_refused is not None:
            refused, self.when_refused = self.when_refused, None
            refused()

    async def until_begun(self, count: int) -> None:
        async with asyncio.timeout(30):
            while len(self.begun) < count:
                self._one_more.clear()
                await self._one_more.wait()

    def take(self, name: str, **fields: Any) -> None:
        self.lanes.take(json.dumps({"input": name, **fields}).encode())
        self._ends[name] = asyncio.Event()

    async def end(self, *names: str) -> None:
        for name in names:
            self._ends[name].set()
        await settle()


def _input(message: bytes) -> str:
    try:
        return str(json.loads(message)["input"])
    except (ValueError, KeyError, TypeError):
        return "?"


@asynccontextmanager
async def serving(budget: int = 1 << 30) -> AsyncIterator[Answers]:
    answers = Answers(budget)
    task = asyncio.ensure_future(answers.lanes.serve())
    yield answers
    task.cancel()
    await asyncio.wait({task})


async def test_a_lane_is_answered_in_order_and_others_meanwhile() -> None:
    async with serving() as answers:
        answers.take("a1", stream_id="a")
        answers.take("a2", stream_id="a")
        answers.take("b1", stream_id="b")
        answers.take("1")
        answers.take("2", stream_id=None)
        await settle()
        assert answers.begun == [("a1", "a"), ("b1", "b"), ("1", None)]
        await answers.end("a1", "1")
    assert answers.begun[3:] == [("a2", "a"), ("2", None)]


@pytest.mark.parametrize("name", ["", "ä", "a b", "a\n", "x" * 257, 3, ["a"]])
async def test_an_invalid_name_is_refused(name: Any) -> None:
    async with serving() as answers:
        answers.take("1", stream_id=name)
        await settle()
    assert answers.begun == [("invalid_stream_id", None)]


@pytest.mark.parametrize(
    "text", [b'{"stream_id"', b'["stream_id"]', b'{"tools": {"stream_id": 3}}', b'"stream_id"']
)
async def test_a_text_without_the_field_has_no_lane(text: bytes) -> None:
    async with serving() as answers:
        answers.lanes.take(text)
        await answers.until_begun(1)
    assert answers.begun == [("?", None)]


@pytest.mark.parametrize("start", [1 << 16, LARGE, 2 * LARGE])
@pytest.mark.parametrize("before", [0, 1, 5, 11])
async def test_the_field_is_found_at_any_place(start: int, before: int) -> None:
    padding = b'{"input": "' + b"x" * (start - before - 14) + b'", '
    async with serving() as answers:
        answers.lanes.take(padding + b'"stream_id": "a"}')
        await answers.until_begun(1)
    ((_, lane),) = answers.begun
    assert lane == "a"


async def fill(answers: Answers) -> None:
    """Give as many lanes a name as may have one."""
    for number in range(MAX_LANES):
        answers.take(f"{number}", stream_id=f"lane-{number}")
        await settle()
        await answers.end(f"{number}")


async def test_so_many_lanes_have_names() -> None:
    async with serving() as answers:
        answers.take("unnamed")
        await answers.end("unnamed")
        await fill(answers)
        answers.take("refused", stream_id="new")
        answers.take("again", stream_id="lane-0")
        await settle()
    assert [lane for _, lane in answers.begun[1:-2]] == [f"lane-{n}" for n in range(MAX_LANES)]
    assert answers.begun[-2:] == [("websocket_stream_limit_reached", "new"), ("again", "lane-0")]


async def test_a_request_that_gets_no_lane_is_refused_after_those_without_a_name() -> None:
    async with serving() as answers:
        await fill(answers)
        answers.take("unnamed")
        answers.take("bad", stream_id="new")
        answers.take("worse", stream_id="")
        await settle()
        assert answers.begun[MAX_LANES:] == [("unnamed", None)]
        await answers.end("unnamed")
    refused = [("websocket_stream_limit_reached", "new"), ("invalid_stream_id", None)]
    assert answers.begun[MAX_LANES + 1 :] == refused


async def test_so_many_requests_are_answered_at_once() -> None:
    async with serving() as answers:
        for number in range(MAX_ANSWERS + 1):
            answers.take(f"{number}", stream_id=f"{number}")
        await settle()
        assert len(answers.begun) == MAX_ANSWERS
        await answers.end("3")
        assert len(answers.begun) == MAX_ANSWERS + 1


async def test_one_request_for_each_lane_may_come_at_once() -> None:
    async with serving() as answers:
        answers.take("unnamed")
        for number in range(MAX_LANES):
            answers.take(f"{number}", stream_id=f"{number}")
        await settle()
        await answers.end("unnamed", *map(str, range(MAX_LANES)))
    assert "rate_limit_exceeded" not in dict(answers.begun)
    assert len(answers.begun) == MAX_LANES + 1


async def test_more_requests_are_refused_after_the_last_that_waits() -> None:
    async with serving() as answers:
        for number in range(MAX_REQUESTS + 2):
            answers.take(f"{number}", stream_id="a")
        await settle()
        await answers.end(*map(str, range(MAX_REQUESTS)))
        answers.take("later", stream_id="a")
        await settle()
    assert answers.begun[-3:] == [("rate_limit_exceeded", None)] * 2 + [("later", "a")]


async def test_requests_that_come_between_refusals_are_refused_too() -> None:
    async with serving() as answers:
        for number in range(1, MAX_REQUESTS):
            answers.take(f"{number}", stream_id="a")
        answers.take("last", stream_id="b")
        answers.take("refused")
        await settle()
        answers.when_refused = lambda: answers.take("refused too")
        await answers.end("last")
    assert answers.begun[-2:] == [("rate_limit_exceeded", None)] * 2


async def test_no_idle_lane_keeps_its_last_request() -> None:
    texts = [json.dumps({"input": "x", "stream_id": f"{n}"}).encode() for n in range(MAX_LANES)]
    references = [sys.getrefcount(text) for text in texts]
    async with serving() as answers:
        for number in range(MAX_LANES):
            answers.lanes.take(texts[number])
        await settle()
        await answers.end("x")
        assert len(answers.begun) == MAX_LANES
        assert [sys.getrefcount(text) for text in texts] == references


async def test_a_request_that_the_budget_refused_is_not_kept_while_its_refusal_waits() -> None:
    async with serving(budget=100) as answers:
        answers.take("first")
        text = b" " * 100
        references = sys.getrefcount(text)
        answers.lanes.take(text)
        assert sys.getrefcount(text) == references


async def test_an_end_waits_for_the_answers_of_all_lanes_and_comes_once() -> None:
    async with serving() as answers:
        answers.take("a1", stream_id="a")
        answers.take("a2", stream_id="a")
        answers.take("b1", stream_id="b")
        await settle()
        ends = {asyncio.ensure_future(answers.lanes.end()) for _ in range(2)}
        await settle()
        await answers.end("a1")
        assert not any(end.done() for end in ends)
        await answers.end("b1")
        assert [end.done() for end in ends].count(True) == 1
        for end in ends:
            end.cancel()
        await asyncio.wait(ends)
    assert answers.begun == [("a1", "a"), ("b1", "b")]


async def test_after_an_end_no_request_is_answered_that_waited_for_a_place() -> None:
    async with serving() as answers:
        for number in range(MAX_ANSWERS + 1):
            answers.take(f"{number}", stream_id=f"{number}")
        await settle()
        ending = asyncio.ensure_future(answers.lanes.end())
        await settle()
        await answers.end(*map(str, range(MAX_ANSWERS)))
        assert len(answers.begun) == MAX_ANSWERS
        assert ending.done()
