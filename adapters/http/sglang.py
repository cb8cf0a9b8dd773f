"""SGLang's native interface: `POST /generate` with `input_ids`.

Grammars need `--grammar-backend llguidance` (its `ebnf` then is Lark), seeds
`--enable-deterministic-inference`. Source: https://docs.sglang.io/docs/basic_usage/sampling_params
and SGLang's tokenizer manager; not tested with a real server.
"""

from collections.abc import AsyncIterator
from secrets import token_hex
from typing import Any

import httpx

from adapters.base import FinishReason, GenerationChunk, GenerationRequest, TokenLogprobs
from adapters.http.readers import EventReader
from adapters.http.refusals import BAD_REQUEST
from adapters.http.wire import JSON, Reader, ServerInfo, bounded_logprob
from adapters.reasons import finish_reason

_FEATURES = frozenset(
    {
        *("logit_bias", "penalties", "logprobs", "phases", "cached_tokens"),
        *("top_k", "min_p", "structure"),
    }
)
# Some versions store seeds in 32 bits. A seed that does not fit makes the whole batch fail.
_SEEDS = 1 << 31


class SGLangWire:
    """Implements `Wire` for SGLang."""

    name = "sglang"
    path = "/generate"
    refused_statuses = BAD_REQUEST
    reusable = True

    async def describe(self, client: httpx.AsyncClient) -> ServerInfo:
        models = await client.get("/v1/models")
        models.raise_for_status()
        info = await client.get("/server_info")
        if info.status_code == httpx.codes.NOT_FOUND:
            # The name in older versions, which newer ones will remove.
            info = await client.get("/get_server_info")
        info.raise_for_status()
        model, arguments = models.json()["data"][0], info.json()
        features = _FEATURES
        if arguments.get("grammar_backend") == "llguidance":
            features |= {"grammar"}
        if arguments.get("enable_deterministic_inference"):
            features |= {"seed"}
        return ServerInfo(model["id"], _context_length(model, arguments), features)

    def body(self, request: GenerationRequest, server: ServerInfo) -> JSON:
        sampling = request.sampling
        params: JSON = {
            "max_new_tokens": request.max_tokens,
            "stop_token_ids": sorted(request.stop_token_ids),
            "no_stop_trim": True,
            "skip_special_tokens": False,
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "top_k": sampling.top_k or -1,
            "min_p": sampling.min_p,
            "presence_penalty": sampling.presence_penalty,
            "frequency_penalty": sampling.frequency_penalty,
            "repetition_penalty": sampling.repetition_penalty,
        }
        if sampling.logit_bias:
            params["logit_bias"] = dict(sampling.logit_bias)
        if request.seed is not None:
            params["sampling_seed"] = request.seed % _SEEDS
        if request.grammar is not None:
            params["ebnf"] = request.grammar
        body: JSON = {
            # SGLang refuses an id that it has, such as that of an attempt whose connection broke.
            "rid": f"{request.request_id}-{token_hex(4)}",
            "input_ids": request.prompt_token_ids,
            "sampling_params": params,
            "stream": True,
        }
        if request.logprobs is not None:
            body |= {"return_logprob": True, "top_logprobs_num": request.logprobs}
        if request.cache_salt is not None:
            body["extra_key"] = request.cache_salt
        return body

    def reader(self, request: GenerationRequest) -> Reader:
        return SGLangReader(request)

    async def leave(self, response: httpx.Response, rest: AsyncIterator[bytes]) -> None:
        pass


def _context_length(model: JSON, arguments: JSON) -> int:
    """The longest prompt and answer that SGLang takes, which its memory may limit.

    It also starts where its cache holds fewer tokens than the model's context. It then refuses
    prompts of `max_req_input_len` tokens or more; prompt and answer together have a few more.
    """
    length = int(model["max_model_len"]) - _reserved_tokens(arguments)
    longest = arguments.get("max_req_input_len")
    return length if longest is None else min(length, int(longest))


def _reserved_tokens(arguments: JSON) -> int:
    """The part of the context that speculative decoding reserves for the tokens of its drafts.

    SGLang refuses requests that need it. Which algorithms reserve it depends on the version. Where
    one does not, a few tokens of the context remain unused.
    """
    if not arguments.get("speculative_algorithm"):
        return 0
    width, depth, drafts, most_drafts = (
        int(arguments.get(name) or 0)
        for name in (
            "speculative_eagle_topk",
            "speculative_num_steps",
            "speculative_num_draft_tokens",
            "max_speculative_num_draft_tokens",
        )
    )
    return max(width * depth, drafts, most_drafts)


class SGLangReader(EventReader):
    """Reads events with all ids so far, or with the new ids (`--incremental-streaming-output`)."""

    engine = "SGLang"

    def __init__(self, request: GenerationRequest) -> None:
        super().__init__(request)
        self._count = 0

    def _status_without_code(self) -> int:
        # SGLang refuses a request by an event without a code, in an answer of status 200.
        return super()._status_without_code() if self._count else httpx.codes.BAD_REQUEST

    def _chunk(self, event: JSON) -> GenerationChunk:
        meta = event["meta_info"]
        # The Rust frontend of SGLang omits empty lists.
        token_ids = event.get("output_ids", [])
        whole = len(token_ids) == meta["completion_tokens"]
        start = self._count if whole else 0
        new = tuple(token_ids[start:])
        # The first chunk has them, since a phase may end the stream before the last.
        cached = meta.get("cached_tokens") if self._count == 0 else None
        self._count += len(new)
        reason = self._finish_reason(meta["finish_reason"], new)
        return GenerationChunk(new, self._logprobs(meta, len(new)), reason, cached)

    def _finish_reason(self, reason: JSON | None, new: tuple[int, ...]) -> FinishReason | None:
        if reason is None:
            return None
        if reason["type"] == "abort":
            message = str(reason.get("message", "aborted"))
            raise self._error(int(reason.get("status_code") or 500), message)
        # Older versions test the length first.
        is_stopped = not self._request.stop_token_ids.isdisjoint(new[-1:])
        return "stop" if is_stopped else finish_reason(reason["type"], self.engine)

    def _logprobs(self, meta: JSON, count: int) -> tuple[TokenLogprobs, ...] | None:
        """The logprobs of the last `count` ids. SGLang's entries are (logprob, id, text)."""
        if self._request.logprobs is None:
            return None
        # The lists have entries for all ids or for the new ids; the new ones are last.
        sampled = _last(meta.get("output_token_logprobs", []), count)
        top = _last(meta.get("output_top_logprobs") or [None] * len(sampled), count)
        return tuple(
            TokenLogprobs(
                token_id,
                bounded_logprob(logprob),
                tuple((other_id, bounded_logprob(value)) for value, other_id, _ in best or ()),
            )
            for (logprob, token_id, _), best in zip(sampled, top, strict=True)
        )


def _last(entries: list[Any], count: int) -> list[Any]:
    return entries[len(entries) - count :]
