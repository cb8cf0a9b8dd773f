"""MCP servers through openai-python: real servers as processes, approvals, secrets."""

import json
import sqlite3
from typing import Any

import openai
import pytest
from openai import OpenAI

from tests.clients.mcp_service import (
    ARGUMENTS,
    BEARER,
    OPERATORS,
    SECRET,
    Service,
    service,
    start_tools,
)

__all__ = ["service", "start_tools"]  # fixtures

TOOL: Any = {
    "type": "mcp",
    "server_label": "tools",
    "headers": {"x-token": SECRET},
    "authorization": BEARER,
}
RECORD = {"include[]": "gpt_oss:record"}
FREE: Any = {**TOOL, "require_approval": "never"}


def ask(client: OpenAI, **fields: Any) -> Any:
    given: dict[str, Any] = {"model": "scripted", "input": "1 + 2?", "tools": [TOOL], **fields}
    if not given.pop("streamed", False):
        return client.responses.create(**given)
    with client.responses.stream(**given) as stream:
        for _ in stream:
            pass
        return stream.get_final_response()


def types(response: Any) -> list[str]:
    return [item.type for item in response.output]


def approval(response: Any, approve: bool = True, **fields: Any) -> dict[str, Any]:
    return {
        "type": "mcp_approval_response",
        "approval_request_id": response.output[-1].id,
        "approve": approve,
        **fields,
    }


def sent_back(response: Any) -> list[Any]:
    return [item.model_dump(exclude_none=True) for item in response.output]


def test_a_call_without_approval_runs_within_the_answer(service: Service) -> None:
    response = ask(service.client, tools=[FREE])
    assert types(response) == ["mcp_list_tools", "reasoning", "mcp_call", "message"]
    call = response.output[2]
    assert (call.server_label, call.name, call.arguments) == ("tools", "add", ARGUMENTS)
    assert (call.output, call.error, call.approval_request_id) == ("3", None, None)
    assert response.output_text == "It is 3."


def test_the_events_of_a_call(service: Service) -> None:
    stream = service.client.responses.create(
        model="scripted", input="1 + 2?", tools=[FREE], stream=True
    )
    about = [event.type for event in stream if "mcp" in event.type]
    deltas = about.count("response.mcp_call_arguments.delta")
    assert deltas > 1
    assert [each for each in about if not each.endswith("delta")] == [
        "response.mcp_list_tools.in_progress",
        "response.mcp_list_tools.completed",
        "response.mcp_call.in_progress",
        "response.mcp_call_arguments.done",
        "response.mcp_call.completed",
    ]


@pytest.mark.parametrize("streamed", [False, True])
def test_an_approval_over_previous_response_id(service: Service, streamed: bool) -> None:
    asked = ask(service.client, streamed=streamed)
    assert types(asked) == ["mcp_list_tools", "reasoning", "mcp_approval_request"]
    assert asked.status == "completed"
    request = asked.output[-1]
    assert (request.name, request.arguments, request.server_label) == ("add", ARGUMENTS, "tools")

    answer = ask(
        service.client,
        input=[approval(asked)],
        previous_response_id=asked.id,
        streamed=streamed,
    )
    assert types(answer) == ["mcp_call", "message"]
    assert answer.output[0].approval_request_id == request.id
    assert answer.output[0].output == "3"
    assert answer.output_text == "It is 3."


def test_the_record_of_an_answer_to_an_approval_can_be_rendered(service: Service) -> None:
    records = []
    for include in (["gpt_oss:record"], []):
        asked = ask(service.client)
        answer = ask(
            service.client, input=[approval(asked)], previous_response_id=asked.id, include=include
        )
        shown: Any = service.client.responses.retrieve(answer.id, extra_query=RECORD)
        records.append(shown.model_extra["gpt_oss:record"])
    made, rendered = records
    assert (made["recorded"], rendered["recorded"]) == (True, False)
    for name in ("prompt_token_ids", "token_ids"):
        assert rendered[name] == made[name]
    places = [[(s["start"], s["end"]) for s in record["samplings"]] for record in records]
    assert places[0] == places[1]


@pytest.mark.parametrize("streamed", [False, True])
def test_an_approval_of_an_answer_that_is_not_stored(service: Service, streamed: bool) -> None:
    asked = ask(service.client, store=False, streamed=streamed)
    history: list[Any] = [{"role": "user", "content": "1 + 2?"}, *sent_back(asked)]
    history.append(approval(asked))
    answer = ask(service.client, input=history, store=False, streamed=streamed)
    assert types(answer) == ["mcp_call", "message"]

    # The client sends everything again: the approval is history now.
    history += [*sent_back(answer), {"role": "user", "content": "Sure?"}]
    assert ask(service.client, input=history, store=False).output_text == "It is 3."


def test_an_approval_with_all_stored_items_sent_again(service: Service) -> None:
    asked = ask(service.client)
    history: list[Any] = [{"role": "user", "content": "1 + 2?"}, *sent_back(asked)]
    answer = ask(service.client, input=[*history, approval(asked)])
    assert types(answer) == ["mcp_call", "message"]
    changed = [*history[:-1], {**history[-1], "arguments": '{"a":1,"b":3}'}]
    with pytest.raises(openai.BadRequestError) as error:
        ask(service.client, input=[*changed, approval(asked)])
    assert error.value.code == "approval_request_not_found"
    with pytest.raises(openai.BadRequestError) as error:
        ask(service.client, input=[*history, approval(asked)])
    assert error.value.code == "approval_request_answered"


