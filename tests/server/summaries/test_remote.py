import asyncio
import json
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import httpx
import pytest

from server.summaries import remote
from server.summaries.base import NoCapacity, SummaryFailed, SummaryUsage
from server.summaries.model import Completion
from server.summaries.prompt import SummaryPrompt
from server.summaries.remote import MOST_BYTES, MOST_CALLS, RemoteModel

PROMPT = SummaryPrompt("Instructions", "Input", {"type": "object"}, 100)
URL = "http://summaries.example/v1"
USAGE = {"prompt_tokens": 7, "completion_tokens": 3}


def answer(text: Any = "{}", **fields: Any) -> httpx.Response:
    return httpx.Response(200, json={"choices": [{"message": {"content": text}}], **fields})


async def complete(
    handler: Callable[[httpx.Request], httpx.Response], key: str | None = None
) -> Completion:
    model = RemoteModel(URL, "guard", key, transport=httpx.MockTransport(handler))
    try:
        return await model.complete(PROMPT)
    finally:
        await model.close()


async def test_a_request_has_the_prompt_and_the_form_of_the_answer() -> None:
    sent: list[httpx.Request] = []

    def handler(request: httpx.Request) -> httpx.Response:
        sent.append(request)
        return answer("text", usage=USAGE)

    assert await complete(handler, "k") == Completion("text", SummaryUsage(7, 3))
    (request,) = sent
    assert str(request.url) == f"{URL}/chat/completions"
    assert request.headers["authorization"] == "Bearer k"
    body = json.loads(request.content)
    assert body["model"] == "guard"
    assert [message["content"] for message in body["messages"]] == ["Instructions", "Input"]
    assert body["response_format"]["json_schema"]["schema"] == {"type": "object"}
    assert body["reasoning_effort"] == "low"
    assert body["store"] is False


async def test_without_a_key_none_is_sent() -> None:
    def handler(request: httpx.Request) -> httpx.Response:
        assert "authorization" not in request.headers
        return answer()

    assert (await complete(handler)).usage == SummaryUsage()


@pytest.mark.parametrize("status", [429, 503])
async def test_a_server_without_capacity_is_busy(status: int) -> None:
    with pytest.raises(NoCapacity):
        await complete(lambda _: httpx.Response(status))


@pytest.mark.parametrize(
    "response",
    [
        httpx.Response(500, text="secret words"),
        httpx.Response(302, headers={"location": "http://elsewhere.example"}),
        httpx.Response(200, text="secret words"),
        httpx.Response(200, text="[" * 100_000),
        httpx.Response(200, json={"choices": []}),
        httpx.Response(200, content=b"x" * (MOST_BYTES + 1)),
        answer(None),
    ],
)
async def test_other_answers_fail_without_their_words(response: httpx.Response) -> None:
    with pytest.raises(SummaryFailed) as failure:
        await complete(lambda _: response)
    assert "secret" not in str(failure.value)


@pytest.mark.parametrize(
    "usage",
    [
        None,
        {},
        {"prompt_tokens": "7", "completion_tokens": 3},
        {"prompt_tokens": 7, "completion_tokens": 1 << 64},
    ],
)
async def test_a_usage_that_cannot_be_read_is_none(usage: Any) -> None:
    assert (await complete(lambda _: answer(usage=usage))).usage == SummaryUsage()


async def test_negative_usage_does_not_count() -> None:
    usage = {"prompt_tokens": -7, "completion_tokens": -3}
    assert (await complete(lambda _: answer(usage=usage))).usage == SummaryUsage()


async def test_a_server_that_cannot_be_reached_fails_without_its_address() -> None:
    def refuse(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError(f"no route to {request.url}")

    with pytest.raises(SummaryFailed, match=r"cannot be reached: ConnectError$"):
        await complete(refuse)


async def test_more_calls_than_there_is_room_for_are_refused() -> None:
    released = asyncio.Event()

    async def wait(_: httpx.Request) -> httpx.Response:
        await released.wait()
        return answer()

    model = RemoteModel(URL, "guard", transport=httpx.MockTransport(wait))
    calls = [asyncio.ensure_future(model.complete(PROMPT)) for _ in range(MOST_CALLS)]
    await asyncio.sleep(0)
    with pytest.raises(NoCapacity):
        await model.complete(PROMPT)
    released.set()
    assert await asyncio.gather(*calls) == [Completion("{}")] * MOST_CALLS
    assert await model.complete(PROMPT) == Completion("{}")
    await model.close()


async def test_a_cancelled_call_leaves_its_connection_to_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    content = answer("text").content

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while await reader.readuntil(b"}"):
                head = b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n"
                writer.write(head % len(content) + content)
        writer.close()

    monkeypatch.setattr(remote, "MOST_CALLS", 1)
    async with await asyncio.start_server(serve, "127.0.0.1") as server:
        port = server.sockets[0].getsockname()[1]
        model = RemoteModel(f"http://127.0.0.1:{port}/v1", "guard")
        for steps in range(80):
            call = asyncio.create_task(model.complete(PROMPT))
            for _ in range(steps):
                await asyncio.sleep(0)
            call.cancel()
            await asyncio.wait({call})
        async with asyncio.timeout(5):
            assert (await model.complete(PROMPT)).text == "text"
        await model.close()
