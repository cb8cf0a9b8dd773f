"""A chat request as a plan, with what the server remembers of the calls in it."""

import logging
from functools import partial

from server import threads
from server.context import Context
from server.inbound.chat import CompiledChat, read
from server.inbound.options import today
from server.replay.messages import Known, call_ids
from server.schemas.chat import CreateChatCompletion
from server.store.responses.base import StoreUnavailable

logger = logging.getLogger(__name__)


async def compile_chat(context: Context, owner: str, wanted: CreateChatCompletion) -> CompiledChat:
    """Compile a request. Raises APIError for a bad one."""
    work = partial(
        read,
        wanted,
        today=today(),
        masking=context.masking,
        known=await _said_before_calls(context, owner, wanted),
        unseal=partial(context.sealer.open, owner),
        unsupported=context.settings.unsupported_input,
    )
    makes_grammar = wanted.tools or wanted.functions or wanted.response_format
    gone_through = [wanted.messages, wanted.logit_bias, wanted.tool_choice, wanted.function_call]
    is_short = threads.is_small([*gone_through, wanted.reasoning, wanted.stop])
    return await threads.run(work, small=not makes_grammar and is_short)


async def _said_before_calls(context: Context, owner: str, wanted: CreateChatCompletion) -> Known:
    """What the model said up to the calls that the messages hold, where the server has it.

    A request that is not to be stored does without, as does any while the store is away.
    """
    is_small = threads.is_small(wanted.messages)
    ids = await threads.run(partial(call_ids, wanted.messages), small=is_small)
    if not ids or wanted.store is False:
        return {}
    recalled = context.recall.find(owner, ids)
    try:
        return {**recalled, **await context.store.completions.called(owner, ids)}
    except StoreUnavailable as error:
        logger.warning("what was said before calls cannot be looked up: %s", error)
        return recalled
