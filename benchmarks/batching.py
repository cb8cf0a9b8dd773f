"""Measure how much the results of a request depend on the other requests of its batch.

    python -m benchmarks.batching [--streams 16] [--tokens 64]

Each greedy request runs alone, and again in a batch with the others. The output has the number of
tokens before the first difference, and the largest difference of a token's logprob among these.
"""

import argparse
import asyncio

from adapters.base import GenerationRequest, SamplingParams, TokenLogprobs
from adapters.local.backend import LocalBackend
from benchmarks.library.backends import local_backend
from demo import checkpoint
from harmony.tokenizer import encode_with_control


async def sample(backend: LocalBackend, name: str, tokens: int) -> list[TokenLogprobs]:
    prompt = encode_with_control(f"<|start|>user<|message|>Request {name}<|end|><|start|>assistant")
    request = GenerationRequest(
        name, tuple(prompt), tokens, frozenset(), SamplingParams(temperature=0), logprobs=0
    )
    return [entry async for chunk in backend.generate(request) for entry in chunk.logprobs or ()]


async def main(streams: int, tokens: int) -> None:
    names = [str(number) for number in range(streams)]
    async with local_backend(checkpoint.ensure()) as backend:
        alone = [await sample(backend, name, tokens) for name in names]
        together = await asyncio.gather(*(sample(backend, name, tokens) for name in names))
    agreeing, furthest = [], 0.0
    for one, other in zip(alone, together, strict=True):
        pairs = list(zip(one, other, strict=True))
        equal = next((i for i, (a, b) in enumerate(pairs) if a.token_id != b.token_id), tokens)
        agreeing.append(equal)
        gaps = [abs(a.logprob - b.logprob) for a, b in pairs[:equal]]
        furthest = max(furthest, *gaps, 0.0)
    print(f"requests whose {tokens} tokens agree    {agreeing.count(tokens)} of {streams}")
    print(f"tokens before the first difference   {min(agreeing)} at the least")
    print(f"largest difference of a logprob      {furthest:.2g}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--streams", type=int, default=16)
    parser.add_argument("--tokens", type=int, default=64)
    options = parser.parse_args()
    asyncio.run(main(options.streams, options.tokens))
