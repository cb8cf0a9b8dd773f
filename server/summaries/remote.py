"""A model of another server, with the API of Chat Completions, that writes summaries.

Source: https://platform.openai.com/docs/api-reference/chat/create
"""

import json
from typing import Any

import httpx

from adapters.cancel_safe import CancelSafeTransport
from server.summaries.base import NoCapacity, SummaryFailed, SummaryUsage
from server.summaries.model import Completion
from server.summaries.prompt import SummaryPrompt

MOST_CALLS = 32
"""Calls at once; with more, summaries are skipped."""
MOST_BYTES = 256 * 1024
"""Bytes of an answer."""
_MOST_TOKENS = 1 << 32
"""A usage with more counts as none: orjson writes no sum that needs more than 64 bits."""
# Without compression, the bytes that come are the bytes that are read.
_HEADERS = {"accept-encoding": "identity"}
_TIMEOUT = httpx.Timeout(30, connect=5)
_FULL = frozenset({httpx.codes.TOO_MANY_REQUESTS, httpx.codes.SERVICE_UNAVAILABLE})


class RemoteModel:
    """Implements `server.summaries.model.SummaryModel`.

    url: the base URL of the API, such as `http://host:8000/v1`. model: the model's name there.
    key: the API key; None if the server needs none.
    """

    def __init__(
        self,
        url: str,
        model: str,
        key: str | None = None,
        *,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._model = model
        self._calls = 0
        limits = httpx.Limits(max_connections=MOST_CALLS)
        connections = transport or httpx.AsyncHTTPTransport(limits=limits, trust_env=False)
        self._client = httpx.AsyncClient(
            base_url=url,
            headers=_HEADERS if key is None else {**_HEADERS, "authorization": f"Bearer {key}"},
            timeout=_TIMEOUT,
            transport=CancelSafeTransport(connections),
            # A proxy would see the reasoning of all answers.
            trust_env=False,
        )

    async def complete(self, prompt: SummaryPrompt) -> Completion:
        """The answer. Raises NoCapacity and SummaryFailed, without words of the other server."""
        if self._calls >= MOST_CALLS:
            raise NoCapacity
        self._calls += 1
        try:
            return _completion(await self._post(_body(prompt, self._model)))
        except httpx.HTTPError as error:
            kind = type(error).__name__
            raise SummaryFailed(f"the summariser cannot be reached: {kind}") from error
        finally:
            self._calls -= 1

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    async def _post(self, body: dict[str, Any]) -> bytes:
        """The body of a successful answer."""
        async with self._client.stream("POST", "chat/completions", json=body) as response:
            if response.status_code in _FULL:
                raise NoCapacity
            if not response.is_success or "content-encoding" in response.headers:
                raise SummaryFailed(f"the summariser answers with status {response.status_code}")
            content = bytearray()
            async for chunk in response.aiter_bytes():
                content += chunk
                if len(content) > MOST_BYTES:
                    raise SummaryFailed("the summariser's answer is too long")
            return bytes(content)


def _body(prompt: SummaryPrompt, model: str) -> dict[str, Any]:
    answer_format = {"name": "summary", "strict": True, "schema": prompt.schema}
    return {
        "model": model,
        "messages": [
            {"role": "system", "content": prompt.instructions},
            {"role": "user", "content": prompt.input},
        ],
        "response_format": {"type": "json_schema", "json_schema": answer_format},
        "reasoning_effort": "low",
        "temperature": 0,
        # A reasoning model needs some tokens before its answer.
        "max_completion_tokens": 2 * prompt.max_tokens,
        "store": False,
    }


def _completion(content: bytes) -> Completion:
    try:
        value: Any = json.loads(content)
    except (RecursionError, ValueError):
        value = None
    match value:
        case {"choices": [{"message": {"content": str(text)}}, *_]}:
            return Completion(text, _usage(value.get("usage")))
        case {"usage": usage}:
            raise SummaryFailed("the summariser's answer has no text", _usage(usage))
    raise SummaryFailed("the summariser's answer has no text")


def _usage(value: Any) -> SummaryUsage:
    match value:
        case {"prompt_tokens": int(read), "completion_tokens": int(sampled)} if (
            max(read, sampled) <= _MOST_TOKENS
        ):
            return SummaryUsage(max(read, 0), max(sampled, 0))
    return SummaryUsage()
