"""`/v1/responses` over a WebSocket, through the whole application."""

import asyncio
import gc
import json
import threading
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from starlette.types import Message

from adapters.base import GenerationChunk, GenerationRequest
from adapters.errors import EngineDied
from server.errors import APIError
from server.http.bodies import json_body
from server.http.bodies.json_text import load
from server.responses import websocket
from server.responses.lanes import MAX_REQUESTS
from server.responses.websocket import Connection
from server.routes import responses_socket
from server.schemas import base
from server.store.errors import StoreUnavailable
from server.store.responses.base import Store
from server.store.responses.memory import MemoryStore
from server.threads import LARGE

ANSWER = (
    "<|channel|>analysis<|message|>Greet.<|end|>"
    "<|start|>assistant<|channel|>final<|message|>Hello!<|return|>"
)
ENDLESS = {"completion": f"<|channel|>final<|message|>{'more ' * 500}", "delay_ms": 5}


class Socket:
    """A client of the application's socket, at the level of ASGI."""

    def __init__(self, app: Any, headers: dict[str, str]) -> None:
        self._to_app: asyncio.Queue[Message] = asyncio.Queue()
        self._from_app: asyncio.Queue[Message] = asyncio.Queue()
        scope = {
            "type": "websocket",
            "path": "/v1/responses",
            "raw_path": b"/v1/responses",
            "query_string": b"",
            "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
            "subprotocols": [],
            "extensions": {"websocket.http.response": {}},
        }
        self.lost = False
        self.reads = asyncio.Event()
        self.reads.set()
        self.task = asyncio.ensure_future(app(scope, self._next, self._get))
        self._to_app.put_nowait({"type": "websocket.connect"})

    async def until_read(self) -> None:
        """Return when the application has read all messages."""
        async with asyncio.timeout(30):
            await self._to_app.join()

    async def _next(self) -> Message:
        message = await self._to_app.get()
        self._to_app.task_done()
        return message

    async def message(self) -> Message:
        return await self._from_app.get()

    async def _get(self, message: Message) -> None:
        if self.lost:
            raise OSError
        await self._from_app.put(message)
        await self.reads.wait()

    async def receive(self) -> dict[str, Any]:
        message = await self.message()
        assert message["type"] == "websocket.send", message
        event: dict[str, Any] = json.loads(message["text"])
        return event

    def send(self, value: Any) -> None:
        text = value if isinstance(value, str) else json.dumps(value)
        self._to_app.put_nowait({"type": "websocket.receive", "text": text})

    def create(self, **fields: Any) -> None:
        self.send({"type": "response.create", **fields})

    async def turn(self, **fields: Any) -> list[dict[str, Any]]:
        """The events of one turn."""
        self.create(**fields)
        return await self.events()

    async def events(self) -> list[dict[str, Any]]:
        events = [await self.receive()]
        ends = ("response.completed", "response.incomplete", "response.failed")
        while "status" not in events[-1] and events[-1]["type"] not in ends:
            events.append(await self.receive())
        return events

    async def answer(self, **fields: Any) -> dict[str, Any]:
        """The response of one turn."""
        response: dict[str, Any] = (await self.turn(**fields))[-1]["response"]
        return response

    async def error(self, **fields: Any) -> dict[str, Any]:
        """The error of a turn that never began."""
        (event,) = await self.turn(**fields)
        assert event["type"] == "error"
        return event

    async def close(self) -> None:
        self._to_app.put_nowait({"type": "websocket.disconnect", "code": 1000})
        await self.task


@asynccontextmanager
async def connect(app: Any, **headers: str) -> AsyncIterator[Socket]:
    socket = Socket(app.app, headers)
    assert (await socket.message())["type"] == "websocket.accept"
    yield socket
    await socket.close()
    await app.until_idle()


async def test_a_turns_events_are_those_of_a_stream(open_app: Any) -> None:
    async with open_app(ANSWER) as app:
        streamed = await app.post("/v1/responses", {"input": "hi", "stream": True})
        async with connect(app) as socket:
            events = await socket.turn(input="hi")
    kinds = [line[7:] for line in streamed.text.split("\n") if line.startswith("event: ")]
    assert [event["type"] for event in events] == kinds
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    assert events[-1]["response"]["status"] == "completed"


