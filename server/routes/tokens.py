"""`POST /tokenize` and `/detokenize`, in the form of vLLM's.

Source: https://docs.vllm.ai/en/latest/serving/openai_compatible_server.html#tokenizer-api
"""

import asyncio
from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from harmony.tokenizer import decode, encode, encode_with_control
from server import body
from server.auth import authenticate
from server.context import context_of
from server.inbound.prompts import read_ids
from server.respond import json_response
from server.schemas.base import note_unknown
from server.schemas.tokens import Detokenize, Tokenize

router = APIRouter()


@router.post("/tokenize")
async def tokenize(request: Request) -> Response:
    """Text -> its token ids, and on request each token's text."""
    authenticate(request)
    context = context_of(request)
    wanted = await body.parse(request, Tokenize)
    note_unknown(wanted, "Tokenize")
    context.model(wanted.model)
    length = context.gateway.backend.info.context_length
    return json_response({**await asyncio.to_thread(_tokens, wanted), "max_model_len": length})


@router.post("/detokenize")
async def detokenize(request: Request) -> Response:
    """Token ids -> their text, control tokens spelled out."""
    authenticate(request)
    wanted = await body.parse(request, Detokenize)
    note_unknown(wanted, "Detokenize")
    context_of(request).model(wanted.model)
    return json_response({"prompt": decode(read_ids(wanted.tokens, "tokens"))})


def _tokens(wanted: Tokenize) -> dict[str, Any]:
    """Takes seconds for megabytes."""
    ids = (encode_with_control if wanted.control_tokens else encode)(wanted.prompt)
    strings = [decode((token,)) for token in ids] if wanted.return_token_strs else None
    return {"count": len(ids), "tokens": ids, "token_strs": strings}
