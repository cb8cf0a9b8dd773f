import asyncio
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
from server.errors import InvalidRequest
from server.inbound import chat
from server.inbound.chat import CompiledChat
from server.inbound.compiled import CompileContext
from server.inbound.grammar import Masking
from server.replay.recall import Recall
from server.replay.sealing import Sealer
from server.schemas.chat import CreateChatCompletion
from server.store.items import SampledTurn
from server.store.responses.memory import MemoryStore

F = {"name": "f", "description": "Does f.", "parameters": {"type": "object"}}
SCHEMA = {
    "type": "object",
    "properties": {"a": {"type": "integer"}},
    "required": ["a"],
    "additionalProperties": False,
}


TOOL = {"type": "function", "function": F}
MASKED, UNMASKED = Masking(), Masking("never")


def compiled(
    masking: Masking = MASKED, recall: Recall | None = None, **fields: Any
) -> CompiledChat:
    messages = [
        {"role": "system", "content": "Be brief."},
        {"role": "developer", "content": "Be kind."},
        {"role": "user", "content": "hi"},
    ]
    body = {"model": "m", "messages": messages} | fields
    recall = recall or Recall()
    context = CompileContext("a", "2026-01-02", MemoryStore(), recall, Sealer(), masking)
    return asyncio.run(chat.compile(CreateChatCompletion.model_validate(body), context))


def developer_content(chat: CompiledChat) -> DeveloperContent:
    content = chat.plans[0].conversation.messages[1].content
    assert isinstance(content, DeveloperContent)
    return content


def test_the_first_message_is_harmonys_system_message() -> None:
    system, developer, user = compiled().plans[0].conversation.messages
    assert system.content == SystemContent(start_date="2026-01-02", effort=Effort.MEDIUM)
    assert developer.content == DeveloperContent("Be brief.\n\nBe kind.")
    assert (user.author.role, user.content) == (Role.USER, "hi")


@pytest.mark.parametrize(("token", "is_constrained"), [("200008", True), ("199997", False)])
def test_a_bias_of_control_tokens_needs_a_grammar(token: str, is_constrained: bool) -> None:
    (plan,) = compiled(logit_bias={token: 100}).plans
    assert (plan.constraint.grammar is not None) == is_constrained


def test_tools_are_declared_to_the_model_and_in_the_plan() -> None:
    request = compiled(tools=[{"type": "function", "function": F}])
    ((namespace,),) = (developer_content(request).tools,)
    assert [tool.name for tool in namespace.tools] == ["f"]
    assert [tool.recipient for tool in request.plans[0].tools] == ["functions.f"]
    assert not request.legacy


def test_legacy_functions_are_tools() -> None:
    request = compiled(functions=[F], function_call={"name": "f"})
    assert [tool.recipient for tool in request.plans[0].tools] == ["functions.f"]
    assert request.legacy


def test_legacy_functions_may_stand_beside_empty_tools() -> None:
    request = compiled(functions=[F], tools=[])
    assert [tool.recipient for tool in request.plans[0].tools] == ["functions.f"]
    assert request.legacy


def test_tools_may_stand_beside_empty_functions() -> None:
    request = compiled(functions=[], tools=[{"type": "function", "function": F}])
    assert [tool.recipient for tool in request.plans[0].tools] == ["functions.f"]
    assert not request.legacy


def test_functions_beside_tools_are_refused() -> None:
    with pytest.raises(InvalidRequest) as refused:
        compiled(functions=[F], tools=[{"type": "function", "function": F | {"name": "g"}}])
    assert refused.value.param == "functions"


def test_a_tool_choice_overrides_that_of_the_deprecated_field() -> None:
    free = compiled(tools=[TOOL], tool_choice="auto").plans[0]
    both = compiled(tools=[TOOL], tool_choice="auto", function_call={"name": "f"}).plans[0]
    legacy = compiled(tools=[TOOL], function_call={"name": "f"}).plans[0]
    assert both.constraint == free.constraint != legacy.constraint


def test_unsupported_input_is_replaced_by_a_note() -> None:
    image = {"type": "image_url", "image_url": {"url": "x"}}
    request = compiled(messages=[{"role": "user", "content": [image]}])
    assert "left out" in str(request.plans[0].conversation.messages[-1].content)


@pytest.mark.parametrize(
    ("functions", "choice", "param"),
    [
        ([F], {"name": "g"}, "function_call.name"),
        ([F], "required", "function_call"),
        ([F, F], None, "functions.1.name"),
        ({}, None, "functions"),
        (["f"], None, "functions.0"),
    ],
)
def test_an_error_names_the_bad_legacy_field(functions: Any, choice: Any, param: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        compiled(functions=functions, function_call=choice)
    assert refused.value.param == param


def test_the_answer_schema_is_declared_to_the_model() -> None:
    form = {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA, "strict": True}}
    (response_format,) = developer_content(compiled(response_format=form)).response_formats
    assert (response_format.name, response_format.schema) == ("x", SCHEMA)
    assert developer_content(compiled(response_format={"type": "text"})).response_formats == ()