async def test_turns_are_answered_one_after_another(open_app: Any) -> None:
    async with open_app(ANSWER) as app, connect(app) as socket:
        socket.create(input="first")
        socket.create(input="second")
        first, second = await socket.events(), await socket.events()
    ids = [{event["response"]["id"] for event in (turn[0], turn[-1])} for turn in (first, second)]
    assert [len(each) for each in ids] == [1, 1]
    assert ids[0] != ids[1]
    assert "second" in app.prompts[1]


async def test_the_events_of_a_lane_have_its_name(open_app: Any) -> None:
    async with open_app(ANSWER) as app, connect(app) as socket:
        named = await socket.turn(input="hi", stream_id="main")
        error = await socket.error(input="hi", stream_id="main", previous_response_id="resp_1")
        unnamed = await socket.turn(input="hi")
    assert named[-1]["type"] == "response.completed"
    assert {event["stream_id"] for event in [*named, error]} == {"main"}
    assert not any("stream_id" in event for event in unnamed)


async def test_lanes_are_answered_at_the_same_time(open_app: Any) -> None:
    lines = {"prompt_contains": "long", **ENDLESS}, {"completion": ANSWER}
    async with open_app(*lines) as app, connect(app) as socket:
        socket.create(input="long", stream_id="a")
        await app.backend.until_running(1)
        socket.create(input="hi", stream_id="b")
        events = [await socket.receive()]
        while events[-1]["type"] != "response.completed":
            events.append(await socket.receive())
    assert events[-1]["stream_id"] == "b"
    assert {event["stream_id"] for event in events} == {"a", "b"}


async def test_the_name_of_a_lane_is_no_unknown_field(
    open_app: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "server.schemas.base")
    base._note.cache_clear()  # each name is logged once
    async with open_app(ANSWER) as app, connect(app) as socket:
        await socket.turn(input="hi", stream_id="main")
    assert "unknown field" not in caplog.text


async def test_an_error_in_an_answer_has_the_lane_and_the_status(open_app: Any) -> None:
    lines = {"prompt_contains": "nothing else", "completion": ANSWER}
    async with open_app(lines) as app, connect(app) as socket:
        events = await socket.turn(input="hi", stream_id="main")
    (error,) = (event for event in events if event["type"] == "error")
    assert (error["stream_id"], error["status"]) == ("main", 500)


async def test_a_lane_continues_the_unstored_response_of_another(open_app: Any) -> None:
    unstored = {"store": False}
    async with open_app(ANSWER) as app, connect(app) as socket:
        first = await socket.answer(input="one", stream_id="a", **unstored)
        forked = {"previous_response_id": first["id"], **unstored}
        for lane in ("b", "c", "a"):
            again = await socket.answer(input=f"two {lane}", stream_id=lane, **forked)
            assert again["status"] == "completed"
            assert "one" in app.prompts[-1]
        # Lane a remembers its last response only.
        error = await socket.error(input="three", stream_id="b", **forked)
    assert error["error"]["code"] == "previous_response_not_found"


async def test_a_failure_on_one_lane_leaves_the_response_of_another(open_app: Any) -> None:
    unstored = {"store": False}
    async with open_app(ANSWER) as app, connect(app) as socket:
        first = await socket.answer(input="one", stream_id="a", **unstored)
        more = {"previous_response_id": first["id"], **unstored}
        await socket.error(input="two", temperature=9, stream_id="b", **more)
        assert (await socket.answer(input="two", stream_id="c", **more))["status"] == "completed"
        await socket.error(input="two", temperature=9, stream_id="a", **more)
        error = await socket.error(input="two", stream_id="a", **more)
    assert error["error"]["code"] == "previous_response_not_found"


async def test_stream_options_are_accepted(open_app: Any) -> None:
    async with open_app(ANSWER) as app, connect(app) as socket:
        response = await socket.answer(input="hi", stream=True, stream_options={})
    assert response["status"] == "completed"


