"""What the playground needs beside the API: HTML of Markdown, and messages of pasted harmony."""

from collections.abc import Sequence
from functools import partial
from itertools import islice
from typing import Any

from starlette.responses import Response

from harmony.tokenizer import encode_within
from harmony.vocab import VOCAB_SIZE
from server.http.answers.answer import json_response
from server.inbound import grammar_sandbox
from server.inbound.prompts import read_ids
from server.outbound.token_bytes import hexadecimal
from server.schemas.fields import array, invalid
from server.schemas.limits import MAX_IDS
from server.schemas.web import CountPermitted, ParseHarmony, RenderBlocks
from server.threads import Slots
from server.web.highlighting import Highlighter
from server.web.markup import render
from server.web.masks import GrammarError, permitted
from server.web.parsing import Span, parse

MAX_CHARACTERS = 100_000
"""Characters of Markdown in one request: a quarter of a second, or some seconds at worst. The
colours of code have a time limit of their own."""
MAX_MESSAGES = 16_384
"""Messages of pasted harmony: half a second of work."""

_rendering = Slots(2)
"""Requests that render at once: the work holds the interpreter, and streams share it."""
_parsing = Slots(2)
"""Requests that parse harmony at once, for the same reason."""
_following = Slots(1)
"""Requests that follow a grammar at once."""


async def rendered_blocks(body: RenderBlocks) -> Response:
    """The HTML of each block, made on a thread. Raises InvalidRequest for too much text."""
    if sum(map(len, body.blocks)) > MAX_CHARACTERS:
        raise invalid("blocks", f"expected at most {MAX_CHARACTERS} characters")
    return await _rendering.run(partial(_rendered, body.blocks))


async def parsed_harmony(body: ParseHarmony) -> Response:
    """The messages of pasted harmony with their repairs, and its tokens with their bytes.

    Raises InvalidRequest.
    """
    return await _parsing.run(partial(_parsed, body))


async def counted_permitted(body: CountPermitted) -> Response:
    """How many tokens the grammar permits at each place. Raises InvalidRequest."""
    return await _following.run(partial(_permitted, body))


def _rendered(blocks: Sequence[str]) -> Response:
    highlighter = Highlighter()
    return json_response({"html": [render(block, highlighter) for block in blocks]})


def _parsed(body: ParseHarmony) -> Response:
    if (body.text is None) == (body.tokens is None):
        raise invalid("text", "expected either text or tokens")
    if body.text is None:
        token_ids = list(read_ids(array(body.tokens, "tokens", MAX_IDS), "tokens"))
    else:
        token_ids = encode_within(body.text, MAX_IDS, control=True)
        if len(token_ids) > MAX_IDS:
            raise invalid("text", f"it has more than {MAX_IDS} tokens")
    sampled = None if body.sampled is None else _spans(body.sampled, len(token_ids))
    found = parse(token_ids, body.tools or (), sampled)
    messages = list(islice(found, MAX_MESSAGES + 1))
    if len(messages) > MAX_MESSAGES:
        param = "text" if body.text is not None else "tokens"
        raise invalid(param, f"it has more than {MAX_MESSAGES} messages")
    token_bytes = hexadecimal(token_ids)
    return json_response({"token_ids": token_ids, "token_bytes": token_bytes, "messages": messages})


def _spans(value: Any, length: int) -> list[Span]:
    """The ranges in `sampled`: ascending, not empty, within `length` tokens. Raises APIError."""
    spans = array(value, "sampled", MAX_IDS)
    end = 0
    for index, span in enumerate(spans):
        whole = isinstance(span, list) and len(span) == 2 and all(type(n) is int for n in span)
        if not whole or not end <= span[0] < span[1] <= length:
            raise invalid(f"sampled.{index}", "expected ascending pairs of places of tokens")
        end = span[1]
    return [(span[0], span[1]) for span in spans]


def _permitted(body: CountPermitted) -> Response:
    token_ids = read_ids(array(body.tokens, "tokens", MAX_IDS), "tokens")
    if (problem := grammar_sandbox.shared().problem(body.grammar)) is not None:
        raise invalid("grammar", problem)
    try:
        found = permitted(body.grammar, token_ids)
    except GrammarError as error:
        raise invalid("grammar", str(error)) from error
    return json_response(
        {"permitted": found.counts, "refused": found.refused, "vocabulary": VOCAB_SIZE}
    )
