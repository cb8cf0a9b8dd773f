"""The commands `render` and `parse`, which show prompts and completions."""

import asyncio
import json
from typing import Any

import orjson

from harmony.events import MessageEnded
from harmony.parser import Parser
from harmony.tokenizer import decode, encode_with_control
from server.generation.plan import TurnPlan
from server.generation.turn import prompt
from server.http.bodies.json_text import load, validate
from server.inbound import chat, responses
from server.inbound.compiled import CompileContext, CompiledRequest
from server.inbound.grammar import Masking
from server.inbound.options import today
from server.replay.recall import Recall
from server.replay.sealing import Sealer
from server.schemas.chat import CreateChatCompletion
from server.schemas.responses import CreateResponse
from server.store.responses.memory import MemoryStore


def render_file(text: str) -> str:
    """The prompt of a request of either API: Chat Completions has `messages`, Responses `input`.

    `text` is the request's JSON. Returns JSON with `text` (control tokens as text) and
    `token_ids`. Raises InvalidRequest as the server does.
    """
    token_ids = prompt(_plan(load(text.encode())))
    return _pretty({"text": decode(token_ids), "token_ids": token_ids})


def parse_file(text: str) -> str:
    """The messages of a completion: the tokens sampled after `<|start|>assistant`.

    `text` is a JSON list of token ids, or harmony text with control tokens. Returns a JSON list of
    messages with `channel`, `recipient`, `content_type`, `content`, `complete` and `repairs`.
    """
    parser = Parser()
    events = [*parser.push_many(_token_ids(text)), *parser.finish()]
    return _pretty([_message(event) for event in events if isinstance(event, MessageEnded)])


def _plan(body: Any) -> TurnPlan:
    context = CompileContext("nobody", today(), MemoryStore(), Recall(), Sealer(), Masking())
    if isinstance(body, dict) and "messages" in body:
        compiled: CompiledRequest = asyncio.run(
            chat.compile(validate(body, CreateChatCompletion), context)
        )
    else:
        compiled = asyncio.run(responses.compile(validate(body, CreateResponse), context))
    return compiled.plans[0]


def _token_ids(text: str) -> list[int]:
    try:
        ids = json.loads(text)
    except (ValueError, RecursionError):
        ids = None
    if isinstance(ids, list) and all(type(token) is int for token in ids):
        return ids
    return encode_with_control(text.removesuffix("\n"))


def _message(event: MessageEnded) -> dict[str, Any]:
    return {
        "channel": event.header.channel,
        "recipient": event.header.recipient,
        "content_type": event.header.content_type,
        "content": event.content,
        "complete": event.complete,
        "repairs": list(event.repairs),
    }


def _pretty(value: Any) -> str:
    return orjson.dumps(value, option=orjson.OPT_INDENT_2).decode()
