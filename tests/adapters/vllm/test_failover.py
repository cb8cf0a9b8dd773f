"""Two real vLLM servers behind one pool; runs where vLLM is installed (`make test-vllm`)."""

import asyncio
import re
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import httpx
import pytest

from adapters.base import BackendConfig, GenerationRequest, SamplingParams
from adapters.errors import BackendFailed
from adapters.registry import create
from harmony.tokenizer import decode, encode_with_control
from harmony.vocab import STOP_TOKENS
from tests.adapters.vllm_process import Process, serving

pytestmark = pytest.mark.skipif(find_spec("vllm") is None, reason="vLLM is not installed")

GO_ON = SamplingParams(logit_bias=dict.fromkeys(STOP_TOKENS, -100.0))
# More than two engines run at once (see max-num-seqs): some still wait when one is killed.
REQUESTS = 48
TOKENS = 256


@pytest.fixture
def engines(checkpoint_folder: Path, tmp_path: Path) -> Iterator[list[Process]]:
    with serving(checkpoint_folder, tmp_path, 2, "--max-num-seqs", "8") as servers:
        yield servers


class Client:
    """One request: how many tokens came, and what went wrong."""

    def __init__(self) -> None:
        self.tokens = 0
        self.failure: BackendFailed | None = None


def asked(number: int) -> GenerationRequest:
    prompt = tuple(encode_with_control(f"<|start|>user<|message|>{number}<|end|>"))
    return GenerationRequest(str(number), prompt, TOKENS, STOP_TOKENS, GO_ON)


def runs(engine: Process) -> bool:
    """Whether the engine samples just now, as its metrics tell."""
    metrics = httpx.get(f"{engine.url}/metrics", timeout=60).text
    counts = re.findall(r"^vllm:num_requests_running\{.*\} (\S+)$", metrics, re.MULTILINE)
    return any(float(count) > 0 for count in counts)


async def one_that_runs(engines: list[Process]) -> Process:
    """Two engines on few cores may take turns."""
    while True:
        for engine in engines:
            if await asyncio.to_thread(runs, engine):
                return engine


async def test_when_an_engine_is_killed_only_requests_that_had_a_token_fail(
    engines: list[Process],
) -> None:
    options = {"url": ",".join(engine.url for engine in engines)}
    backend = create(
        "vllm-http", BackendConfig(None, options, encode_with_control, decode, lambda: None)
    )
    await backend.start()
    clients = [Client() for _ in range(REQUESTS)]
    sampling = asyncio.Event()

    async def use(number: int, client: Client) -> None:
        try:
            async for chunk in backend.generate(asked(number)):
                client.tokens += len(chunk.token_ids)
                sampling.set()
        except BackendFailed as error:
            client.failure = error

    load = [asyncio.create_task(use(*pair)) for pair in enumerate(clients)]
    await asyncio.wait_for(sampling.wait(), 300)
    waited = [client for client in clients if client.tokens == 0]
    (await asyncio.wait_for(one_that_runs(engines), 300)).kill()
    await asyncio.wait_for(asyncio.gather(*load), 300)
    await backend.stop()

    lost = [client for client in clients if client.failure is not None]
    assert lost
    assert [client.failure for client in lost if client.tokens == 0] == []
    moved = [client for client in waited if client.failure is None]
    assert moved
    assert {client.tokens for client in clients if client.failure is None} == {TOKENS}
