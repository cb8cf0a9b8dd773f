"""Make the response object as it is before the first token."""

from typing import Any

from server.inbound.echoed_tools import echoed_tools
from server.inbound.formats import JSON_OBJECT, AnswerFormat
from server.inbound.options import effective_tier
from server.inbound.responses import CompiledResponse
from server.inbound.tools import Tools
from server.replay.prior_turns import conversation_id
from server.schemas.responses import CreateResponse

UNSERVED_TOOLS_FIELD = "gpt_oss:unserved_tools"
"""The extension field with the kinds of the request's tools that this server does not serve."""


def response_object(
    request: CreateResponse,
    compiled: CompiledResponse,
    *,
    response_id: str,
    model: str,
    created_at: int,
) -> dict[str, Any]:
    """The API's response object without output, `in_progress` or, in the background, `queued`.

    It has the effective values of the request's parameters; a field without one is null if the
    specification allows null. model: its served name. created_at: Unix time in seconds.
    """
    sampling = compiled.plan.sampling
    response = {
        "id": response_id,
        "object": "response",
        "created_at": created_at,
        "completed_at": None,
        "status": "queued" if request.background else "in_progress",
        "incomplete_details": None,
        "error": None,
        "model": model,
        "previous_response_id": request.previous_response_id,
        "instructions": request.instructions,
        "output": [],
        "tools": _echoed_tools(request.tools, compiled.tools),
        "tool_choice": compiled.tool_choice.echo,
        "parallel_tool_calls": request.parallel_tool_calls is not False,
        "max_tool_calls": request.max_tool_calls,
        "text": _text(request, compiled.answer_format),
        "reasoning": _reasoning(request, compiled),
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "presence_penalty": sampling.presence_penalty,
        "frequency_penalty": sampling.frequency_penalty,
        "top_logprobs": request.top_logprobs or 0,
        "max_output_tokens": request.max_output_tokens,
        "truncation": request.truncation or "disabled",
        "usage": None,
        "store": request.store is not False,
        "background": bool(request.background),
        "service_tier": effective_tier(request.priority, request.service_tier),
        "metadata": request.metadata or {},
        "safety_identifier": request.safety_identifier,
        "prompt_cache_key": request.prompt_cache_key,
    }
    if conversation := conversation_id(request.conversation):
        response["conversation"] = {"id": conversation}
    if request.user is not None:
        response["user"] = request.user
    if compiled.tools.unserved_kinds:
        response[UNSERVED_TOOLS_FIELD] = list(compiled.tools.unserved_kinds)
    return response


def _echoed_tools(tools: Any, read: Tools) -> list[dict[str, Any]]:
    nulls = {"description": None, "parameters": None, "strict": None}
    return [
        {**nulls, **tool} if tool["type"] == "function" else tool
        for tool in map(_flat, echoed_tools(tools, read))
    ]


def _flat(tool: dict[str, Any]) -> dict[str, Any]:
    """The tool in the form of Responses; clients may send that of Chat."""
    match tool["type"]:
        case "function":
            return {**tool.get("function", tool), "type": "function"}
        case "custom":
            own = {**tool.get("custom", tool), "type": "custom"}
            if form := own.get("format"):
                own["format"] = {**form.get("grammar", form), "type": form["type"]}
            return own
        case "namespace":
            return {**tool, "tools": [*map(_flat, tool["tools"])]}
    return tool


def _text(request: CreateResponse, answer_format: AnswerFormat | None) -> dict[str, Any]:
    verbosity = (request.text and request.text.verbosity) or "medium"
    return {"format": _format(answer_format), "verbosity": verbosity}


def _format(answer_format: AnswerFormat | None) -> dict[str, Any]:
    if answer_format is None:
        return {"type": "text"}
    declared = answer_format.declared
    if declared is JSON_OBJECT:
        return {"type": "json_object"}
    return {
        "type": "json_schema",
        "name": declared.name,
        "description": declared.description,
        "schema": declared.schema,
        "strict": bool(answer_format.strict),
    }


def _reasoning(request: CreateResponse, compiled: CompiledResponse) -> dict[str, Any]:
    effort = compiled.plan.effort
    requested = request.reasoning
    requested_summary = requested and (requested.summary or requested.generate_summary)
    echoed: dict[str, Any] = {
        "effort": "none" if effort is None else effort.value,
        "summary": compiled.plan.summary or requested_summary or None,
    }
    if requested and requested.context:
        echoed["context"] = "all_turns" if requested.context == "all_turns" else "current_turn"
    if requested and requested.max_tokens is not None:
        echoed["max_tokens"] = requested.max_tokens
    return echoed
