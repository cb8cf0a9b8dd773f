"""llama.cpp's server: `POST /completion` with a token array.

Grammars need a server built with `-DLLAMA_LLGUIDANCE=ON`; `describe` tries one. A server samples
without the grammar if it does not compile or becomes too complex, and reports this in its log only.
It also matches harmony's structural tokens by their spelling, which text may contain. A bias
forbids the structural tokens that a grammar does not name; `GrammarGuard` checks the others.
Therefore the feature `structure` is missing: the server then applies a separate grammar to the
answer, which names only its end token. Arguments of calls have no such grammar.

Penalties are not sent, since llama.cpp counts the tokens of the prompt as well. The GGUF file
defines which tokens end a generation; for gpt-oss these are harmony's. Each slot reports the whole
context, but without `-np N` all slots share one, and running requests fail when it is full.

An event has one id. While the text ends inside a character, the server sends no event. The missing
ids are reconstructed by encoding the text of the next event. If their number or the last id differs
from what the server reports, the generation fails. At the token limit the ids of an incomplete
character are lost. The server promises to keep connections open, but closes them after a stream, so
each completion has its own connection.

The server notices after its current step that a client has left. Until then the slot is busy, and a
request with the same prefix gets another slot, which computes the prefix again. Therefore `leave`
ends the sending half of the connection only, and reads until the server closes it: by then the
server has queued the cancellation before any later request.

Checked against the llama.cpp of llama-cpp-python 0.3.36, which reports b1-0c1e570.
"""

import asyncio
import re
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import suppress

import httpx

from adapters.base import LEAST_LOGPROB, GenerationChunk, GenerationRequest, TokenLogprobs
from adapters.errors import BackendFailed
from adapters.http.readers import EventReader
from adapters.http.refusals import BAD_REQUEST
from adapters.http.wire import JSON, Reader, ServerInfo, bounded_logprob
from adapters.reasons import finish_reason

_FEATURES = frozenset(
    {"logit_bias", "seed", "logprobs", "phases", "cached_tokens", "top_k", "min_p"}
)
# A token that no model samples by itself.
_UNLIKELY = 1
_GRAMMAR = f"%llguidance {{}}\nstart: <[{_UNLIKELY}]>"
_SEEDS = (1 << 32) - 1  # the next 32-bit number means no seed
_FINISH = {"eos": "stop", "limit": "length"}
# llama.cpp makes these ordinary tokens when it loads a gpt-oss model.
_SPELLED = ("<|start|>", "<|channel|>", "<|constrain|>", "<|message|>", "<|end|>")
# One arrives as a rule. The limit is for proxies that do not pass on that the client has left.
_PARTS_AFTER_LEAVING = 16
_LEAVING_SECONDS = 10.0
_ID = re.compile(r"<\[(\d+)]>")
# The fields of the last event; the others repeat the request, with the prompt as text.
_LAST_FIELDS = ["stop", "stop_type", "tokens_predicted", "timings"]

Encode = Callable[[str], list[int]]