@pytest.mark.parametrize("store", [True, False])
async def test_a_turn_continues_the_last(open_app: Any, store: bool) -> None:
    async with open_app(ANSWER) as app, connect(app) as socket:
        first = await socket.answer(input="one", store=store)
        more = {"previous_response_id": first["id"], "store": store}
        second = await socket.answer(input="two", **more)
        await socket.answer(input="three", **more | {"previous_response_id": second["id"]})
    assert [word in app.prompts[2] for word in ("one", "two", "three", "Hello!")] == [True] * 4


async def test_an_unstored_response_is_known_to_its_connection_alone(open_app: Any) -> None:
    async with open_app(ANSWER) as app:
        async with connect(app) as socket:
            first = await socket.answer(input="one", store=False)
        assert (await app.client.get(f"/v1/responses/{first['id']}")).status_code == 404
        async with connect(app) as socket:
            error = await socket.error(input="two", previous_response_id=first["id"], store=False)
            assert (await socket.answer(input="one two", store=False))["status"] == "completed"
    assert error["status"] == 400
    assert error["error"]["code"] == "previous_response_not_found"
    assert error["error"]["param"] == "previous_response_id"


async def test_a_stored_response_is_known_to_all_connections(open_app: Any) -> None:
    async with open_app(ANSWER) as app:
        async with connect(app) as socket:
            first = await socket.answer(input="one")
        answer = await app.post(
            "/v1/responses", {"input": "two", "previous_response_id": first["id"]}
        )
    assert answer.status_code == 200


async def test_a_stored_response_that_was_deleted_is_not_continued(open_app: Any) -> None:
    async with open_app(ANSWER) as app, connect(app) as socket:
        first = await socket.answer(input="one")
        assert (await app.client.delete(f"/v1/responses/{first['id']}")).status_code == 200
        error = await socket.error(input="two", previous_response_id=first["id"])
    assert error["error"]["code"] == "previous_response_not_found"


async def test_a_stored_continuation_of_an_unstored_one_can_only_be_retrieved_elsewhere(
    open_app: Any, store: Store
) -> None:
    async with open_app(ANSWER, store=store) as app:
        async with connect(app) as socket:
            first = await socket.answer(input="one", store=False)
            second = await socket.answer(input="two", previous_response_id=first["id"])
            third = await socket.answer(input="three", previous_response_id=second["id"])
        shown = await app.client.get(f"/v1/responses/{third['id']}")
        listed = await app.client.get(f"/v1/responses/{third['id']}/input_items")
        for response in (first, second, third):
            more = {"input": "four", "previous_response_id": response["id"]}
            answer = await app.post("/v1/responses", more)
            assert answer.status_code == 400
            error = answer.json()["error"]
            assert error["code"] == "previous_response_not_found"
            reason = "only the WebSocket that made it could continue it, while it was its last"
            assert (reason in error["message"]) == (response != first)
    assert [word in app.prompts[2] for word in ("one", "two", "three")] == [True] * 3
    assert shown.json() == third
    assert [item["content"][0]["text"] for item in listed.json()["data"]] == ["three"]


async def test_a_record_is_not_rendered_where_the_earlier_turns_are_not_stored(
    open_app: Any, store: Store
) -> None:
    async with open_app(ANSWER, store=store) as app:
        async with connect(app) as socket:
            first = await socket.answer(input="one", store=False)
            second = await socket.answer(input="two", previous_response_id=first["id"])
        path = f"/v1/responses/{second['id']}"
        answer = await app.client.get(path, params={"include[]": "gpt_oss:record"})
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == "include"
    assert "earlier turns" in answer.json()["error"]["message"]


async def test_a_record_that_was_made_is_shown_though_the_earlier_turns_are_not_stored(
    open_app: Any,
) -> None:
    async with open_app(ANSWER) as app:
        async with connect(app) as socket:
            first = await socket.answer(input="one", store=False)
            more = {"previous_response_id": first["id"], "include": ["gpt_oss:record"]}
            second = await socket.answer(input="two", **more)
        path = f"/v1/responses/{second['id']}"
        answer = await app.client.get(path, params={"include[]": "gpt_oss:record"})
    assert answer.json()["gpt_oss:record"] == second["gpt_oss:record"]


