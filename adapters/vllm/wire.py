"""vLLM's token interface: `POST /inference/v1/generate` of `vllm serve --enable-scale-out`.

It takes and streams token ids without detokenizing, and samples by what is sent alone:
`/v1/completions` would merge the checkpoint's own defaults, and answer with text and its offsets.
Checked against vLLM 0.32.
"""

from typing import Any

import httpx

from adapters.base import FEATURES, GenerationChunk, GenerationRequest, TokenLogprobs
from adapters.errors import BackendFailed
from adapters.http.engine import error_in
from adapters.http.wire import BAD_REQUEST, JSON, Ending, Reader, Served, refusal
from adapters.reasons import finish_reason
from adapters.vllm.sampling import sampling_fields

# The default of --max-num-seqs on most GPUs. The server does not say what it has.
_MAX_REQUESTS = 256
_MOST_LOGPROBS = 20  # vLLM's default of --max-logprobs.


class VLLMWire:
    """vLLM behind HTTP. model: its name there, empty for the first that the server lists."""

    name = "vllm-http"
    path = "/inference/v1/generate"
    refused = BAD_REQUEST | {422}
    reusable = True

    def __init__(self, model: str = "") -> None:
        self._model = model

    async def describe(self, client: httpx.AsyncClient) -> Served:
        listed = await client.get("/v1/models")
        listed.raise_for_status()
        models = listed.json()["data"]
        wanted = [model for model in models if self._model in ("", model["id"])]
        if not wanted:
            raise BackendFailed(f"{client.base_url} does not serve {self._model or 'a model'}")
        # An empty body is refused where the path is served: nothing is sampled to find out.
        if (await client.post(self.path, json={})).status_code == httpx.codes.NOT_FOUND:
            raise BackendFailed(
                f"{client.base_url} does not take token ids: start vLLM with --enable-scale-out"
            )
        return Served(wanted[0]["id"], wanted[0]["max_model_len"], FEATURES, _MAX_REQUESTS)

    def body(self, request: GenerationRequest, served: Served) -> JSON:
        sampling = sampling_fields(request)
        if request.logprobs:
            # The server counts the sampled token among the likeliest, whatever its rank.
            sampling["logprobs"] = min(request.logprobs + 1, _MOST_LOGPROBS)
        if request.grammar is not None:
            sampling["structured_outputs"] = {"grammar": request.grammar}
        body: JSON = {
            "request_id": request.request_id,
            "model": served.model,
            "token_ids": request.prompt_token_ids,
            "sampling_params": sampling,
            # Else a reasoning parser of the engine would let the reasoning escape the grammar.
            "reasoning_ended": True,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        return body | ({"priority": request.priority} if request.priority else {})

    def reader(self, request: GenerationRequest) -> Reader:
        return VLLMReader(request)


class VLLMReader:
    """Reads `GenerateTokensStreamResponse` events; the last one with tokens waits for the usage."""

    def __init__(self, request: GenerationRequest) -> None:
        self._request = request
        self._ending = Ending("vLLM")
        self._cached: int | None = None

    def push(self, event: JSON) -> GenerationChunk | None:
        if (error := error_in(event)) is not None:
            raise refusal(*error, self._request, VLLMWire.refused)
        if usage := event.get("usage"):
            details = usage.get("prompt_tokens_details") or {}
            self._cached = details.get("cached_tokens")
        if not event["choices"]:
            return None
        choice = event["choices"][0]
        chunk = GenerationChunk(tuple(choice["token_ids"]), self._logprobs(choice))
        if choice["finish_reason"] is None:
            return chunk
        reason = finish_reason(choice["finish_reason"], "vLLM")
        self._ending.hold(GenerationChunk(chunk.token_ids, chunk.logprobs, reason))
        return None

    def finish(self) -> GenerationChunk:
        return self._ending.release(self._cached)

    def _logprobs(self, choice: JSON) -> tuple[TokenLogprobs, ...] | None:
        count = self._request.logprobs
        if count is None:
            return None
        return tuple(_token(entry, count) for entry in choice["logprobs"]["content"])


def _token(entry: dict[str, Any], count: int) -> TokenLogprobs:
    """vLLM puts the sampled token first, whatever its rank."""
    top = sorted(((one["token_id"], one["logprob"]) for one in entry["top_logprobs"]), key=_worst)
    return TokenLogprobs(entry["token_id"], entry["logprob"], tuple(top[:count]))


def _worst(entry: tuple[int, float]) -> float:
    return -entry[1]
