"""Compilation of Responses requests."""

import threading
from collections.abc import Collection
from typing import Any

import pytest

from harmony.messages import (
    Author,
    Channel,
    DeveloperContent,
    Effort,
    Message,
    Role,
    SystemContent,
)
from harmony.tokenizer import encode_with_control
from server import threads
from server.errors import APIError, InvalidRequest, NotFound
from server.http.bodies.json_text import validate
from server.inbound import responses
from server.inbound.compiled import CompileContext
from server.inbound.grammar import Masking
from server.inbound.responses import CompiledResponse
from server.replay import items
from server.replay.recall import Recall
from server.replay.sealing import Sealer
from server.schemas.responses import CreateResponse
from server.store.items import StoredItem
from server.store.responses.base import StoredResponse
from server.store.responses.memory import MemoryStore
from tests.stored import put

NEEDED = Masking("needed")
SEALER = Sealer()
TODAY = "2026-01-31"
TOOL = {"type": "function", "name": "f", "parameters": {"type": "object"}}
SAMPLED = Message(Author(Role.ASSISTANT), "Hello.", Channel.FINAL, tokens=(1, 2, 3))


def compile_context(
    store: MemoryStore | None = None, owner: str = "a", masking: Masking = NEEDED, **options: Any
) -> CompileContext:
    store = store or MemoryStore()
    return CompileContext(owner, TODAY, store, Recall(), SEALER, masking, **options)


async def compiled(
    store: MemoryStore | None = None,
    owner: str = "a",
    masking: Masking = NEEDED,
    **fields: Any,
) -> CompiledResponse:
    request = validate({"input": "hi"} | fields, CreateResponse)
    return await responses.compile(request, compile_context(store, owner, masking))


@pytest.mark.parametrize(("token", "is_constrained"), [("200008", True), ("199997", False)])
async def test_a_bias_of_control_tokens_needs_a_grammar(token: str, is_constrained: bool) -> None:
    (plan,) = (await compiled(logit_bias={token: 100})).plans
    assert (plan.constraint.grammar is not None) == is_constrained


async def refused(**fields: Any) -> APIError:
    with pytest.raises((InvalidRequest, NotFound)) as caught:
        await compiled(**fields)
    return caught.value


async def with_previous() -> MemoryStore:
    store = MemoryStore()
    question = StoredItem({"type": "message", "id": "msg_1", "role": "user", "content": "hi"})
    content = [{"type": "output_text", "text": "Hello."}]
    item = {"type": "message", "id": "msg_2", "role": "assistant", "content": content}
    response = {"id": "resp_1", "status": "completed", "instructions": "Old."}
    await put(
        store,
        StoredResponse("a", response, "2025-12-31", (), (question,), (StoredItem(item, SAMPLED),)),
    )
    return store


def contents(request: CompiledResponse) -> list[Any]:
    return [message.content for message in request.plan.conversation.messages]


async def test_only_ids_that_the_client_sent_are_looked_up() -> None:
    class Recording(MemoryStore):
        async def items(self, owner: str, ids: Collection[str]) -> dict[str, StoredItem]:
            looked_up.extend(ids)
            return {}

    looked_up: list[str] = []
    old = {"role": "assistant", "content": "Hello.", "id": "msg_2"}
    await compiled(Recording(), input=[{"role": "user", "content": "hi", "id": None}, old])
    await compiled(Recording())
    assert looked_up == ["msg_2"]


async def test_a_minimal_request_has_the_defaults() -> None:
    request = await compiled()
    assert contents(request) == [SystemContent(start_date=TODAY, effort=Effort.MEDIUM), "hi"]
    plan = request.plan
    assert (plan.tools, plan.stop, plan.max_tokens, plan.seed) == ((), (), None, None)
    assert plan.top_logprobs is None
    assert request.prior.start_date == TODAY


async def test_null_is_the_same_as_absent() -> None:
    nulls: dict[str, Any] = {name: None for name in CreateResponse.model_fields if name != "input"}
    bare, nulled = await compiled(), await compiled(**nulls)
    assert nulled.plan.conversation == bare.plan.conversation
    assert nulled.plan.sampling == bare.plan.sampling