async def test_a_failed_continuation_is_forgotten(open_app: Any) -> None:
    lost = {"type": "function_call_output", "call_id": "call_9", "output": "x"}
    async with open_app(ANSWER) as app, connect(app) as socket:
        first = await socket.answer(input="one", store=False)
        more = {"previous_response_id": first["id"], "store": False}
        assert (await socket.error(input=[lost], **more))["status"] == 400
        error = await socket.error(input="two", **more)
    assert error["error"]["code"] == "previous_response_not_found"


async def test_a_failed_response_cannot_be_continued(open_app: Any) -> None:
    lines = [{"prompt_contains": "one", "completion": ANSWER}]
    async with open_app(*lines) as app, connect(app) as socket:
        first = await socket.answer(input="one", store=False)
        app.backend._lines = ()
        more = {"previous_response_id": first["id"], "store": False}
        *_, error = await socket.turn(input="two", **more)
        failed = await socket.receive()
        again = await socket.error(input="two", **more)
    assert (error["type"], error["status"]) == ("error", 500)
    assert failed["type"] == "response.failed"
    assert again["error"]["code"] == "previous_response_not_found"


async def test_an_engine_that_dies_before_its_first_token_is_a_503(open_app: Any) -> None:
    async with open_app(ANSWER) as app, connect(app) as socket:
        app.backend.generate = _died
        *_, error = await socket.turn(input="hi", store=False)
    assert (error["code"], error["status"]) == ("engine_unavailable", 503)


async def _died(request: GenerationRequest) -> AsyncGenerator[GenerationChunk, None]:
    raise EngineDied("it is gone")
    yield


async def test_another_turns_failure_is_not_the_last_responses(open_app: Any) -> None:
    async with open_app(ANSWER) as app, connect(app) as socket:
        first = await socket.answer(input="one", store=False)
        await socket.error(input=[])
        more = {"previous_response_id": first["id"], "store": False}
        assert (await socket.answer(input="two", **more))["status"] == "completed"


async def test_a_response_can_be_prepared_without_a_token(open_app: Any) -> None:
    async with open_app(ANSWER) as app, connect(app) as socket:
        events = await socket.turn(input="one", store=False, generate=False)
        prepared = events[-1]["response"]
        assert app.prompts == []
        more = {"previous_response_id": prepared["id"], "store": False}
        second = await socket.answer(input="two", **more)
    assert [event["type"] for event in events] == [
        "response.created",
        "response.in_progress",
        "response.completed",
    ]
    assert (prepared["output"], prepared["usage"]["total_tokens"]) == ([], 0)
    assert second["status"] == "completed"
    assert "one" in app.prompts[0]


@pytest.mark.parametrize("nothing", [[], "", None])
async def test_a_response_can_be_prepared_without_input(open_app: Any, nothing: Any) -> None:
    options = {"store": False, "instructions": "Be kind."}
    async with open_app(ANSWER) as app, connect(app) as socket:
        prepared = await socket.answer(input=nothing, generate=False, **options)
        more = options | {"previous_response_id": prepared["id"]}
        answer = await socket.answer(input="one", **more)
    assert (prepared["status"], prepared["output"]) == ("completed", [])
    assert answer["status"] == "completed"
    assert "one" in app.prompts[0]


async def test_a_prepared_response_can_be_stored(open_app: Any) -> None:
    async with open_app(ANSWER) as app, connect(app) as socket:
        prepared = await socket.answer(input="one", generate=False)
        answer = await app.client.get(f"/v1/responses/{prepared['id']}")
    assert answer.json()["status"] == "completed"


async def test_a_prepared_response_that_cannot_be_stored_fails(open_app: Any) -> None:
    class Full(MemoryStore):
        async def end(self, stored: Any, events: Any) -> None:
            raise StoreUnavailable("No room.")

    async with open_app(ANSWER, store=Full(), store_patience=0) as app, connect(app) as socket:
        async with asyncio.timeout(30):
            kinds = [event["type"] for event in await socket.turn(input="one", generate=False)]
            failed = await socket.receive()
    assert kinds == ["response.created", "response.in_progress", "error"]
    assert (failed["type"], failed["sequence_number"]) == ("response.failed", 3)


