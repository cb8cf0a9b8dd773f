"""Sampling from a backend, and what its chunks have."""

from collections.abc import Iterable

from adapters.base import Backend, GenerationChunk, GenerationRequest, TokenLogprobs


async def run(backend: Backend, request: GenerationRequest) -> list[GenerationChunk]:
    """All chunks of a request."""
    return [chunk async for chunk in backend.generate(request)]


async def sample(backend: Backend, request: GenerationRequest) -> list[int]:
    """All tokens of a request."""
    return tokens(await run(backend, request))


def tokens(chunks: Iterable[GenerationChunk]) -> list[int]:
    return [token_id for chunk in chunks for token_id in chunk.token_ids]


def logprobs(chunks: Iterable[GenerationChunk]) -> list[TokenLogprobs]:
    return [entry for chunk in chunks for entry in chunk.logprobs or ()]
