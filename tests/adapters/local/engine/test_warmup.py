import asyncio
import dataclasses
import shutil
import sysconfig
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from adapters.base import BackendConfig, GenerationRequest
from adapters.errors import BackendFailed
from adapters.local.backend import LocalBackend
from adapters.local.engine import engine as engines
from adapters.local.engine import warmup
from adapters.local.engine.warmup import explain, run_step, warm_up
from adapters.local.steps.row import Row

Patch = pytest.MonkeyPatch
CUDA = torch.device("cuda", 0)


@pytest.mark.parametrize(
    ("device", "steps"),
    [
        ("cuda", [(1, 1), (2, 1), (4, 1), (8, 1), (12, 1), (1, 512), (1, 4096)]),
        ("cpu", [(1, 1), (1, 64)]),
    ],
)
def test_steps_of_the_sizes_that_requests_bring_are_run(
    monkeypatch: Patch, device: str, steps: list[tuple[int, int]]
) -> None:
    seen: list[tuple[int, int]] = []
    monkeypatch.setattr(warmup, "run_step", lambda *_, rows, tokens: seen.append((rows, tokens)))
    processor = SimpleNamespace(
        scheduler=SimpleNamespace(max_requests_per_batch=12),
        cache=SimpleNamespace(
            max_batch_tokens=4096,
            cache_allocators={"full_attention": SimpleNamespace(tokens_per_page=32)},
        ),
    )
    monkeypatch.setattr(warmup, "longest_request", lambda cache: 10_000)
    model = SimpleNamespace(device=torch.device(device))
    warm_up(processor, model, lambda rows: None)
    assert seen == steps
    seen.clear()
    processor.scheduler.max_requests_per_batch = 2
    processor.cache.max_batch_tokens = 16
    warm_up(processor, model, lambda rows: None)
    assert all(rows <= 2 and tokens <= 16 for rows, tokens in seen)
    monkeypatch.setattr(warmup, "longest_request", lambda cache: 40)
    processor.cache.max_batch_tokens = 4096
    seen.clear()
    warm_up(processor, model, lambda rows: None)
    assert seen[-1] == (1, 8)


async def run_one(backend: LocalBackend) -> None:
    """Returns once the engine's thread has nothing to do any more."""
    request = GenerationRequest("r", (1, 2, 3), 2, frozenset())
    assert [chunk async for chunk in backend.generate(request)]
    while backend._engine._manager.batch_processor.scheduler.active_requests:  # type: ignore[union-attr]  # noqa: ASYNC110
        await asyncio.sleep(0.001)


@pytest.mark.parametrize(("rows", "tokens"), [(1, 1), (5, 1), (1, 100)])
async def test_a_step_goes_through_sampling_and_leaves_nothing_behind(
    small: LocalBackend, rows: int, tokens: int
) -> None:
    await run_one(small)
    engine: Any = small._engine
    processor = engine._manager.batch_processor
    seen: list[Row] = []

    def set_rows(rows: list[Row]) -> None:
        seen.extend(rows)
        engine._set_test_rows(rows)

    run_step(processor, engine._manager.model, set_rows, rows=rows, tokens=tokens)
    engine._set_test_rows([])
    assert len(seen) == rows
    assert all(row.ended for row in seen)
    processor.cache.pool.try_to_free_sectors()
    assert processor.cache.compute_free_capacity() == 1.0
    assert not processor.scheduler.active_requests
    assert not engine._rows


async def test_a_cache_without_room_runs_no_step(small: LocalBackend, monkeypatch: Patch) -> None:
    await run_one(small)
    engine: Any = small._engine
    processor = engine._manager.batch_processor
    monkeypatch.setattr(processor.cache, "can_store_request_tokens", lambda *_, **__: False)
    run_step(processor, engine._manager.model, engine._set_test_rows, rows=3, tokens=1)
    assert not engine._rows


async def test_a_first_step_that_fails_stops_the_start(
    small_config: BackendConfig, monkeypatch: Patch
) -> None:
    def fail(*_: object) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(engines, "warm_up", fail)
    backend = LocalBackend(dataclasses.replace(small_config))
    with pytest.raises(BackendFailed, match="first step failed: lower cache_tokens or batch_tok"):
        await backend.start()


def test_what_a_compiler_misses_is_named(monkeypatch: Patch, tmp_path: Path) -> None:
    error = RuntimeError("Command '['gcc', 'cuda_utils.c']' returned non-zero exit status 1.")
    monkeypatch.setattr(shutil, "which", lambda name: None)
    monkeypatch.setattr(sysconfig, "get_paths", lambda: {"include": str(tmp_path)})
    both = explain(error, CUDA)
    assert "gcc" in both
    assert "python3-dev" in both
    (tmp_path / "Python.h").touch()
    assert "python3-dev" not in explain(error, CUDA)
    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}")
    assert explain(error, CUDA) == ""
    assert explain(error, torch.device("cpu")) == ""


def test_a_package_that_is_missing_is_named() -> None:
    error = ModuleNotFoundError("No module named 'triton'", name="triton")
    assert explain(error, CUDA) == ": install the package triton"
