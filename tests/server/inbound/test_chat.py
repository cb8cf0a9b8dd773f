import asyncio
from typing import Any

import pytest

from harmony.messages import DeveloperContent, Effort, Role, SystemContent
from server.errors import InvalidRequest
from server.inbound import chat
from server.inbound.chat import CompiledChat
from server.inbound.compiled import CompileContext
from server.inbound.grammar import Masking
from server.replay.recall import Recall
from server.replay.sealing import Sealer
from server.schemas.chat import CreateChatCompletion
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


def draft(masking: Masking = MASKED, **fields: Any) -> CompiledChat:
    messages = [
        {"role": "system", "content": "Be brief."},
        {"role": "developer", "content": "Be kind."},
        {"role": "user", "content": "hi"},
    ]
    body = {"model": "m", "messages": messages} | fields
    context = CompileContext("a", "2026-01-02", MemoryStore(), Recall(), Sealer(), masking)
    return asyncio.run(chat.compile(CreateChatCompletion.model_validate(body), context))


def told(drafted: CompiledChat) -> DeveloperContent:
    content = drafted.plans[0].conversation.messages[1].content
    assert isinstance(content, DeveloperContent)
    return content


def test_the_models_own_system_message_comes_first_and_is_never_the_clients() -> None:
    system, developer, user = draft().plans[0].conversation.messages
    assert system.content == SystemContent(start_date="2026-01-02", effort=Effort.MEDIUM)
    assert developer.content == DeveloperContent("Be brief.\n\nBe kind.")
    assert (user.author.role, user.content) == (Role.USER, "hi")


def test_tools_are_declared_to_the_model_and_in_the_plan() -> None:
    drafted = draft(tools=[{"type": "function", "function": F}])
    ((namespace,),) = (told(drafted).tools,)
    assert [tool.name for tool in namespace.tools] == ["f"]
    assert [tool.recipient for tool in drafted.plans[0].tools] == ["functions.f"]
    assert not drafted.legacy


def test_legacy_functions_are_tools() -> None:
    drafted = draft(functions=[F], function_call={"name": "f"})
    assert [tool.recipient for tool in drafted.plans[0].tools] == ["functions.f"]
    assert drafted.legacy


def test_legacy_functions_are_tools_also_beside_an_empty_list_of_these() -> None:
    drafted = draft(functions=[F], tools=[])
    assert [tool.recipient for tool in drafted.plans[0].tools] == ["functions.f"]
    assert drafted.legacy


def test_tools_may_stand_beside_an_empty_list_of_functions() -> None:
    drafted = draft(functions=[], tools=[{"type": "function", "function": F}])
    assert [tool.recipient for tool in drafted.plans[0].tools] == ["functions.f"]
    assert not drafted.legacy


def test_functions_beside_tools_are_refused() -> None:
    with pytest.raises(InvalidRequest) as refused:
        draft(functions=[F], tools=[{"type": "function", "function": F | {"name": "g"}}])
    assert refused.value.param == "functions"


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
def test_a_bad_legacy_field_is_named(functions: Any, choice: Any, param: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        draft(functions=functions, function_call=choice)
    assert refused.value.param == param


def test_a_schema_for_the_answer_is_told_to_the_model() -> None:
    form = {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA, "strict": True}}
    (response_format,) = told(draft(response_format=form)).response_formats
    assert (response_format.name, response_format.schema) == ("x", SCHEMA)
    assert told(draft(response_format={"type": "text"})).response_formats == ()


def test_what_bounds_the_answer_is_in_the_plan() -> None:
    (plan,) = draft(max_tokens=7, stop="x", seed=3, prompt_cache_key="k", top_k=2).plans
    assert (plan.max_tokens, plan.stop, plan.seed, plan.affinity) == (7, ("x",), 3, "k")
    assert plan.sampling.top_k == 2


def test_the_newer_name_of_the_token_budget_wins() -> None:
    assert draft(max_tokens=7, max_completion_tokens=9).plans[0].max_tokens == 9


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"logprobs": True}, "logprobs"),
        ({"logprobs": True, "top_logprobs": 0}, "logprobs"),
        ({"logprobs": True, "top_logprobs": 3}, "top_logprobs"),
    ],
)
def test_the_field_that_asks_for_logprobs_is_known(fields: dict[str, Any], param: str) -> None:
    assert draft(**fields).plans[0].logprobs_param == param


@pytest.mark.parametrize(
    ("fields", "count"),
    [({}, None), ({"logprobs": True}, 0), ({"logprobs": True, "top_logprobs": 3}, 3)],
)
def test_logprobs_are_asked_for_by_their_flag(fields: dict[str, Any], count: int | None) -> None:
    assert draft(**fields).plans[0].top_logprobs == count


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
    assert draft(**fields).plans[0].effort is effort


def test_an_answer_in_json_is_marked_as_such() -> None:
    assert draft(response_format={"type": "json_object"}).json
    assert not draft(response_format={"type": "text"}).json


@pytest.mark.parametrize(("verbosity", "word"), [("low", "short"), ("high", "detailed")])
def test_verbosity_is_told_to_the_model(verbosity: str, word: str) -> None:
    instructions = told(draft(verbosity=verbosity)).instructions
    assert instructions is not None
    assert word in instructions
    assert instructions.endswith("Be brief.\n\nBe kind.")


def test_medium_verbosity_is_the_models_own() -> None:
    assert told(draft(verbosity="medium")) == told(draft())


def test_choices_differ_in_their_seeds_alone() -> None:
    assert [plan.seed for plan in draft(n=2).plans] == [None, None]
    assert [plan.seed for plan in draft(n=3, seed=2**63 - 2).plans] == [
        2**63 - 2,
        2**63 - 1,
        -(2**63),
    ]
    one, two = draft(n=2, seed=1).plans
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
def test_what_cannot_be_enforced_is_refused_by_the_clients_own_name_for_it(
    fields: dict[str, Any], param: str
) -> None:
    with pytest.raises(InvalidRequest) as refused:
        draft(masking=UNMASKED, **fields)
    assert refused.value.param == param
    assert f"'{param}'" in refused.value.message


def test_functions_that_are_too_large_together_are_named_as_the_client_names_them() -> None:
    functions = [
        {"name": name, "parameters": SCHEMA | {"description": name * 300_000}, "strict": True}
        for name in "fg"
    ]
    with pytest.raises(InvalidRequest) as refused:
        draft(functions=functions)
    assert refused.value.param == "functions"