async def test_empty_and_unknown_fields_change_nothing() -> None:
    request = await compiled(
        text={}, include=[], client_metadata={"a": "b"}, unknown=1, stream_options={}, tools=[]
    )
    assert contents(request)[1:] == ["hi"]


async def test_instructions_tools_and_format_are_the_developer_message() -> None:
    form = {"type": "json_schema", "name": "n", "schema": {"type": "object"}}
    request = await compiled(instructions="Be kind.", tools=[TOOL], text={"format": form})
    developer = contents(request)[1]
    assert isinstance(developer, DeveloperContent)
    assert developer.instructions == "Be kind."
    assert [tool.name for tool in developer.tools[0].tools] == ["f"]
    assert developer.response_formats[0].name == "n"
    assert request.plan.tools[0].recipient == "functions.f"


async def test_verbosity_is_appended_to_the_instructions() -> None:
    request = await compiled(instructions="Be kind.", text={"verbosity": "low"})
    assert contents(request)[1].instructions == "Be kind.\n\nKeep the final answer short."
    assert contents(await compiled(text={"verbosity": "medium"}))[1:] == ["hi"]


async def test_a_required_tool_choice_is_enforced() -> None:
    fields: dict[str, Any] = {"tools": [TOOL], "tool_choice": "required"}
    free = (await compiled(tools=[TOOL])).plan.constraint
    bound = (await compiled(**fields)).plan.constraint
    assert bound.grammar != free.grammar
    assert free.answer_grammar is not None
    error = await refused(masking=Masking("never"), **fields)
    assert error.param == "tool_choice"


@pytest.mark.parametrize("fields", [{"effort": "none"}, {"enabled": False}])
async def test_without_effort_the_final_header_is_prefilled(fields: dict[str, Any]) -> None:
    plan = (await compiled(reasoning=fields)).plan
    assert plan.constraint.prefill == tuple(encode_with_control("<|channel|>final<|message|>"))


async def test_options_reach_the_plan() -> None:
    plan = (
        await compiled(
            temperature=0.5,
            top_p=0.9,
            max_output_tokens=20,
            stop=["END"],
            seed=7,
            reasoning={"effort": "high"},
            prompt_cache_key="key",
            service_tier="flex",
        )
    ).plan
    assert (plan.sampling.temperature, plan.sampling.top_p) == (0.5, 0.9)
    assert (plan.max_tokens, plan.stop, plan.seed) == (20, ("END",), 7)
    assert plan.effort is Effort.HIGH
    assert (plan.affinity, plan.priority) == ("key", 1)


@pytest.mark.parametrize(
    ("fields", "count", "param"),
    [
        ({}, None, "include"),
        ({"top_logprobs": 0}, None, "include"),
        ({"top_logprobs": 2}, 2, "top_logprobs"),
        ({"include": ["message.output_text.logprobs"]}, 0, "include"),
        ({"include": ["message.output_text.logprobs"], "top_logprobs": 3}, 3, "top_logprobs"),
    ],
)
async def test_logprobs_may_be_requested_in_two_ways(
    fields: dict[str, Any], count: int | None, param: str
) -> None:
    plan = (await compiled(**fields)).plan
    assert plan.top_logprobs == count
    assert plan.logprobs_param == param


async def test_a_continuation_repeats_the_earlier_turns() -> None:
    request = await compiled(
        await with_previous(), previous_response_id="resp_1", input="And?", instructions="New."
    )
    system, developer, *rest = request.plan.conversation.messages
    assert isinstance(system.content, SystemContent)
    assert system.content.start_date == "2025-12-31"
    assert developer.content == DeveloperContent("New.")
    assert [message.content for message in rest] == ["hi", "Hello.", "And?"]
    assert rest[1] is SAMPLED
    assert request.prior.start_date == "2025-12-31"
    assert [stored.item["id"] for stored in request.prior.items] == ["msg_1", "msg_2"]
    assert len(request.input) == 1