@pytest.mark.parametrize(
    ("message", "param"),
    [
        ("{", None),
        ("3", "event"),
        ({"input": "hi"}, "type"),
        ({"type": "response.unknown"}, "type"),
        ({"type": "response.steer", "input": "hi"}, "previous_response_id"),
        ({"type": "response.steer", "previous_response_id": "resp_1"}, "input"),
        ({"type": "response.create", "input": "hi", "background": True}, "background"),
        ({"type": "response.create", "input": "hi", "generate": "no"}, "generate"),
        ({"type": "response.create", "input": "hi", "temperature": 9}, "temperature"),
    ],
)
async def test_a_bad_message_is_an_error_and_the_connection_goes_on(
    open_app: Any, message: Any, param: str | None
) -> None:
    async with open_app(ANSWER) as app, connect(app) as socket:
        socket.send(message)
        error = await socket.receive()
        assert (await socket.answer(input="hi"))["status"] == "completed"
    assert (error["type"], error["status"]) == ("error", 400)
    assert error["error"]["type"] == "invalid_request_error"
    assert error["error"]["param"] == param
    assert isinstance(error["error"]["code"], str)


async def test_steering_is_refused_with_the_input(open_app: Any) -> None:
    async with open_app(ANSWER) as app, connect(app) as socket:
        first = await socket.answer(input="one", store=False)
        steer = {"previous_response_id": first["id"], "input": [{"role": "user", "content": "two"}]}
        socket.send({"type": "response.steer", **steer})
        failed = await socket.receive()
        # The response can still be continued.
        again = await socket.answer(input="three", previous_response_id=first["id"], store=False)
    assert (failed["type"], failed["steer"]) == ("response.steer.failed", steer)
    assert failed["error"]["code"] == "steering_not_supported"
    assert again["status"] == "completed"


async def test_a_refusal_has_the_status_that_it_has_over_http(open_app: Any) -> None:
    async with open_app(ANSWER) as app, connect(app) as socket:
        error = await socket.error(input="hi", model="absent")
    assert (error["status"], error["error"]["code"]) == (404, "model_not_found")


async def test_the_refusal_of_a_background_response_leads_to_http(open_app: Any) -> None:
    async with open_app(ANSWER) as app, connect(app) as socket:
        error = (await socket.error(input="hi", background=True))["error"]
    assert (error["param"], error["code"]) == ("background", "unsupported_parameter")
    assert "Use HTTP" in error["message"]


async def test_an_unknown_field_is_accepted_and_named_in_the_log(
    open_app: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "server.schemas.base")
    async with open_app(ANSWER) as app, connect(app) as socket:
        response = await socket.answer(input="hi", novel_socket="secret")
    assert response["status"] == "completed"
    assert "unknown field: 'novel_socket'" in caplog.text


