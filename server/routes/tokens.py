"""`POST /tokenize` and `/detokenize`, in the form of vLLM's.

Source: https://docs.vllm.ai/en/latest/serving/openai_compatible_server.html#tokenizer-api
"""

import asyncio
from functools import partial
from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from harmony.tokenizer import decode, encode_within
from server import threads
from server.context import context_of
from server.http import json_body
from server.http.answers import json_response
from server.http.authentication import authenticate
from server.inbound.prompts import read_ids
from server.schemas.base import note_unknown
from server.schemas.fields import array, invalid
from server.schemas.limits import MAX_IDS
from server.schemas.tokens import Detokenize, Tokenize

router = APIRouter()


@router.post("/tokenize")
async def tokenize(request: Request) -> Response:
    """Text -> its token ids, and on request each token's text."""
    authenticate(request)
    context = context_of(request)
    wanted = await json_body.parse(request, Tokenize)
    note_unknown(wanted, "Tokenize")
    context.model(wanted.model)
    length = context.gateway.backend.info.context_length
    return json_response({**await asyncio.to_thread(_tokens, wanted), "max_model_len": length})


@router.post("/detokenize")
async def detokenize(request: Request) -> Response:
    """Token ids -> their text, control tokens spelled out."""
    authenticate(request)
    wanted = await json_body.parse(request, Detokenize)
    is_small = threads.is_small(wanted.tokens)
    note_unknown(wanted, "Detokenize")
    context_of(request).model(wanted.model)
    return json_response({"prompt": await threads.run(partial(_text, wanted), small=is_small)})


def _text(wanted: Detokenize) -> str:
    return decode(read_ids(array(wanted.tokens, "tokens", MAX_IDS), "tokens"))


def _tokens(wanted: Tokenize) -> dict[str, Any]:
    """Takes seconds for megabytes."""
    ids = encode_within(wanted.prompt, MAX_IDS, control=bool(wanted.control_tokens))
    if len(ids) > MAX_IDS:
        raise invalid("prompt", f"it has more than {MAX_IDS} tokens")
    strings = [decode((token,)) for token in ids] if wanted.return_token_strs else None
    return {"count": len(ids), "tokens": ids, "token_strs": strings}
