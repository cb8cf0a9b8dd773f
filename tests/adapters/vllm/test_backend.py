"""How the backend reads vLLM's outputs; runs where vLLM is installed (`make test-vllm`)."""

import asyncio
import dataclasses
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("vllm", reason="vLLM is not installed")

from vllm.v1.engine import EngineCoreOutput, FinishReason

from adapters.base import BackendInfo, GenerationChunk, GenerationRequest
from adapters.errors import EngineFault, GenerationFailed, Unsupported
from adapters.vllm.backend import VLLMBackend, _chunks, _log_statistics, _max_requests

ASKED = GenerationRequest("r", (1,), 8, frozenset())


def test_outputs_that_come_at_once_are_one_chunk() -> None:
    outputs = [
        EngineCoreOutput("r", [5]),
        EngineCoreOutput("r", [6, 7], finish_reason=FinishReason.STOP),
    ]
    assert [*_chunks(outputs, ASKED)] == [GenerationChunk((5, 6, 7), finish_reason="stop")]


def test_the_tokens_of_a_generation_that_failed_come_before_its_error() -> None:
    chunks = _chunks([EngineCoreOutput("r", [5], finish_reason=FinishReason.ERROR)], ASKED)
    assert next(chunks) == GenerationChunk((5,))
    with pytest.raises(GenerationFailed):
        next(chunks)


@pytest.mark.parametrize(("most", "refused"), [(4, True), (5, False), (-1, False)])
async def test_more_logprobs_than_the_engine_computes_are_refused_by_name(
    most: int, refused: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def send(*_: object) -> str:
        raise EngineFault("sent")

    engine: Any = SimpleNamespace(model_config=SimpleNamespace(max_logprobs=most))
    config: Any = SimpleNamespace()
    backend = VLLMBackend(config)
    backend._engine = engine
    backend._info = BackendInfo("vllm", "m", 100, 201_088, frozenset())
    monkeypatch.setattr(backend, "_add", send)
    chunks = backend._generate(dataclasses.replace(ASKED, logprobs=5))
    kind, reason = (Unsupported, "top_logprobs") if refused else (EngineFault, "sent")
    with pytest.raises(kind, match=reason):
        await anext(chunks)


async def test_statistics_are_logged_periodically_whatever_fails(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    logged = asyncio.Semaphore(0)

    class Engine:
        async def do_log_stats(self) -> None:
            logged.release()
            raise RuntimeError("no statistics")

    monkeypatch.setenv("VLLM_LOG_STATS_INTERVAL", "0.001")
    engine: Any = Engine()
    task = asyncio.create_task(_log_statistics(engine))
    async with asyncio.timeout(5):
        for _ in range(2):
            await logged.acquire()
    task.cancel()


async def test_no_statistics_are_logged_after_the_stop() -> None:
    config: Any = SimpleNamespace()
    engine: Any = SimpleNamespace()
    backend = VLLMBackend(config)
    backend._statistics = task = asyncio.create_task(_log_statistics(engine))
    await backend.stop()
    assert task.cancelled()


def test_only_the_ranks_of_this_server_count() -> None:
    config = SimpleNamespace(scheduler_config=SimpleNamespace(max_num_seqs=8))
    core = SimpleNamespace(engine_ranks_managed=[2, 3])
    engine: Any = SimpleNamespace(vllm_config=config, engine_core=core)
    assert _max_requests(engine) == 16