async def test_an_unexpected_exception_is_an_error_and_the_connection_continues(
    open_app: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def broken(*_: Any, **__: Any) -> None:
        raise ValueError("a bug")

    async with open_app(ANSWER) as app, connect(app) as socket:
        with monkeypatch.context() as patch:
            patch.setattr(websocket, "create", broken)
            error = await socket.error(input="hi")
        assert (await socket.answer(input="hi"))["status"] == "completed"
    assert (error["status"], error["error"]["code"]) == (500, "server_error")
    assert "bug" not in error["error"]["message"]
    assert "a WebSocket request failed" in caplog.text


async def test_a_refused_request_needs_no_garbage_collection(open_app: Any) -> None:
    def errors() -> int:
        # By type: for `isinstance`, an object of torch warns, and dead proxies raise.
        return sum(issubclass(type(each), APIError) for each in gc.get_objects())

    async with open_app(ANSWER) as app, connect(app) as socket:
        gc.collect()
        gc.disable()
        try:
            before = errors()
            await socket.error(input="hi", model="absent")
            await socket.error(input="hi", stream_id="no name")
            await socket.turn(input="hi")
            assert errors() <= before
        finally:
            gc.enable()


async def test_each_turn_is_a_line_in_the_log(
    open_app: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "server.responses.websocket")
    async with open_app(ANSWER) as app, connect(app) as socket:
        response = await socket.answer(input="secret")
        await socket.error(input=[])
    lines = [record.getMessage().split() for record in caplog.records]
    options = [line for line in lines if line[0] == "WS"]
    assert [line[2] for line in options] == ["completed", "400"]
    assert options[0][4] == response["id"]
    assert "secret" not in caplog.text


async def test_a_full_queue_has_a_retry_after(open_app: Any) -> None:
    async with open_app(ENDLESS, max_running=1, max_waiting=0) as app, connect(app) as busy:
        busy.create(input="hi")
        await busy.receive()
        async with connect_beside(app) as socket:
            error = await socket.error(input="hi")
    assert error["status"] == 429
    assert error["error"]["headers"] == {"Retry-After": "1"}


@asynccontextmanager
async def connect_beside(app: Any) -> AsyncIterator[Socket]:
    """As `connect`, while others are busy."""
    socket = Socket(app.app, {})
    await socket.message()
    yield socket
    await socket.close()


async def test_a_disconnect_frees_the_slot(open_app: Any) -> None:
    async with open_app(ENDLESS) as app:
        async with connect(app) as socket:
            socket.create(input="hi")
            await app.backend.until_running(1)
        await app.backend.until_running(0)


@pytest.mark.parametrize("draining", [False, True])
async def test_a_failed_send_ends_the_connection(open_app: Any, draining: bool) -> None:
    async with open_app(ANSWER) as app, connect(app) as socket:
        socket.lost = True
        if draining:
            app.app.state.context.draining.set()
        else:
            socket.create(input="hi")
        await socket.task


async def test_failed_sends_of_several_lanes_end_the_connection(open_app: Any) -> None:
    async with open_app(ANSWER) as app, connect(app) as socket:
        socket.reads.clear()
        for lane in ("a", "b"):
            socket.create(input="hi", stream_id=lane)
            await socket.receive()
        socket.lost = True
        socket.reads.set()
        await socket.task


async def test_a_send_that_fails_in_the_last_turn_ends_the_connection(open_app: Any) -> None:
    async with open_app(ANSWER) as app, connect(app) as socket:
        await hold(socket)
        app.app.state.context.draining.set()
        socket.lost = True
        socket.reads.set()
        await socket.task


async def test_a_server_that_stops_finishes_the_turn_and_takes_no_other(open_app: Any) -> None:
    slow = {"completion": ANSWER, "delay_ms": 1}
    async with open_app(slow) as app, connect(app) as socket, connect(app) as idle:
        socket.create(input="hi")
        socket.create(input="more")
        await socket.receive()
        app.app.state.context.draining.set()
        *_, last = await socket.events()
        closed = await socket.message()
        assert closed == await idle.message()
    assert last["response"]["status"] == "completed"
    assert (closed["type"], closed["code"]) == ("websocket.close", 1001)
    assert len(app.prompts) == 1


@pytest.fixture
def brief(monkeypatch: pytest.MonkeyPatch) -> None:
    """Connections end at once."""

    class Brief(Connection):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments, lifetime=0)

    monkeypatch.setattr(responses_socket, "Connection", Brief)


@pytest.mark.usefixtures("brief")
@pytest.mark.parametrize("waiting", [0, 3])
async def test_a_connection_ends_after_its_lifetime(open_app: Any, waiting: int) -> None:
    async with open_app(ANSWER) as app, connect(app) as socket:
        for _ in range(waiting):
            socket.create(input="hi")
        error = await socket.receive()
        closed = await socket.message()
    assert (error["type"], error["status"]) == ("error", 400)
    assert error["error"]["code"] == "websocket_connection_limit_reached"
    assert closed["type"] == "websocket.close"


@pytest.mark.usefixtures("brief")
async def test_a_connection_that_ends_while_the_server_stops_is_closed_once(open_app: Any) -> None:
    async with open_app(ANSWER) as app:
        app.app.state.context.draining.set()
        async with connect(app) as socket:
            closed = await socket.message()
    assert closed["type"] == "websocket.close"


