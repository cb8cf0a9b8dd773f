"""`POST /tokenize` and `/detokenize`, compatible with vLLM.

Source: https://docs.vllm.ai/en/latest/serving/openai_compatible_server.html#tokenizer-api
"""

from functools import partial
from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from harmony.tokenizer import decode, encode_within
from server import threads
from server.context import context_of
from server.http.answers.answer import json_response
from server.http.bodies import json_body
from server.inbound.prompts import read_ids
from server.outbound.token_bytes import hexadecimal
from server.schemas.base import note_unknown
from server.schemas.fields import array, invalid
from server.schemas.limits import MAX_IDS
from server.schemas.tokens import Detokenize, Tokenize

router = APIRouter()


@router.post("/tokenize")
async def tokenize(request: Request) -> Response:
    """Encode text to token ids, and on request to the text or the bytes of each token."""
    context = context_of(request)
    body = await json_body.parse(request, Tokenize)
    note_unknown(body, "Tokenize")
    context.model(body.model)
    size = max(threads.size_of(body.prompt), threads.Size.MEDIUM)
    tokens = await threads.run(partial(_tokens, body), size)
    return json_response({**tokens, "max_model_len": context.context_length})


@router.post("/detokenize")
async def detokenize(request: Request) -> Response:
    """Decode token ids to text, control tokens included, and on request to each token's bytes."""
    body = await json_body.parse(request, Detokenize)
    size = threads.size_of(body.tokens)
    note_unknown(body, "Detokenize")
    context_of(request).model(body.model)
    return json_response(await threads.run(partial(_text, body), size))


def _text(body: Detokenize) -> dict[str, Any]:
    ids = read_ids(array(body.tokens, "tokens", MAX_IDS), "tokens")
    text: dict[str, Any] = {"prompt": decode(ids)}
    if body.return_token_bytes:
        text["token_bytes"] = hexadecimal(ids)
    return text


def _tokens(body: Tokenize) -> dict[str, Any]:
    """The tokens of the prompt. This takes seconds for megabytes of text."""
    ids = encode_within(body.prompt, MAX_IDS, control=bool(body.control_tokens))
    if len(ids) > MAX_IDS:
        raise invalid("prompt", f"it has more than {MAX_IDS} tokens")
    strings = [decode((token,)) for token in ids] if body.return_token_strs else None
    tokens: dict[str, Any] = {"count": len(ids), "tokens": ids, "token_strs": strings}
    if body.return_token_bytes:
        tokens["token_bytes"] = hexadecimal(ids)
    return tokens
