"""The `openai` package, and any WebSocket client, against the socket of a real server process."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest
from openai import AsyncOpenAI, OpenAI
from openai.lib.responses_websocket import (
    AsyncResponsesWebSocketSession,
    ResponsesWebSocketLimits,
)
from openai.types.responses import ResponseSteerFailedEvent
from websockets.exceptions import ConnectionClosedError, InvalidStatus
from websockets.sync.client import connect

KEY = "secret"
ANSWER = (
    "<|channel|>analysis<|message|>Greet.<|end|>"
    "<|start|>assistant<|channel|>final<|message|>Hello there!<|return|>"
)
CALL = (
    "<|channel|>analysis<|message|>Ask.<|end|>"
    "<|start|>assistant<|channel|>commentary to=functions.weather <|constrain|>json"
    '<|message|>{"city":"Paris"}<|call|>'
)
SCRIPT = [
    {"prompt_contains": "22 degrees", "completion": ANSWER.replace("Hello there", "It is warm")},
    {"prompt_contains": "weather in Paris", "completion": CALL},
    {"prompt_contains": "Say hello", "completion": ANSWER},
]
WEATHER: Any = {
    "type": "function",
    "name": "weather",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
}

LIMITS = ResponsesWebSocketLimits(
    max_lanes=8,
    max_events_per_lane=1000,
    max_events=1000,
    max_bytes_per_lane=1 << 20,
    max_bytes=1 << 20,
)


@pytest.fixture(scope="module")
def base_url(serve: Callable[..., str]) -> str:
    return serve(SCRIPT, "--api-key", KEY, "--max-body-bytes", "100000")


@pytest.fixture(scope="module")
def socket_url(base_url: str) -> str:
    return f"ws{base_url.removeprefix('http')}/responses"


def test_a_tool_round_trip_on_one_connection(base_url: str) -> None:
    client = OpenAI(base_url=base_url, api_key=KEY)
    with client, client.responses.connect() as connection:
        connection.response.create(input="weather in Paris", tools=[WEATHER], store=False)
        first = _answer(connection)
        call = first.output[-1]
        assert (call.type, json.loads(call.arguments)) == ("function_call", {"city": "Paris"})
        result: Any = {
            "type": "function_call_output",
            "call_id": call.call_id,
            "output": "22 degrees",
        }
        connection.response.create(
            input=[result], previous_response_id=first.id, tools=[WEATHER], store=False
        )
        assert _answer(connection).output_text == "It is warm!"


async def test_an_async_connection(base_url: str) -> None:
    async with (
        AsyncOpenAI(base_url=base_url, api_key=KEY) as client,
        client.responses.connect() as connection,
    ):
        await connection.response.create(input="Say hello")
        deltas = []
        async for event in connection:
            if event.type == "response.output_text.delta":
                deltas.append(event.delta)
            if event.type == "response.completed":
                break
    assert "".join(deltas) == "Hello there!"


async def test_a_session_with_lanes(base_url: str) -> None:
    async with (
        AsyncOpenAI(base_url=base_url, api_key=KEY) as client,
        client.responses.connect() as connection,
        AsyncResponsesWebSocketSession(connection, limits=LIMITS) as session,
    ):
        lanes = [session.default, session.lane("one"), session.lane("two")]
        for lane in lanes:
            await lane.send({"type": "response.create", "input": "Say hello", "store": False})
        async with asyncio.timeout(30):
            answers = [await lane.get_final_response() for lane in lanes]
        assert [answer.output_text for answer in answers] == ["Hello there!"] * 3
        fork: Any = {
            "type": "response.create",
            "input": "weather in Paris",
            "tools": [WEATHER],
            "previous_response_id": answers[1].id,
            "store": False,
        }
        await lanes[2].send(fork)
        async with asyncio.timeout(30):
            answer = await lanes[2].get_final_response()
    assert answer.output[-1].type == "function_call"


async def test_a_steered_answer_is_no_error_of_the_next(base_url: str) -> None:
    hello: Any = {"type": "response.create", "input": "Say hello"}
    async with (
        AsyncOpenAI(base_url=base_url, api_key=KEY) as client,
        client.responses.connect() as connection,
        AsyncResponsesWebSocketSession(connection, limits=LIMITS) as session,
        asyncio.timeout(30),
    ):
        lane = session.default
        await lane.send(hello)
        begun: Any = await lane.recv()
        steer: Any = {"type": "response.steer", "input": "Be brief."}
        await lane.send(steer | {"previous_response_id": begun.response.id})
        first = await lane.get_final_response()
        await lane.send(hello)
        failed = await lane.recv()
        second = await lane.get_final_response()
    assert isinstance(failed, ResponseSteerFailedEvent)
    assert (failed.error.code, failed.steer.input) == ("steering_not_supported", "Be brief.")
    assert first.id != second.id
    assert second.output_text == "Hello there!"


def test_an_error_is_an_event_and_the_connection_goes_on(base_url: str) -> None:
    client = OpenAI(base_url=base_url, api_key=KEY)
    with client, client.responses.connect() as connection:
        connection.response.create(input="Say hello", previous_response_id="resp_9")
        event: Any = connection.recv()
        assert (event.type, event.status) == ("error", 400)
        assert event.error.code == "previous_response_not_found"
        connection.response.create(input="Say hello")
        assert _answer(connection).output_text == "Hello there!"


def test_each_event_is_a_message(socket_url: str) -> None:
    headers = {"authorization": f"Bearer {KEY}"}
    with connect(socket_url, additional_headers=headers) as socket:
        socket.send(json.dumps({"type": "response.create", "input": "Say hello"}).encode())
        kinds: list[str] = []
        while not kinds or kinds[-1] != "response.completed":
            kinds.append(json.loads(socket.recv())["type"])
    assert kinds[:2] == ["response.created", "response.in_progress"]


def test_a_connection_without_a_key_is_refused(socket_url: str) -> None:
    with pytest.raises(InvalidStatus) as caught, connect(socket_url):
        pass
    assert caught.value.response.status_code == 401
    assert caught.value.response.headers["www-authenticate"] == "Bearer"


def test_a_message_over_the_limit_closes_the_connection(socket_url: str) -> None:
    headers = {"authorization": f"Bearer {KEY}"}
    with connect(socket_url, additional_headers=headers) as socket:
        socket.send("x" * 100_001)
        with pytest.raises(ConnectionClosedError) as caught:
            socket.recv()
    assert caught.value.rcvd is not None
    assert caught.value.rcvd.code == 1009


def _answer(connection: Any) -> Any:
    """The response that the next events end in."""
    for event in connection:
        if event.type == "response.completed":
            return event.response
    raise AssertionError