async def test_instructions_of_the_previous_response_are_not_repeated() -> None:
    request = await compiled(await with_previous(), previous_response_id="resp_1")
    assert not any(isinstance(content, DeveloperContent) for content in contents(request))


async def test_a_continuation_needs_no_new_input() -> None:
    request = await compiled(await with_previous(), previous_response_id="resp_1", input=None)
    assert contents(request)[1:] == ["hi", "Hello."]


@pytest.mark.parametrize(("response_id", "owner"), [("resp_2", "a"), ("resp_1", "b")])
async def test_an_unknown_previous_response_is_not_found(response_id: str, owner: str) -> None:
    error = await refused(
        store=await with_previous(), owner=owner, previous_response_id=response_id
    )
    assert (error.status, error.param) == (400, "previous_response_id")
    assert error.code == "previous_response_not_found"


async def test_a_known_item_is_replayed_by_its_id() -> None:
    item = {"id": "msg_2", "role": "assistant", "content": "Hello."}
    user = {"role": "user", "content": "And?"}
    request = await compiled(await with_previous(), input=[item, user])
    assert request.plan.conversation.messages[1] is SAMPLED
    theirs = await compiled(await with_previous(), owner="b", input=[item, user])
    assert theirs.plan.conversation.messages[1].tokens is None


@pytest.mark.parametrize("nothing", [None, "", []])
async def test_a_request_without_input_is_refused(nothing: Any) -> None:
    error = await refused(input=nothing)
    assert error.param == "input"


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"context_management": [{"type": "compaction"}]}, "context_management"),
        ({"moderation": {"model": "m"}}, "moderation"),
        ({"prompt": {"id": "p"}}, "prompt"),
        ({"reasoning": {"effort": "extreme"}}, "reasoning.effort"),
        ({"reasoning": "high"}, "reasoning"),
        ({"text": {"format": {"type": "xml"}}}, "text.format.type"),
        ({"text": {"verbosity": "chatty"}}, "text.verbosity"),
        ({"tools": [{"type": "function"}]}, "tools.0.name"),
        ({"tool_choice": "required"}, "tool_choice"),
        ({"input": [{"role": "user", "content": [{}]}]}, "input.0.content.0.type"),
        ({"max_output_tokens": 0}, "max_output_tokens"),
        ({"max_output_tokens": "many"}, "max_output_tokens"),
        ({"top_logprobs": 21}, "top_logprobs"),
        ({"temperature": 3}, "temperature"),
        ({"stop": [""]}, "stop.0"),
        ({"stream": "yes"}, "stream"),
        ({"metadata": {"a": 1}}, "metadata.a"),
        ({"metadata": {str(n): "" for n in range(17)}}, "metadata"),
    ],
)
async def test_an_error_names_the_bad_field(fields: dict[str, Any], param: str) -> None:
    error = await refused(**fields)
    assert (error.status, error.param) == (400, param)


async def test_unsupported_features_may_be_off() -> None:
    await compiled(background=False, conversation=None, context_management=[], moderation=None)


@pytest.mark.parametrize(
    ("context", "all_reasoning"),
    [(None, False), ("auto", False), ("current_turn", False), ("all_turns", True)],
)
async def test_the_reasoning_context_decides_whether_old_reasoning_stays(
    context: str | None, all_reasoning: bool
) -> None:
    request = await compiled(reasoning={"context": context})
    assert request.plan.conversation.all_reasoning is all_reasoning


@pytest.mark.parametrize("truncation", [None, "disabled", "auto"])
async def test_truncation_is_in_the_plan(truncation: str | None) -> None:
    request = await compiled(truncation=truncation)
    assert request.plan.truncate is (truncation == "auto")


@pytest.mark.parametrize(
    ("item", "param"),
    [
        ({"role": "user", "content": [{"type": "input_image"}]}, "input.0.content.0"),
        ({"type": "web_search_call", "id": "ws_1"}, "input.0"),
    ],
)
async def test_unsupported_input_is_replaced_by_a_note_or_refused(item: Any, param: str) -> None:
    body = validate({"input": [item]}, CreateResponse)
    request = await responses.compile(body, compile_context())
    assert "left out" in str(contents(request)[-1])
    with pytest.raises(InvalidRequest) as caught:
        await responses.compile(body, compile_context(unsupported="error"))
    assert caught.value.param == param


