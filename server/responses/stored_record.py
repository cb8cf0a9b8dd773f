"""The record of a stored response that was made without one, rendered from what is stored."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, takewhile
from typing import Any

from harmony.parser import ASSISTANT
from harmony.render import render_message
from server import threads
from server.context import Context
from server.errors import InvalidRequest
from server.generation.plan import TurnPlan
from server.generation.turn import prompt
from server.ids import new_id
from server.inbound.responses import compile
from server.schemas.responses import CreateResponse
from server.store.items import StoredItem
from server.store.responses.base import StoredResponse

_FIELDS = (
    "instructions",
    "tools",
    "tool_choice",
    "parallel_tool_calls",
    "text",
    "reasoning",
    "max_output_tokens",
    "truncation",
)
"""The fields of a response that decide what its prompt and its grammar are."""


async def rendered_record(context: Context, stored: StoredResponse) -> dict[str, Any]:
    """The record of the stored response, as far as it can be found.

    Its prompt is rendered again. Its tokens are those that were sampled, where the store has them,
    else rendered. It has no times and no logprobs, and `recorded` is false.
    Raises InvalidRequest if the prompt would be another one, and APIError if the response cannot be
    compiled again, for instance without one of its tools, or if a truncated prompt no longer fits.
    """
    if stored.detached:
        raise _not_rendered("the earlier turns of this response are not stored.")
    fields = {name: stored.response.get(name) for name in _FIELDS}
    request = CreateResponse.model_validate(
        {
            **fields,
            "input": [entry.item for entry in stored.input],
            "previous_response_id": stored.id,
        }
    )
    earlier = replace(stored, input=(), output=())
    compiling = context.compiling(stored.owner, new_id("resp"), previous=earlier, may_be_empty=True)
    compiled = await compile(request, replace(compiling, is_new=False))
    await compiled.close(stored.id)
    plan = compiled.plan
    opened = len(ASSISTANT) + len(plan.constraint.prefill)
    approved = list(takewhile(lambda item: item.message is None, stored.output))
    ids = _with_results(await _prompt(context, plan), approved, opened)
    made = stored.output[len(approved) :]
    samplings, output = await threads.run(partial(_output, made, opened), threads.Size.MEDIUM)
    usage = stored.response["usage"] or {}
    # Deleted items of a conversation, and changed tools, show in the length of the prompt alone.
    if usage and _is_one_sampling(samplings, made) and usage["input_tokens"] != len(ids):
        raise _not_rendered(
            "its prompt would be another one. Items of the earlier turns were deleted, or a tool or"
            " the server has changed."
        )
    if samplings:
        cached = usage.get("input_tokens_details", {}).get("cached_tokens")
        samplings[0] |= {"cached_tokens": cached, "grammar": plan.constraint.grammar}
    return {
        "recorded": False,
        "prompt_token_ids": ids,
        "token_ids": output[opened:],
        "samplings": samplings,
        "calls": [],
    }


def _not_rendered(reason: str) -> InvalidRequest:
    return InvalidRequest(f"The record cannot be rendered: {reason}", param="include")


def _is_one_sampling(samplings: Sequence[dict[str, Any]], made: Iterable[StoredItem]) -> bool:
    """Whether the usage counts one prompt: each result of a hosted call began another one."""
    return len(samplings) == 1 and all(item.result is None for item in made)


async def _prompt(context: Context, plan: TurnPlan) -> Sequence[int]:
    """The prompt's tokens. Where the plan truncates, they are those that the engine would get."""
    if not plan.truncate:
        return await threads.run(partial(prompt, plan), threads.Size.MEDIUM)
    return (await context.gateway.prepare(plan, new_id("render"))).request.prompt_token_ids


def _with_results(ids: Sequence[int], approved: Iterable[StoredItem], opened: int) -> list[int]:
    """The prompt with the results of calls that the request approved.

    opened: how many tokens of the first message the prompt ends with.
    """
    results = [render_message(item.result) for item in approved if item.result is not None]
    return [*ids[:-opened], *chain.from_iterable(results), *ids[-opened:]]


def _output(
    items: tuple[StoredItem, ...], opened: int
) -> tuple[list[dict[str, Any]], tuple[int, ...]]:
    """The samplings, and the tokens of all messages and results, of items from a message on.

    opened: how many tokens of the first message are part of the prompt.
    """
    tokens: list[int] = []
    samplings = []
    start = 0
    for item in items:
        if item.message is not None:
            tokens += item.message.tokens or render_message(item.message)
        if item.result is not None:
            samplings.append(_sampling(start, len(tokens) - opened))
            tokens += render_message(item.result)
            # The next sampling begins after `<|start|>assistant`.
            start = len(tokens) + len(ASSISTANT) - opened
    if len(tokens) - opened > start:
        samplings.append(_sampling(start, len(tokens) - opened))
    return samplings, tuple(tokens)


def _sampling(start: int, end: int) -> dict[str, Any]:
    """A sampling of which only the place is known."""
    unknown = ("prompt_tokens", "cached_tokens", "max_tokens", "grammar", "started_ms", "ended_ms")
    return {"start": start, "end": end, **dict.fromkeys((*unknown, "token_ms", "logprobs"))}