async def test_a_connection_needs_a_key(open_app: Any) -> None:
    async with open_app(ANSWER, api_key=("secret",)) as app:
        socket = Socket(app.app, {"authorization": "Bearer wrong"})
        start, text = await socket.message(), await socket.message()
        await socket.close()
        async with connect(app, authorization="Bearer secret") as socket:
            assert (await socket.answer(input="hi"))["status"] == "completed"
    assert start["type"] == "websocket.http.response.start"
    assert start["status"] == 401
    assert json.loads(text["body"])["error"]["code"] == "invalid_api_key"
    assert (b"www-authenticate", b"Bearer") in start["headers"]


async def test_a_page_of_another_origin_is_refused(open_app: Any) -> None:
    async with open_app(ANSWER) as app:
        socket = Socket(app.app, {"origin": "https://evil.example", "host": "localhost:8000"})
        start = await socket.message()
        assert (start["type"], start.get("status")) == ("websocket.http.response.start", 403)
        text = await socket.message()
        await socket.close()
    assert json.loads(text["body"])["error"]["code"] == "origin_not_allowed"


def text(events: list[dict[str, Any]]) -> str:
    return "".join(e["delta"] for e in events if e["type"] == "response.output_text.delta")


async def test_what_waits_for_a_slow_client_is_bounded(open_app: Any) -> None:
    async with open_app(ENDLESS, max_unread=4000) as app, connect(app) as socket:
        socket.reads.clear()
        socket.create(input="hi", store=False)
        await app.backend.until_running(1)
        await app.backend.until_running(0)
        socket.reads.set()
        events: list[dict[str, Any]] = []
        while not events or events[-1]["type"] != "response.failed":
            events.append(await socket.receive())
        assert (events[-2]["code"], events[-2]["status"]) == ("client_too_slow", 408)
        assert [event["sequence_number"] for event in events] == list(range(len(events)))
        assert 0 < len(text(events)) < 500 * len("more ")


async def test_what_is_stored_is_read_back_for_a_slow_client(open_app: Any) -> None:
    words = "more " * 500
    line = {"completion": f"<|channel|>final<|message|>{words}<|return|>"}
    async with open_app(line, max_unread=4000) as app, connect(app) as socket:
        socket.reads.clear()
        socket.create(input="hi")
        await app.backend.until_running(1)
        await app.backend.until_running(0)
        socket.reads.set()
        events = await socket.events()
        again = await socket.answer(
            input="go on", previous_response_id=events[-1]["response"]["id"]
        )
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    assert text(events) == words
    assert again["status"] == "completed"


async def test_a_response_is_not_continued_whose_end_could_not_be_read_back(open_app: Any) -> None:
    class Lost(MemoryStore):
        async def ledger(self, *_: Any, **__: Any) -> Any:
            raise StoreUnavailable("It is gone.")

    long = {"prompt_contains": "two", "completion": f"<|channel|>final<|message|>{'more ' * 500}"}
    lines = long, {"completion": ANSWER}
    async with open_app(*lines, store=Lost(), max_unread=4000) as app, connect(app) as socket:
        first = await socket.answer(input="one", store=False)
        socket.reads.clear()
        socket.create(input="two", previous_response_id=first["id"])
        await app.backend.until_running(1)
        await app.backend.until_running(0)
        socket.reads.set()
        created, *_, lost = await socket.events()
        more = {"previous_response_id": created["response"]["id"], "store": False}
        error = await socket.error(input="three", **more)
    assert (lost["type"], lost["code"]) == ("error", "store_unavailable")
    assert error["error"]["code"] == "previous_response_not_found"


async def hold(socket: Socket) -> None:
    """Begin a turn that does not end before `socket.reads` is set."""
    socket.reads.clear()
    socket.create(input="first", store=False)
    await socket.receive()


async def test_messages_are_read_while_more_wait_than_may(open_app: Any) -> None:
    async with open_app(ANSWER) as app, connect(app) as socket:
        await hold(socket)
        for _ in range(100):
            socket.create(input="hi")
        await socket.until_read()


