"""`/v1/responses` through the whole application, with the scripted engine."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from openai.types.responses import Response

from harmony.tokenizer import decode, encode, encode_with_control

ANSWER = (
    "<|channel|>analysis<|message|>Greet.<|end|>"
    "<|start|>assistant<|channel|>final<|message|>Hello!<|return|>"
)
CALLS = (
    "<|channel|>analysis<|message|>Ask f.<|end|>"
    "<|start|>assistant<|channel|>commentary<|message|>Looking it up.<|end|>"
    "<|start|>assistant<|channel|>commentary to=functions.f <|constrain|>json"
    '<|message|>{"a": 1}<|call|>'
)
TOOL = {"type": "function", "name": "f", "parameters": {"type": "object"}}


def line(completion: str, when: str | None = None, **pace: int) -> dict[str, Any]:
    return {"prompt_contains": when, "completion": completion, **pace}


class Server:
    """The application, and what clients do with responses."""

    def __init__(self, app: Any) -> None:
        self.app: FastAPI = app.app
        self.client: httpx.AsyncClient = app.client
        self._app = app

    @property
    def prompts(self) -> list[str]:
        """Those that the engine received."""
        prompts: list[str] = self._app.prompts
        return prompts

    async def create(self, *, key: str | None = None, **body: Any) -> httpx.Response:
        headers = {"authorization": f"Bearer {key}"} if key else {}
        return await self.client.post("/v1/responses", json={"input": "hi"} | body, headers=headers)

    async def response(self, **body: Any) -> dict[str, Any]:
        answer = await self.create(**body)
        assert answer.status_code == 200, answer.text
        response: dict[str, Any] = answer.json()
        Response.model_validate(response)
        return response

    async def stored(self, response_id: str) -> httpx.Response:
        return await self.client.get(f"/v1/responses/{response_id}")


Serve = Callable[..., AbstractAsyncContextManager[Server]]


@pytest.fixture
def serve(open_app: Any) -> Serve:
    @asynccontextmanager
    async def start(*lines: dict[str, Any], **settings: Any) -> AsyncIterator[Server]:
        async with open_app(*lines, **settings) as app:
            yield Server(app)

    return start


def sse(text: str) -> list[dict[str, Any]]:
    """The stream's events; each `event:` line has to repeat its data's type."""
    *blocks, done, rest = text.split("\n\n")
    assert (done, rest) == ("data: [DONE]", "")
    events = []
    for block in blocks:
        name, data = block.split("\n")
        event = json.loads(data.removeprefix("data: "))
        assert name == f"event: {event['type']}"
        events.append(event)
    return events


async def test_an_answer_is_the_whole_response(serve: Serve) -> None:
    async with serve(line(ANSWER)) as server:
        response = await server.response()
    assert response["status"] == "completed"
    reasoning, message = response["output"]
    assert reasoning["content"] == [{"type": "reasoning_text", "text": "Greet."}]
    assert message["content"][0]["text"] == "Hello!"
    assert response["usage"]["input_tokens"] == len(encode_with_control(server.prompts[0]))
    assert response["usage"]["output_tokens"] == len(encode_with_control(ANSWER))
    assert response["usage"]["output_tokens_details"]["reasoning_tokens"] == len(encode("Greet."))


async def test_a_stream_ends_in_the_response_that_is_stored(serve: Serve) -> None:
    async with serve(line(ANSWER)) as server:
        answer = await server.create(stream=True)
        events = sse(answer.text)
        stored = await server.stored(events[0]["response"]["id"])
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    assert events[-1]["type"] == "response.completed"
    assert events[-1]["response"] == stored.json()


async def test_a_stream_and_an_answer_have_the_same_content(serve: Serve) -> None:
    async with serve(line(CALLS)) as server:
        events = sse((await server.create(stream=True, tools=[TOOL])).text)
        whole = await server.response(tools=[TOOL])

    def without_ids(response: dict[str, Any]) -> Any:
        return [
            {key: value for key, value in item.items() if key not in ("id", "call_id")}
            for item in response["output"]
        ]

    assert without_ids(events[-1]["response"]) == without_ids(whole)


async def test_a_tool_round_trip_repeats_the_sampled_tokens(serve: Serve) -> None:
    async with serve(line(ANSWER, "sunny"), line(CALLS)) as server:
        first = await server.response(tools=[TOOL])
        reasoning, preamble, call = first["output"]
        assert preamble["phase"] == "commentary"
        result = {"type": "function_call_output", "call_id": call["call_id"], "output": "sunny"}
        second = await server.response(
            previous_response_id=first["id"], input=[result], tools=[TOOL]
        )
        question = {"role": "user", "content": "hi"}
        replayed = [question, reasoning, preamble, call, result]
        stateless = await server.response(input=replayed, tools=[TOOL])
    assert second["output"][1]["content"][0]["text"] == "Hello!"
    assert stateless["output"][1]["content"][0]["text"] == "Hello!"
    assert server.prompts[1] == server.prompts[0] + CALLS + (
        "<|start|>functions.f to=assistant<|channel|>commentary<|message|>sunny<|end|>"
        "<|start|>assistant"
    )
    assert server.prompts[2] == server.prompts[1]


async def test_reasoning_is_dropped_after_the_answer(serve: Serve) -> None:
    async with serve(line(ANSWER)) as server:
        first = await server.response()
        await server.response(previous_response_id=first["id"], input="And?")
    assert "Greet." not in server.prompts[1]
    assert "<|channel|>final<|message|>Hello!<|end|>" in server.prompts[1]


async def test_hidden_reasoning_is_stored_for_the_next_turn(serve: Serve) -> None:
    async with serve(line(ANSWER, "sunny"), line(CALLS), raw_reasoning="hide") as server:
        answer = await server.create(tools=[TOOL], stream=True)
        first = sse(answer.text)[-1]["response"]
        result = {
            "type": "function_call_output",
            "call_id": first["output"][2]["call_id"],
            "output": "sunny",
        }
        await server.response(previous_response_id=first["id"], input=[result], tools=[TOOL])
        await server.response(input=["hi", *first["output"], result][1:], tools=[TOOL])
        stored = await server.stored(first["id"])
    assert "Ask f." not in answer.text
    assert "Ask f." not in stored.text
    assert all("<|message|>Ask f.<|end|>" in prompt for prompt in server.prompts[1:])


async def test_a_request_can_hide_its_reasoning(serve: Serve) -> None:
    async with serve(line(ANSWER)) as server:
        hidden = {"exclude": True, "summary": "auto"}
        answer = await server.create(stream=True, reasoning=hidden)
        stored = await server.stored(sse(answer.text)[-1]["response"]["id"])
    assert "Greet." not in answer.text
    assert "Greet." not in stored.text
    assert [item["type"] for item in stored.json()["output"]] == ["reasoning", "message"]
    assert stored.json()["usage"]["output_tokens_details"]["reasoning_tokens"] > 0


async def test_stop_strings_end_the_answer_and_not_the_reasoning(serve: Serve) -> None:
    completion = ANSWER.replace("Greet.", "STOP").replace("Hello!", "Hello STOP you")
    async with serve(line(completion)) as server:
        response = await server.response(stop=["STOP"])
    assert response["status"] == "completed"
    assert response["output"][0]["content"][0]["text"] == "STOP"
    assert response["output"][1]["content"][0]["text"] == "Hello "


async def test_the_token_budget_makes_the_response_incomplete(serve: Serve) -> None:
    async with serve(line(ANSWER)) as server:
        events = sse((await server.create(max_output_tokens=4, stream=True)).text)
        whole = await server.response(max_output_tokens=4)
    for response in (events[-1]["response"], whole):
        assert response["status"] == "incomplete"
        assert response["incomplete_details"] == {"reason": "max_output_tokens"}
        assert response["output"][-1]["status"] == "incomplete"
        assert response["usage"]["output_tokens"] == 4
    assert events[-1]["type"] == "response.incomplete"


async def test_logprobs_come_where_they_are_included(serve: Serve) -> None:
    async with serve(line(ANSWER)) as server:
        bare = await server.response()
        rich = await server.response(include=["message.output_text.logprobs"], top_logprobs=1)
    assert bare["output"][1]["content"][0]["logprobs"] == []
    logprobs = rich["output"][1]["content"][0]["logprobs"]
    assert "".join(entry["token"] for entry in logprobs) == "Hello!"
    assert len(logprobs[0]["top_logprobs"]) == 1


async def test_a_custom_tool_and_a_namespace_come_back_as_the_client_knows_them(
    serve: Serve,
) -> None:
    custom = "<|channel|>commentary to=functions.sql<|message|>select 1<|call|>"
    nested = "<|channel|>commentary to=functions.n__f <|constrain|>json<|message|>{}<|call|>"
    tools = [
        {"type": "custom", "name": "sql"},
        {"type": "namespace", "name": "n", "description": "d", "tools": [TOOL]},
        {"type": "file_search"},
    ]
    async with serve(line(custom, "first"), line(nested)) as server:
        one = await server.response(input="first", tools=tools)
        two = await server.response(tools=tools)
    (call,) = one["output"]
    assert (call["type"], call["name"], call["input"]) == ("custom_tool_call", "sql", "select 1")
    (call,) = two["output"]
    assert (call["type"], call["namespace"], call["name"]) == ("function_call", "n", "f")
    assert one["gpt_oss:unserved_tools"] == ["file_search"]


async def test_an_engine_that_fails_is_a_500(serve: Serve) -> None:
    async with serve(line(ANSWER, "only this")) as server:
        answer = await server.create()
    assert answer.status_code == 500
    assert answer.json()["error"]["type"] == "server_error"


async def test_an_engine_failure_in_a_stream_is_an_event(serve: Serve) -> None:
    async with serve(line(ANSWER, "only this")) as server:
        events = sse((await server.create(stream=True)).text)
        stored = (await server.stored(events[0]["response"]["id"])).json()
    assert [event["type"] for event in events[-2:]] == ["error", "response.failed"]
    assert events[-2]["message"] == events[-2]["error"]["message"]
    assert events[-1]["response"]["status"] == "failed"
    assert stored == events[-1]["response"]


async def test_what_is_not_stored_cannot_be_found(serve: Serve) -> None:
    async with serve(line(ANSWER)) as server:
        response = await server.response(store=False)
        assert (await server.stored(response["id"])).status_code == 404
        answer = await server.create(previous_response_id=response["id"])
    assert answer.status_code == 400
    assert answer.json()["error"]["code"] == "previous_response_not_found"


async def test_a_response_belongs_to_its_key(serve: Serve) -> None:
    async with serve(line(ANSWER), api_key=("one", "two")) as server:
        created = (await server.create(key="one")).json()
        path, client = f"/v1/responses/{created['id']}", server.client
        theirs = {"authorization": "Bearer two"}
        ours = {"authorization": "Bearer one"}
        assert (await client.get(path, headers=theirs)).status_code == 404
        assert (await client.delete(path, headers=theirs)).status_code == 404
        answer = await server.create(key="two", previous_response_id=created["id"])
        assert answer.status_code == 400
        assert (await client.get(path, headers=ours)).json() == created
        assert (await client.get(path)).status_code == 401
        assert (await server.create()).status_code == 401


async def test_a_deleted_response_is_gone(serve: Serve) -> None:
    async with serve(line(ANSWER)) as server:
        response = await server.response()
        path = f"/v1/responses/{response['id']}"
        deleted = await server.client.delete(path)
        assert deleted.json() == {"id": response["id"], "object": "response", "deleted": True}
        assert (await server.client.get(path)).status_code == 404
        assert (await server.client.delete(path)).status_code == 404


async def test_an_unknown_model_is_a_404(serve: Serve) -> None:
    async with serve(line(ANSWER)) as server:
        answer = await server.create(model="gpt-9")
    assert answer.status_code == 404
    assert answer.json()["error"]["code"] == "model_not_found"


@pytest.mark.parametrize(("path", "body"), [("", {}), ("", {"input": []}), ("/compact", {})])
async def test_a_request_without_input_is_refused(
    serve: Serve, path: str, body: dict[str, Any]
) -> None:
    async with serve(line(ANSWER)) as server:
        answer = await server.client.post(
            f"/v1/responses{path}", json={"model": "scripted", **body}
        )
    error = answer.json()["error"]
    assert (answer.status_code, error["param"], error["code"]) == (400, "input", "missing_input")


async def test_a_prompt_that_does_not_fit_names_the_input(serve: Serve) -> None:
    async with serve(line(ANSWER)) as server:
        answer = await server.create(input=" hi" * 140_000)
    assert answer.status_code == 400
    assert answer.json()["error"]["code"] == "context_length_exceeded"
    assert answer.json()["error"]["param"] == "input"


async def test_truncation_drops_the_oldest_turns(serve: Serve) -> None:
    long = {"role": "user", "content": " hi" * 140_000}
    short = {"role": "user", "content": "short"}
    async with serve(line(ANSWER)) as server:
        answer = await server.create(input=[long, short], truncation="auto")
    assert (answer.status_code, answer.json()["truncation"]) == (200, "auto")
    (prompt,) = server.prompts
    assert "short" in prompt
    assert " hi hi" not in prompt


async def test_reasoning_of_all_turns_stays_on_request(serve: Serve) -> None:
    async with serve(line(ANSWER)) as server:
        first = (await server.create(input="hi")).json()
        more = {"previous_response_id": first["id"], "reasoning": {"context": "all_turns"}}
        second = await server.create(input="again", **more)
    assert second.json()["reasoning"]["context"] == "all_turns"
    assert "analysis<|message|>Greet.<|end|>" in server.prompts[1]


async def test_unsupported_input_is_refused_if_configured(serve: Serve) -> None:
    image = [{"role": "user", "content": [{"type": "input_image", "image_url": "x"}]}]
    async with serve(line(ANSWER), unsupported_input="error") as server:
        answer = await server.create(input=image)
    assert answer.status_code == 400
    assert answer.json()["error"]["code"] == "unsupported_input"


async def test_a_bad_body_is_a_400_that_names_the_field(serve: Serve) -> None:
    async with serve(line(ANSWER)) as server:
        answer = await server.create(input=[{"role": "user", "content": [{"type": "blob"}]}])
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == "input.0.content.0.type"


async def disconnect_after_first_output(app: FastAPI, **body: Any) -> bytes:
    """Post a request, and leave once the first part of the answer is there (or at once)."""
    sent: list[bytes] = []
    disconnected = asyncio.Event()
    messages = [{"type": "http.request", "body": json.dumps({"input": "hi"} | body).encode()}]
    if not body.get("stream"):
        disconnected.set()

    async def receive() -> Any:
        if messages:
            return messages.pop()
        await disconnected.wait()
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        sent.append(message.get("body", b""))
        if b"delta" in sent[-1]:
            disconnected.set()

    scope = {"type": "http", "method": "POST", "path": "/v1/responses", "headers": []}
    await app(scope | {"query_string": b"", "asgi": {"version": "3.0"}}, receive, send)
    return b"".join(sent)


@pytest.mark.parametrize("stream", [True, False])
async def test_a_disconnect_frees_the_slot(serve: Serve, stream: bool) -> None:
    endless = ANSWER.replace("Hello!", "Hello! " * 2000)
    async with serve(line(endless, delay_ms=5)) as server:
        gateway = server.app.state.context.gateway
        async with asyncio.timeout(60):
            received = await disconnect_after_first_output(server.app, stream=stream)
            await gateway.runs.wait()
            await asyncio.sleep(0)
        assert gateway.admission.admitted == 0
        assert b"response.completed" not in received
        if stream:
            created = json.loads(received.split(b"\n")[1].removeprefix(b"data: "))
            stored = (await server.stored(created["response"]["id"])).json()
            assert stored["status"] == "cancelled"
            Response.model_validate(stored)


async def test_token_ids_are_returned_on_request(serve: Serve) -> None:
    async with serve(line(ANSWER)) as server:
        told = await server.response(return_token_ids=True)
        untold = await server.response()
    assert decode(told["prompt_token_ids"]) == server.prompts[0]
    assert decode(told["token_ids"]) == ANSWER
    assert not {"prompt_token_ids", "token_ids"} & untold.keys()


async def test_a_record_has_the_tokens_and_how_they_were_sampled(serve: Serve) -> None:
    script = {**line(ANSWER), "logprobs": {".": {".": -0.5, "!": -1}}}
    async with serve(script, constrain="always") as server:
        fields = {"include": ["gpt_oss:record"], "top_logprobs": 2, "max_output_tokens": 99}
        response = await server.response(**fields)
        plain = await server.response()
    record = response["gpt_oss:record"]
    assert record["recorded"]
    assert decode(record["prompt_token_ids"]) == server.prompts[0]
    assert decode(record["token_ids"]) == ANSWER
    (sampling,) = record["samplings"]
    count = len(record["token_ids"])
    assert (sampling["start"], sampling["end"], sampling["max_tokens"]) == (0, count, 99)
    assert sampling["prompt_tokens"] == response["usage"]["input_tokens"]
    assert sampling["grammar"].startswith("%llguidance")
    assert sorted(sampling["token_ms"]) == sampling["token_ms"]
    assert len(sampling["token_ms"]) == len(sampling["logprobs"]) == count
    # Not of the final message alone.
    first = encode(".")[0]
    place = record["token_ids"].index(first)
    expected = {"logprob": -0.5, "top": [[first, -0.5], [encode("!")[0], -1.0]]}
    assert sampling["logprobs"][place] == expected
    assert record["calls"] == []
    assert "gpt_oss:record" not in plain


async def test_a_record_is_refused_if_reasoning_is_hidden(serve: Serve) -> None:
    async with serve(line(ANSWER), raw_reasoning="hide") as server:
        answer = await server.create(include=["gpt_oss:record"])
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == "include"
    assert answer.json()["error"]["code"] == "raw_reasoning_hidden"


async def test_token_ids_are_refused_if_reasoning_is_hidden(serve: Serve) -> None:
    async with serve(line(ANSWER), raw_reasoning="hide") as server:
        answer = await server.create(return_token_ids=True)
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == "return_token_ids"