LARGE: dict[str, dict[str, Any]] = {
    "a long text": {"input": "a" * (threads.MOST_SMALL + 1)},
    "many items": {"input": [{"role": "user", "content": "hi"}] * 1000},
    "tools": {"tools": [TOOL]},
    "a format": {"text": {"format": {"type": "json_object"}}},
}


def comparing_threads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The threads that compare the input with the stored output."""
    used: list[int] = []

    def compare(received: Any, turns_up_to_calls: Any, history: Any) -> Any:
        used.append(threading.get_ident())
        return received

    monkeypatch.setattr(responses, "restore_turns", compare)
    return used


@pytest.mark.parametrize("fields", LARGE.values(), ids=LARGE)
async def test_large_input_is_compared_in_another_thread(
    monkeypatch: pytest.MonkeyPatch, fields: dict[str, Any]
) -> None:
    used = comparing_threads(monkeypatch)
    await compiled(**fields)
    assert len(used) == 1
    assert threading.get_ident() not in used


async def test_small_input_is_compared_in_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    used = comparing_threads(monkeypatch)
    await compiled(await with_previous(), previous_response_id="resp_1")
    assert used == [threading.get_ident()]


@pytest.mark.parametrize(
    ("count", "parts", "at_once"), [(2, 2, True), (1000, 1, False), (1, 1000, False)]
)
async def test_a_large_history_is_compared_in_another_thread(
    monkeypatch: pytest.MonkeyPatch, count: int, parts: int, at_once: bool
) -> None:
    store = await store_with(count, parts)
    used = comparing_threads(monkeypatch)
    await compiled(store, previous_response_id="resp_1")
    assert (used == [threading.get_ident()]) is at_once


@pytest.mark.parametrize(("count", "at_once"), [(2, True), (3000, False)])
async def test_the_ids_of_many_items_are_compared_in_another_thread(
    monkeypatch: pytest.MonkeyPatch, count: int, at_once: bool
) -> None:
    used: list[int] = []
    monkeypatch.setattr(
        items, "refuse_equal_ids", lambda received, *_: used.append(threading.get_ident())
    )
    await compiled(await store_with(count, 1), previous_response_id="resp_1")
    assert (used[-1] == threading.get_ident()) is at_once


async def test_a_conversation_with_too_many_items_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(items, "MAX_HISTORY", 3)
    store = await store_with(2, 1)
    await compiled(store, previous_response_id="resp_1")
    two = [{"role": "user", "content": "hi"}] * 2
    error = await refused(store=store, input=two, previous_response_id="resp_1")
    assert (error.param, error.code) == ("input", "conversation_too_long")


async def test_a_large_referenced_item_is_compared_in_another_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = await store_with(1, 1000)
    used = comparing_threads(monkeypatch)
    await compiled(store, input=[{"type": "item_reference", "id": "msg_1"}])
    assert threading.get_ident() not in used


async def store_with(count: int, parts: int) -> MemoryStore:
    """A store with a response of `count` items, each with `parts` parts."""
    content = [{"type": "input_text", "text": ""}] * parts
    stored = StoredItem({"type": "message", "id": "msg_1", "role": "user", "content": content})
    response = {"id": "resp_1", "status": "completed"}
    store = MemoryStore()
    await put(store, StoredResponse("a", response, "2025-12-31", (), (stored,) * count, ()))
    return store


async def test_large_output_before_calls_is_compared_in_another_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Recalling(MemoryStore):
        async def turns_up_to_calls(self, owner: str, call_ids: Collection[str]) -> Any:
            return {"call_1": (StoredItem({"type": "reasoning"}),) * 1000}

    used = comparing_threads(monkeypatch)
    await compiled(Recalling())
    assert threading.get_ident() not in used
