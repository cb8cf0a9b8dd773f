"""SGLang's native interface: `POST /generate` with `input_ids`.

Grammars need `--grammar-backend llguidance` (its `ebnf` then is Lark), seeds
`--enable-deterministic-inference`. Source: https://docs.sglang.io/docs/basic_usage/sampling_params
and SGLang's tokenizer manager; not run against a real server.
"""

import httpx

from adapters.base import GenerationChunk, GenerationRequest, TokenLogprobs
from adapters.http.engine import error_in
from adapters.http.wire import BAD_REQUEST, JSON, Ending, Reader, Served, refusal
from adapters.reasons import finish_reason

_FEATURES = frozenset(
    {
        *("logit_bias", "penalties", "logprobs", "phases", "cached_tokens"),
        *("top_k", "min_p", "structure"),
    }
)
# Some versions keep them in 32 bits, and one that does not fit fails the whole batch.
_SEEDS = 1 << 31


class SGLangWire:
    """SGLang behind HTTP."""

    name = "sglang"
    path = "/generate"
    refused = BAD_REQUEST
    reusable = True

    async def describe(self, client: httpx.AsyncClient) -> Served:
        listed = await client.get("/v1/models")
        listed.raise_for_status()
        told = await client.get("/get_server_info")
        told.raise_for_status()
        model, arguments = listed.json()["data"][0], told.json()
        features = _FEATURES
        if arguments.get("grammar_backend") == "llguidance":
            features |= {"grammar"}
        if arguments.get("enable_deterministic_inference"):
            features |= {"seed"}
        return Served(model["id"], int(model["max_model_len"]), features)

    def body(self, request: GenerationRequest, served: Served) -> JSON:
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
            "rid": request.request_id,
            "input_ids": request.prompt_token_ids,
            "sampling_params": params,
            "stream": True,
        }
        if request.logprobs is not None:
            body |= {"return_logprob": True, "top_logprobs_num": request.logprobs}
        return body

    def reader(self, request: GenerationRequest) -> Reader:
        return SGLangReader(request)


class SGLangReader:
    """Each event brings all ids so far, or only the new ones (`--incremental-streaming-output`)."""

    def __init__(self, request: GenerationRequest) -> None:
        self._request = request
        self._ending = Ending("SGLang")
        self._cached: int | None = None
        self._seen = 0

    def push(self, event: JSON) -> GenerationChunk | None:
        if (error := error_in(event)) is not None:
            raise refusal(*error, self._request)
        meta = event["meta_info"]
        token_ids = event["output_ids"]
        whole = len(token_ids) == meta["completion_tokens"]
        start = self._seen if whole else 0
        new = tuple(token_ids[start:])
        self._seen += len(new)
        self._cached = meta.get("cached_tokens")
        chunk = GenerationChunk(new, self._logprobs(meta, len(new)))
        if meta["finish_reason"] is None:
            return chunk if new else None
        self._ending.hold(self._last(chunk, meta["finish_reason"]))
        return None

    def finish(self) -> GenerationChunk:
        return self._ending.release(self._cached)

    def _last(self, chunk: GenerationChunk, reason: JSON) -> GenerationChunk:
        if reason["type"] == "abort":
            message = str(reason.get("message", "aborted"))
            raise refusal(int(reason.get("status_code") or 500), message, self._request)
        return GenerationChunk(
            chunk.token_ids, chunk.logprobs, finish_reason(reason["type"], "SGLang")
        )

    def _logprobs(self, meta: JSON, count: int) -> tuple[TokenLogprobs, ...] | None:
        """SGLang's triples are (logprob, id, text); like the ids, whole or new."""
        if self._request.logprobs is None:
            return None
        sampled = meta["output_token_logprobs"]
        top = meta.get("output_top_logprobs") or [None] * len(sampled)
        # Of a list that holds all or the new ones, the new ones are the last.
        pairs = list(zip(sampled, top, strict=True))[len(sampled) - count :]
        return tuple(
            TokenLogprobs(
                token_id, logprob, tuple((rival, value) for value, rival, _ in best or ())
            )
            for (logprob, token_id, _), best in pairs
        )
