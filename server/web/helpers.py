"""What the playground needs beside the API: HTML of Markdown, and messages of pasted harmony."""

import asyncio
from functools import partial
from typing import Any

from harmony.tokenizer import encode_within
from server import threads
from server.inbound.prompts import read_ids
from server.outbound.token_bytes import hexadecimal
from server.schemas.fields import array, invalid
from server.schemas.limits import MAX_IDS
from server.schemas.web import ParseHarmony, RenderBlocks
from server.web.markup import render
from server.web.parsing import parse

MAX_CHARACTERS = 100_000
"""Characters of Markdown in one request: about a quarter of a second."""

_rendering = asyncio.Semaphore(2)
"""Requests that render at once: the work holds the interpreter, and streams share it."""


async def rendered_blocks(body: RenderBlocks) -> dict[str, Any]:
    """The HTML of each block, made on a thread. Raises InvalidRequest for too much text."""
    if sum(map(len, body.blocks)) > MAX_CHARACTERS:
        raise invalid("blocks", f"expected at most {MAX_CHARACTERS} characters")
    async with _rendering:
        html = await asyncio.to_thread(lambda: [render(block) for block in body.blocks])
    return {"html": html}


async def parsed_harmony(body: ParseHarmony) -> dict[str, Any]:
    """The messages of pasted harmony with their repairs, and its tokens with their bytes.

    Raises InvalidRequest.
    """
    small = threads.is_small([body.text, body.tokens])
    return await threads.run(partial(_parsed, body), small=small)


def _parsed(body: ParseHarmony) -> dict[str, Any]:
    if (body.text is None) == (body.tokens is None):
        raise invalid("text", "expected either text or tokens")
    if body.text is None:
        token_ids = list(read_ids(array(body.tokens, "tokens", MAX_IDS), "tokens"))
    else:
        token_ids = encode_within(body.text, MAX_IDS, control=True)
        if len(token_ids) > MAX_IDS:
            raise invalid("text", f"it has more than {MAX_IDS} tokens")
    return {
        "token_ids": token_ids,
        "token_bytes": hexadecimal(token_ids),
        "messages": parse(token_ids, body.tools or ()),
    }