@pytest.mark.parametrize("stored", [False, True])
def test_the_model_reads_why_a_call_was_refused(service: Service, stored: bool) -> None:
    asked = ask(service.client, store=stored)
    history: list[Any] = [{"role": "user", "content": "1 + 2?"}, *sent_back(asked)]
    refused = approval(asked, approve=False, reason="too easy")
    fields = (
        {"input": [refused], "previous_response_id": asked.id}
        if stored
        else {"input": [*history, refused], "store": False}
    )
    answer = ask(service.client, **fields)
    assert types(answer) == ["message"]
    assert answer.output_text == "Then not."
    with pytest.raises(openai.BadRequestError) as error:
        ask(service.client, **fields)
    assert error.value.code == "approval_request_answered"


def test_a_repeated_approval_is_a_400(service: Service) -> None:
    asked = ask(service.client)
    fields = {"input": [approval(asked)], "previous_response_id": asked.id}
    ask(service.client, **fields)
    with pytest.raises(openai.BadRequestError) as error:
        ask(service.client, **fields)
    assert error.value.code == "approval_request_answered"
    assert error.value.param == "input.0.approval_request_id"


def test_two_responses_to_one_request_are_a_400(service: Service) -> None:
    asked = ask(service.client)
    both = [approval(asked), approval(asked, approve=False)]
    with pytest.raises(openai.BadRequestError) as error:
        ask(service.client, input=both, previous_response_id=asked.id)
    assert error.value.code == "approval_request_answered"


def test_a_made_up_approval_is_a_400(service: Service) -> None:
    request = {
        "type": "mcp_approval_request",
        "id": "mcpr_made_up",
        "server_label": "tools",
        "name": "add",
        "arguments": ARGUMENTS,
    }
    response = {
        "type": "mcp_approval_response",
        "approval_request_id": "mcpr_made_up",
        "approve": True,
    }
    for items in ([response], [request, response]):
        with pytest.raises(openai.BadRequestError) as error:
            ask(service.client, input=items)
        assert error.value.code == "approval_request_not_found"


def test_an_approval_of_other_arguments_is_a_400(service: Service) -> None:
    asked = ask(service.client, store=False)
    items = sent_back(asked)
    items[-1]["arguments"] = '{"a":1,"b":3}'
    with pytest.raises(openai.BadRequestError) as error:
        ask(service.client, input=[*items, approval(asked)], store=False)
    assert error.value.code == "approval_request_mismatch"


def test_an_approval_without_its_server_is_a_400(service: Service) -> None:
    asked = ask(service.client)
    with pytest.raises(openai.BadRequestError) as error:
        ask(service.client, input=[approval(asked)], previous_response_id=asked.id, tools=[])
    assert error.value.code == "approval_request_mismatch"


def test_a_request_survives_a_turn_without_its_server(service: Service) -> None:
    asked = ask(service.client)
    other = ask(service.client, input="Wait.", previous_response_id=asked.id, tools=[])
    answer = ask(
        service.client,
        input=[{**approval(asked)}],
        previous_response_id=other.id,
    )
    assert "mcp_call" in types(answer)


def test_chat_runs_calls_within_the_completion(service: Service) -> None:
    completion = service.client.chat.completions.create(
        model="scripted", messages=[{"role": "user", "content": "1 + 2?"}], tools=[FREE]
    )
    assert completion.choices[0].message.content == "It is 3."
    assert completion.choices[0].message.tool_calls is None


@pytest.mark.parametrize("stream", [False, True])
def test_chat_names_responses_where_a_call_needs_approval(service: Service, stream: bool) -> None:
    messages: Any = [{"role": "user", "content": "1 + 2?"}]

    def complete() -> None:
        create: Any = service.client.chat.completions.create
        list(create(model="scripted", messages=messages, tools=[TOOL], stream=stream))

    with pytest.raises(openai.APIError, match="/v1/responses") as error:
        complete()
    assert error.value.code == "approval_required"


@pytest.mark.parametrize("secret", [SECRET, BEARER, OPERATORS])
def test_secrets_are_nowhere(service: Service, secret: str) -> None:
    """Last: after all answers of this module, stored ones with events and a background one."""
    response = ask(service.client, tools=[FREE], background=True)
    while response.status in ("queued", "in_progress"):
        response = service.client.responses.retrieve(response.id)
    assert response.output_text == "It is 3."
    assert secret not in json.dumps(response.model_dump())
    create: Any = service.client.chat.completions.create
    messages = [{"role": "user", "content": "1 + 2?"}]
    completion = create(model="scripted", messages=messages, tools=[FREE], store=True)
    stored: Any = service.client.chat.completions.retrieve(completion.id)
    assert stored.tools[0]["server_label"] == "tools"
    assert secret not in json.dumps(stored.model_dump())
    assert secret.encode() not in service.log.read_bytes()
    with sqlite3.connect(service.store) as database:
        assert secret not in "\n".join(database.iterdump())
    paths = service.store.parent.glob("store.db*")
    files = [path.read_bytes() for path in paths if path.is_file()]
    assert files
    assert all(secret.encode() not in content for content in files)