def test_the_limits_of_the_answer_are_in_the_plan() -> None:
    (plan,) = compiled(max_tokens=7, stop="x", seed=3, prompt_cache_key="k", top_k=2).plans
    assert (plan.max_tokens, plan.stop, plan.seed, plan.affinity) == (7, ("x",), 3, "k")
    assert plan.sampling.top_k == 2


def test_max_completion_tokens_overrides_max_tokens() -> None:
    assert compiled(max_tokens=7, max_completion_tokens=9).plans[0].max_tokens == 9


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"logprobs": True}, "logprobs"),
        ({"logprobs": True, "top_logprobs": 0}, "logprobs"),
        ({"logprobs": True, "top_logprobs": 3}, "top_logprobs"),
    ],
)
def test_the_plan_names_the_field_that_requests_logprobs(
    fields: dict[str, Any], param: str
) -> None:
    assert compiled(**fields).plans[0].logprobs_param == param


@pytest.mark.parametrize(
    ("fields", "count"),
    [({}, None), ({"logprobs": True}, 0), ({"logprobs": True, "top_logprobs": 3}, 3)],
)
def test_logprobs_need_their_flag(fields: dict[str, Any], count: int | None) -> None:
    assert compiled(**fields).plans[0].top_logprobs == count


@pytest.mark.parametrize(
    ("fields", "effort"),
    [
        ({}, Effort.MEDIUM),
        ({"reasoning_effort": "minimal"}, Effort.LOW),
        ({"reasoning_effort": "none"}, None),
        ({"reasoning": {"effort": "xhigh"}}, Effort.HIGH),
        ({"reasoning": {"max_tokens": 80}, "max_tokens": 100}, Effort.HIGH),
    ],
)
def test_effort_is_in_the_plan(fields: dict[str, Any], effort: Effort | None) -> None:
    assert compiled(**fields).plans[0].effort is effort


def test_a_json_answer_is_marked() -> None:
    assert compiled(response_format={"type": "json_object"}).json
    assert not compiled(response_format={"type": "text"}).json


@pytest.mark.parametrize(("store", "restored"), [(None, True), (True, True), (False, False)])
def test_reasoning_before_a_call_is_restored_unless_nothing_may_be_stored(
    store: bool | None, restored: bool
) -> None:
    assistant, recall = Author(Role.ASSISTANT), Recall()
    thought = Message(assistant, "Ask f.", Channel.ANALYSIS)
    call = Message(assistant, "{}", Channel.COMMENTARY, "functions.f", "json")
    recall.remember("a", SampledTurn((thought, call), {"call_1": 2}))
    called = {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    messages = [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "tool_calls": [called]},
        {"role": "tool", "tool_call_id": "call_1", "content": "1"},
    ]
    request = compiled(recall=recall, messages=messages, tools=[TOOL], store=store)
    assert (thought in request.plans[0].conversation.messages) is restored


@pytest.mark.parametrize(("verbosity", "word"), [("low", "short"), ("high", "detailed")])
def test_verbosity_is_an_instruction(verbosity: str, word: str) -> None:
    instructions = developer_content(compiled(verbosity=verbosity)).instructions
    assert instructions is not None
    assert word in instructions
    assert instructions.endswith("Be brief.\n\nBe kind.")


def test_medium_verbosity_adds_nothing() -> None:
    assert developer_content(compiled(verbosity="medium")) == developer_content(compiled())


def test_parallel_plans_differ_only_in_their_seeds() -> None:
    assert [plan.seed for plan in compiled(n=2).plans] == [None, None]
    assert [plan.seed for plan in compiled(n=3, seed=2**63 - 2).plans] == [
        2**63 - 2,
        2**63 - 1,
        -(2**63),
    ]
    one, two = compiled(n=2, seed=1).plans
    assert one.conversation is two.conversation


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"reasoning_effort": "none", "tools": [TOOL]}, "reasoning_effort"),
        ({"reasoning": {"effort": "none"}, "tools": [TOOL]}, "reasoning.effort"),
        ({"reasoning": {"enabled": False}, "tools": [TOOL]}, "reasoning.enabled"),
        ({"reasoning": {"max_tokens": 0}, "tools": [TOOL]}, "reasoning.max_tokens"),
        ({"reasoning": {"max_tokens": 5}}, "reasoning.max_tokens"),
        ({"tool_choice": "required", "tools": [TOOL]}, "tool_choice"),
        ({"function_call": "none", "functions": [F]}, "function_call"),
        ({"function_call": {"name": "f"}, "functions": [F]}, "function_call"),
        ({"response_format": {"type": "json_object"}}, "response_format"),
    ],
)
def test_an_error_names_the_field_that_cannot_be_enforced(
    fields: dict[str, Any], param: str
) -> None:
    with pytest.raises(InvalidRequest) as refused:
        compiled(masking=UNMASKED, **fields)
    assert refused.value.param == param
    assert f"'{param}'" in refused.value.message


def test_an_error_names_functions_that_are_too_large_together() -> None:
    functions = [
        {"name": name, "parameters": SCHEMA | {"description": name * 300_000}, "strict": True}
        for name in "fg"
    ]
    with pytest.raises(InvalidRequest) as refused:
        compiled(functions=functions)
    assert refused.value.param == "functions"