class LlamaCppWire:
    """Implements `Wire` for llama.cpp. encode: converts text with control tokens to ids."""

    name = "llama-cpp"
    path = "/completion"
    refused_statuses = BAD_REQUEST
    reusable = False

    def __init__(self, encode: Encode) -> None:
        self._encode = encode

    async def describe(self, client: httpx.AsyncClient) -> ServerInfo:
        response = await client.get("/props")
        response.raise_for_status()
        properties = response.json()
        completion = await client.post(
            self.path,
            json={"prompt": [0], "n_predict": 1, "return_tokens": True, "grammar": _GRAMMAR},
        )
        if completion.status_code not in self.refused_statuses:
            completion.raise_for_status()
        masks = completion.is_success and completion.json()["tokens"] == [_UNLIKELY]
        return ServerInfo(
            properties.get("model_alias") or properties["model_path"],
            int(properties["default_generation_settings"]["n_ctx"]),
            _FEATURES | ({"grammar"} if masks else frozenset()),
            properties.get("total_slots"),
        )

    def body(self, request: GenerationRequest, server: ServerInfo) -> JSON:
        sampling = request.sampling
        body: JSON = {
            "prompt": request.prompt_token_ids,
            "n_predict": request.max_tokens,
            "stream": True,
            "return_tokens": True,
            "response_fields": _LAST_FIELDS,
            "timings_per_token": True,
            "cache_prompt": True,
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "top_k": sampling.top_k,
            "min_p": sampling.min_p,
            "repeat_penalty": 1.0,
            "samplers": ["temperature", "min_p", "top_k", "top_p"],
            "logit_bias": [[token_id, bias] for token_id, bias in sampling.logit_bias.items()],
        }
        if request.seed is not None:
            body["seed"] = request.seed % _SEEDS
        if request.grammar is not None:
            head = "" if request.grammar.startswith("%llguidance") else "%llguidance {}\n"
            body["grammar"] = head + request.grammar
            forbidden = self._forbidden_ids(request.grammar)
            body["logit_bias"] += [[token_id, False] for token_id in forbidden]
        if request.logprobs is not None:
            body["n_probs"] = max(1, request.logprobs)
        return body

    def _forbidden_ids(self, grammar: str) -> list[int]:
        """Structural tokens that `grammar` does not contain; none if it contains any by name."""
        rest, _ = _ID.subn("", grammar)
        if "<[" in rest or any(spelled in rest for spelled in _SPELLED):
            return []
        named = {int(token_id) for token_id in _ID.findall(grammar)}
        structural = [token_id for spelled in _SPELLED for token_id in self._encode(spelled)]
        return [token_id for token_id in structural if token_id not in named]

    def reader(self, request: GenerationRequest) -> Reader:
        return LlamaCppReader(request, self._encode)

    async def leave(self, response: httpx.Response, rest: AsyncIterator[bytes]) -> None:
        connection = response.extensions["network_stream"].get_extra_info("socket")
        with suppress(OSError, httpx.HTTPError, httpx.StreamError):
            _end_sending(connection)
            async with asyncio.timeout(_LEAVING_SECONDS):
                for _ in range(_PARTS_AFTER_LEAVING):
                    if await anext(rest, None) is None:
                        return


def _end_sending(connection: socket.socket) -> None:
    # The object of uvloop has no `shutdown`.
    with socket.fromfd(connection.fileno(), connection.family, connection.type) as same:
        same.shutdown(socket.SHUT_WR)


class LlamaCppReader(EventReader):
    """Reads events of one token. The last event has no token, but the finish reason."""

    engine = "llama.cpp"

    def __init__(self, request: GenerationRequest, encode: Encode) -> None:
        super().__init__(request)
        self._encode = encode
        self._count = 0

    def _chunk(self, event: JSON) -> GenerationChunk:
        if event["stop"]:
            return self._last_chunk(event)
        token_ids = self._token_ids(event)
        cached = self._unreported_cached(event)
        self._count += len(token_ids)
        return GenerationChunk(token_ids, self._logprobs(event, token_ids), cached_tokens=cached)

    def _last_chunk(self, event: JSON) -> GenerationChunk:
        kind = str(event["stop_type"])
        if kind == "eos" and event["tokens_predicted"] > self._count:
            # The ids of the incomplete character and of the stop token are missing.
            raise _missing_tokens()
        logprobs = None if self._request.logprobs is None else ()
        reason = finish_reason(_FINISH.get(kind, kind), self.engine)
        return GenerationChunk((), logprobs, reason, self._unreported_cached(event))

    def _unreported_cached(self, event: JSON) -> int | None:
        """The cached tokens for the first chunk: a phase may end the stream before the last."""
        return int(event["timings"]["cache_n"]) if self._count == 0 else None

    def _token_ids(self, event: JSON) -> tuple[int, ...]:
        """The id of the event, after the ids that the server omitted since the last event."""
        (last,) = event["tokens"]
        count = event["tokens_predicted"] - self._count
        if count == 1:
            return (last,)
        token_ids = tuple(self._encode(event["content"]))
        if len(token_ids) != count or token_ids[-1] != last:
            raise _missing_tokens()
        return token_ids

    def _logprobs(
        self, event: JSON, token_ids: tuple[int, ...]
    ) -> tuple[TokenLogprobs, ...] | None:
        """The logprobs of `token_ids`; omitted ids have `LEAST_LOGPROB`."""
        count = self._request.logprobs
        if count is None:
            return None
        (entry,) = event["completion_probabilities"]
        top = tuple(
            (one["id"], bounded_logprob(one["logprob"])) for one in entry["top_logprobs"][:count]
        )
        unknown = tuple(TokenLogprobs(token_id, LEAST_LOGPROB) for token_id in token_ids[:-1])
        return (*unknown, TokenLogprobs(token_ids[-1], bounded_logprob(entry["logprob"]), top))


def _missing_tokens() -> BackendFailed:
    return BackendFailed("llama.cpp did not send all tokens that it sampled")
