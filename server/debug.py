"""Looking at prompts and completions from the command line: `render` and `parse`."""

import json
from typing import Any

import orjson
from harmony.parser import Parser
from harmony.render import render

from harmony.events import MessageEnded
from harmony.tokenizer import decode, encode_with_control


def render_file(text: str) -> str:
    """The prompt of a request of either API (`messages` is Chat's, `input` Responses').

    `text` is the request's JSON. Returns JSON with `text` (control tokens spelled out) and
    `token_ids`. Raises InvalidRequest as the server would.
    """
    body = _object(text)
    token_ids = render(_conversation(body))
    return _pretty({"text": decode(token_ids), "token_ids": token_ids})


def parse_file(text: str) -> str:
    """The messages of a completion: what was sampled after `<|start|>assistant`.

    `text` is a JSON list of token ids, or harmony text with control tokens. Returns a JSON list of
    messages with `channel`, `recipient`, `content_type`, `content`, `complete` and `repairs`.
    """
    parser = Parser()
    events = [*parser.push_many(_token_ids(text)), *parser.finish()]
    return _pretty([_message(event) for event in events if isinstance(event, MessageEnded)])


def _token_ids(text: str) -> list[int]:
    try:
        ids = json.loads(text)
    except ValueError:
        return encode_with_control(text.removesuffix("\n"))
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
