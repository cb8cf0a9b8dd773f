"""The response object before its first token: what the request asked for, as it is served."""

from typing import Any

from server.inbound.options import effective_tier
from server.inbound.responses import CompiledResponse
from server.replay.prior_turns import conversation_id
from server.schemas.responses import CreateResponse

LEFT_OUT = "gpt_oss:unserved_tools"
"""Extension field: the kinds of the request's tools that this server does not have."""


def created(
    request: CreateResponse,
    compiled: CompiledResponse,
    *,
    response_id: str,
    model: str,
    created_at: int,
) -> dict[str, Any]:
    """All fields of the API's response object, `in_progress` and without output.

    A field that has no value is null, where the specification allows that.
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
        "tools": _tools(request.tools),
        "tool_choice": request.tool_choice or "auto",
        "parallel_tool_calls": _or(request.parallel_tool_calls, True),
        "max_tool_calls": request.max_tool_calls,
        "text": _text(request),
        "reasoning": _reasoning(request, compiled),
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "presence_penalty": sampling.presence_penalty,
        "frequency_penalty": sampling.frequency_penalty,
        "top_logprobs": request.top_logprobs or 0,
        "max_output_tokens": request.max_output_tokens,
        "truncation": request.truncation or "disabled",
        "usage": None,
        "store": _or(request.store, True),
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
    if compiled.tools.left_out:
        response[LEFT_OUT] = list(compiled.tools.left_out)
    return response


def _or(value: bool | None, default: bool) -> bool:
    return default if value is None else value


def _tools(tools: Any) -> list[dict[str, Any]]:
    shown = []
    for tool in tools or ():
        if tool["type"] == "function":
            nulls = {"description": None, "parameters": None, "strict": None}
            shown.append({**nulls, **tool.get("function", tool), "type": "function"})
        elif tool["type"] in ("custom", "namespace"):
            shown.append(tool)
    return shown


def _text(request: CreateResponse) -> dict[str, Any]:
    given = request.text
    form = (given and given.format) or {"type": "text"}
    if form["type"] == "json_schema":
        form = {"description": None, **form, "strict": bool(form.get("strict"))}
    return {"format": form, "verbosity": (given and given.verbosity) or "medium"}


def _reasoning(request: CreateResponse, compiled: CompiledResponse) -> dict[str, Any]:
    effort = compiled.plan.effort
    asked = request.reasoning
    told = {
        "effort": "none" if effort is None else effort.value,
        "summary": (asked and (asked.summary or asked.generate_summary)) or None,
    }
    if asked and asked.context:
        told["context"] = "all_turns" if asked.context == "all_turns" else "current_turn"
    return told
