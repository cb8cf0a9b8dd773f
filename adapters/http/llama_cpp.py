"""llama.cpp's server: `POST /completion` with a token array.

Grammars need a server built with `-DLLAMA_LLGUIDANCE=ON`; one is tried at start. Penalties are left
out: llama.cpp counts the prompt's tokens too. Which tokens end a generation is the GGUF file's to
say; gpt-oss files name the ones that harmony does. A stream leaves out the ids of a character that
takes several tokens, all but the last: they are found again by encoding the text.
Source: https://github.com/ggml-org/llama.cpp/blob/master/tools/server/README.md and the server's
`process_token`; not run against a real server.
"""

from collections.abc import Callable

import httpx

from adapters.base import GenerationChunk, GenerationRequest, TokenLogprobs
from adapters.http.engine import error_in
from adapters.http.wire import BAD_REQUEST, JSON, Ending, Reader, Served, refusal
from adapters.reasons import finish_reason

_FEATURES = frozenset(
    {"logit_bias", "seed", "logprobs", "phases", "cached_tokens", "top_k", "min_p"}
)
_ANY_GRAMMAR = '%llguidance {}\nstart: "a"'
_SEEDS = 1 << 32
_UNKNOWN_LOGPROB = -9999.0  # what vLLM says, too
_FINISH = {"eos": "stop", "limit": "length"}

Encode = Callable[[str], list[int]]


class LlamaCppWire:
    """llama.cpp behind HTTP. encode: text -> ids, of gpt-oss's vocabulary."""

    name = "llama-cpp"
    path = "/completion"
    refused = BAD_REQUEST

    def __init__(self, encode: Encode) -> None:
        self._encode = encode

    async def describe(self, client: httpx.AsyncClient) -> Served:
        told = await client.get("/props")
        told.raise_for_status()
        properties = told.json()
        masks = await client.post(
            self.path, json={"prompt": [0], "n_predict": 1, "grammar": _ANY_GRAMMAR}
        )
        return Served(
            properties.get("model_alias") or properties["model_path"],
            int(properties["default_generation_settings"]["n_ctx"]),
            _FEATURES | ({"grammar"} if masks.is_success else frozenset()),
        )

    def body(self, request: GenerationRequest, served: Served) -> JSON:
        sampling = request.sampling
        body: JSON = {
            "prompt": request.prompt_token_ids,
            "n_predict": request.max_tokens,
            "stream": True,
            "return_tokens": True,
            "timings_per_token": True,
            "cache_prompt": True,
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "top_k": sampling.top_k,
            "min_p": sampling.min_p,
            "repeat_penalty": 1.0,
            "samplers": ["top_k", "top_p", "min_p", "temperature"],
            "logit_bias": [[token_id, bias] for token_id, bias in sampling.logit_bias.items()],
        }
        if request.seed is not None:
            body["seed"] = request.seed % _SEEDS
        if request.grammar is not None:
            head = "" if request.grammar.startswith("%llguidance") else "%llguidance {}\n"
            body["grammar"] = head + request.grammar
        if request.logprobs is not None:
            body["n_probs"] = max(1, request.logprobs)
        return body

    def reader(self, request: GenerationRequest) -> Reader:
        return LlamaCppReader(request, self._encode)


class LlamaCppReader:
    """Reads one event a token; the last event has none and says why it ended."""

    def __init__(self, request: GenerationRequest, encode: Encode) -> None:
        self._request = request
        self._encode = encode
        self._ending = Ending("llama.cpp")
        self._cached: int | None = None
        self._seen = 0

    def push(self, event: JSON) -> GenerationChunk | None:
        if (error := error_in(event)) is not None:
            raise refusal(*error, self._request)
        timings = event.get("timings", {})
        self._cached = timings.get("cache_n", self._cached)
        if event["stop"]:
            reason = _FINISH.get(event["stop_type"], str(event["stop_type"]))
            self._ending.hold(
                GenerationChunk(
                    (),
                    None if self._request.logprobs is None else (),
                    finish_reason(reason, "llama.cpp"),
                )
            )
            return None
        if not event["tokens"]:
            return None
        token_ids = self._whole(event, timings.get("predicted_n", self._seen + 1))
        self._seen += len(token_ids)
        return GenerationChunk(token_ids, self._logprobs(event, token_ids))

    def finish(self) -> GenerationChunk:
        return self._ending.release(self._cached)

    def _whole(self, event: JSON, sampled: int) -> tuple[int, ...]:
        """The event's ids, and before them those that were left out since the last event."""
        told = tuple(event["tokens"])
        if sampled <= self._seen + len(told):
            return told
        return tuple(self._encode(event["content"])) or told

    def _logprobs(
        self, event: JSON, token_ids: tuple[int, ...]
    ) -> tuple[TokenLogprobs, ...] | None:
        """Ids that were left out have none."""
        count = self._request.logprobs
        if count is None:
            return None
        (told,) = event["completion_probabilities"]
        top = tuple((one["id"], one["logprob"]) for one in told["top_logprobs"][:count])
        unknown = tuple(TokenLogprobs(token_id, _UNKNOWN_LOGPROB) for token_id in token_ids[:-1])
        return (*unknown, TokenLogprobs(token_ids[-1], told["logprob"], top))
