"""vLLM's token interface: `POST /inference/v1/generate` of `vllm serve --enable-scale-out`.

It accepts and streams token ids, and uses the sampling parameters of the request only.
`/v1/completions` would add the defaults of the checkpoint, and return text with its offsets.
Checked against vLLM 0.32.
"""

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import httpx

from adapters.base import FEATURES, GenerationChunk, GenerationRequest, TokenLogprobs
from adapters.errors import BackendError, BackendFailed, GenerationFailed
from adapters.http.readers import EventReader
from adapters.http.refusals import BAD_REQUEST
from adapters.http.wire import JSON, Reader, ServerInfo, bounded_logprob
from adapters.reasons import finish_reason
from adapters.vllm.sampling import sampling_fields

# The default of --max-num-seqs on GPUs with less than 70 GiB, and on the A100; others have 1,024.
# The server does not report it. More requests would wait in its queue instead of this server's.
_MAX_REQUESTS = 256
# The message of an error event where the engine ended a generation with `error`, and goes on.
_GAVE_UP = "Internal server error"
_MAX_LOGPROBS = 20  # vLLM's default of --max-logprobs


class VLLMWire:
    """Implements `Wire` for vLLM. model: the name at the server; empty selects the first listed."""

    name = "vllm-http"
    path = "/inference/v1/generate"
    refused_statuses = BAD_REQUEST | {422}
    reusable = True

    def __init__(self, model: str = "") -> None:
        self._model = model

    async def describe(self, client: httpx.AsyncClient) -> ServerInfo:
        response = await client.get("/v1/models")
        response.raise_for_status()
        listed = response.json()["data"]
        models = [model for model in listed if self._model in ("", model["id"])]
        if not models:
            raise BackendFailed(f"{client.base_url} does not serve {self._model or 'a model'}")
        # A server with this path refuses an empty body, so that the check samples nothing.
        if (await client.post(self.path, json={})).status_code == httpx.codes.NOT_FOUND:
            raise BackendFailed(
                f"{client.base_url} does not take token ids: start vLLM with --enable-scale-out"
            )
        length = _context_length(models[0], listed)
        return ServerInfo(models[0]["id"], length, FEATURES, _MAX_REQUESTS)

    def body(self, request: GenerationRequest, server: ServerInfo) -> JSON:
        sampling = sampling_fields(request)
        if request.logprobs:
            # The server includes the sampled token in the list, whatever its rank.
            sampling["logprobs"] = min(request.logprobs + 1, _MAX_LOGPROBS)
        if request.grammar is not None:
            sampling["structured_outputs"] = {"grammar": request.grammar}
        body: JSON = {
            "request_id": request.request_id,
            "model": server.model,
            "token_ids": request.prompt_token_ids,
            "sampling_params": sampling,
            # Otherwise a reasoning parser of the engine would exempt reasoning from the grammar.
            "reasoning_ended": True,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        optional = {"priority": request.priority or None, "cache_salt": request.cache_salt}
        return body | {name: value for name, value in optional.items() if value is not None}

    def reader(self, request: GenerationRequest) -> Reader:
        return VLLMReader(request)

    async def leave(self, response: httpx.Response, rest: AsyncIterator[bytes]) -> None:
        pass


def _context_length(model: JSON, listed: list[JSON]) -> Any:
    """That of the model, or of the one that it adapts: vLLM lists LoRA adapters without one."""
    parents = [each for each in listed if each["id"] == model.get("parent")]
    lengths = (each["max_model_len"] for each in (model, *parents, *listed))
    return next((length for length in lengths if length is not None), None)


class VLLMReader(EventReader):
    """Reads `GenerateTokensStreamResponse` events. The usage follows the last tokens."""

    engine = "vLLM"
    refused_statuses = VLLMWire.refused_statuses

    def __init__(self, request: GenerationRequest) -> None:
        super().__init__(request)
        self._cached: int | None = None

    def push(self, event: JSON) -> GenerationChunk | None:
        if usage := event.get("usage"):
            details = usage.get("prompt_tokens_details") or {}
            self._cached = details.get("cached_tokens")
        # The event of the usage has no choices, and follows the last tokens.
        return None if event.get("choices") == [] else super().push(event)

    def _error(self, status: int, message: str) -> BackendError:
        if message == _GAVE_UP:
            return GenerationFailed("the vLLM engine ended the generation: error")
        return super()._error(status, message)

    def finish(self) -> GenerationChunk:
        return replace(super().finish(), cached_tokens=self._cached)

    def _chunk(self, event: JSON) -> GenerationChunk:
        choice = event["choices"][0]
        word = choice["finish_reason"]
        reason = None if word is None else finish_reason(word, self.engine)
        return GenerationChunk(tuple(choice["token_ids"]), self._logprobs(choice), reason)

    def _logprobs(self, choice: JSON) -> tuple[TokenLogprobs, ...] | None:
        count = self._request.logprobs
        if count is None:
            return None
        return tuple(_token(entry, count) for entry in choice["logprobs"]["content"])


def _token(entry: dict[str, Any], count: int) -> TokenLogprobs:
    """The logprobs of one token. vLLM lists the sampled token first, whatever its rank."""
    listed = [
        (each["token_id"], bounded_logprob(each["logprob"])) for each in entry["top_logprobs"]
    ]
    top = sorted(listed, key=lambda pair: -pair[1])
    return TokenLogprobs(entry["token_id"], bounded_logprob(entry["logprob"]), tuple(top[:count]))