async def test_messages_beyond_those_that_may_wait_are_refused_in_their_turn(
    open_app: Any,
) -> None:
    async with open_app(ANSWER) as app, connect(app) as socket:
        await hold(socket)
        for _ in range(MAX_REQUESTS + 1):
            socket.create(input="hi", store=False)
        await socket.until_read()
        socket.reads.set()
        answered = [(await socket.events())[-1] for _ in range(MAX_REQUESTS)]
        refused = [await socket.receive() for _ in range(2)]
    assert {event["type"] for event in answered} == {"response.completed"}
    assert [(event["type"], event["status"]) for event in refused] == [("error", 429)] * 2
    assert refused[0]["error"]["code"] == "rate_limit_exceeded"
    assert refused[0]["error"]["headers"] == {"Retry-After": "1"}


async def test_after_refusals_messages_may_wait_again(open_app: Any) -> None:
    async with open_app(ANSWER) as app, connect(app) as socket:
        await hold(socket)
        for _ in range(MAX_REQUESTS):
            socket.create(input="hi", store=False)
        await socket.until_read()
        socket.reads.set()
        await socket.events()
        await socket.receive()  # of the first that waited
        socket.create(input="last", store=False)
        await socket.events()
        ends = [(await socket.events())[-1]["type"] for _ in range(MAX_REQUESTS)]
    assert ends[-2:] == ["error", "response.completed"]
    assert "last" in app.prompts[-1]


async def test_refused_messages_take_no_memory(open_app: Any) -> None:
    async with open_app(ANSWER) as app, connect(app) as socket:
        budget = app.app.state.context.body_budget
        await hold(socket)
        for _ in range(MAX_REQUESTS - 1):
            socket.create(input="hi")
        await socket.until_read()
        used = budget.used
        for _ in range(10):
            socket.create(input="hi")
        await socket.until_read()
        assert budget.used == used > 0


async def test_messages_that_wait_count_as_bodies(open_app: Any) -> None:
    options = {"max_body_bytes": 1000, "max_body_memory": 3000}
    async with open_app(ANSWER, **options) as app, connect(app) as socket:
        await hold(socket)
        for _ in range(5):
            socket.create(input="x" * 900, store=False)
        await socket.until_read()
        socket.reads.set()
        ends = [(await socket.events())[-1] for _ in range(6)]
    codes = [end["error"]["code"] for end in ends if end["type"] == "error"]
    assert codes == ["body_memory_exhausted"] * 2
    assert [end["type"] for end in ends[4:]] == ["error"] * 2


async def test_a_disconnect_is_seen_behind_more_messages_than_may_wait(open_app: Any) -> None:
    async with open_app(ENDLESS) as app:
        async with connect(app) as socket:
            socket.create(input="hi")
            await app.backend.until_running(1)
            for _ in range(2 * MAX_REQUESTS):
                socket.create(input="hi")
        assert len(app.prompts) == 1


async def test_messages_count_as_bodies(open_app: Any) -> None:
    async with open_app(ANSWER, max_body_bytes=1000, max_body_memory=3000) as app:
        budget = app.app.state.context.body_budget
        async with connect(app) as socket:
            assert (await socket.answer(input="x" * 900))["status"] == "completed"
            budget.used += 2500
            refusal = await socket.error(input="x" * 900)
            assert (refusal["status"], refusal["error"]["code"]) == (503, "body_memory_exhausted")
            assert refusal["error"]["headers"] == {"Retry-After": "1"}
            assert (await socket.answer(input="x"))["status"] == "completed"
        assert budget.used == 2500


@pytest.mark.parametrize("size", [1, LARGE + 1], ids=["small", "large"])
async def test_a_large_message_is_read_beside_the_event_loop(
    open_app: Any, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    thread_ids: list[int] = []
    plain = load

    def noted(text: bytes) -> Any:
        thread_ids.append(threading.get_ident())
        return plain(text)

    monkeypatch.setattr(json_body, "load", noted)
    async with open_app(ANSWER) as app, connect(app) as socket:
        response = await socket.answer(input="hi", note="x" * size)
    assert response["status"] == "completed"
    assert (thread_ids == [threading.get_ident()]) is (size == 1)


async def test_a_message_is_bounded_as_a_body_is(open_app: Any) -> None:
    async with open_app(ANSWER) as app, connect(app) as socket:
        error = await socket.error(input=[{}] * 200_000)
        assert (error["status"], error["error"]["code"]) == (400, "body_too_complex")
        assert (await socket.answer(input="hi"))["status"] == "completed"
