"""Decode graphs without a GPU: `Recording` repeats operations on the same memory, as CUDA does."""

import asyncio
import logging
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from adapters.base import BackendConfig, GenerationRequest, SamplingParams
from adapters.errors import BackendFailed
from adapters.local.backend import LocalBackend
from adapters.local.engine import decode_graphs
from adapters.local.engine import engine as engines
from adapters.local.engine.decode_graphs import Capture, Graph, capture_on, padded, wanted
from adapters.local.model import attention
from adapters.local.model.attention import Batch
from adapters.local.model.kernels import HOPPER_ATTENTION
from tests.adapters.local.conftest import started
from tests.adapters.sampling import sample

Patch = pytest.MonkeyPatch
GREEDY = SamplingParams(temperature=0)
OpenBackend = Callable[..., AbstractAsyncContextManager[LocalBackend]]


class Recording(TorchDispatchMode):
    """Records operations. `replay` runs them again, on the tensors that they had."""

    def __init__(self) -> None:
        initialise: Any = super().__init__
        initialise()
        self._calls: list[tuple[Any, tuple[Any, ...], dict[str, Any], Any]] = []

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        if func in (torch.ops.aten._local_scalar_dense.default, torch.ops.aten.nonzero.default):
            raise RuntimeError("operation not permitted when stream is capturing")
        result = func(*args, **(kwargs or {}))
        self._calls.append((func, args, kwargs or {}, result))
        return result

    def replay(self) -> None:
        with torch.no_grad():
            for func, args, kwargs, results in self._calls:
                again = func(*args, **kwargs)
                for old, new in zip(_tensors(results), _tensors(again), strict=True):
                    if old.data_ptr() != new.data_ptr():
                        old.copy_(new)

    def reset(self) -> None:
        self._calls.clear()


def _tensors(results: Any) -> list[Tensor]:
    several = results if isinstance(results, tuple | list) else (results,)
    return [one for one in several if isinstance(one, Tensor)]


class Graphs:
    """Captures recordings. captured: their number. replayed: how often they were replayed."""

    def __init__(self) -> None:
        self.captured = 0
        self.replayed = 0

    def __call__(self, compute: Callable[[], None]) -> Graph:
        recording = Recording()
        with recording:
            compute()
        self.captured += 1
        return self._counted(recording)

    def _counted(self, recording: Recording) -> Graph:
        graphs = self

        class Counted:
            def replay(self) -> None:
                graphs.replayed += 1
                recording.replay()

            def reset(self) -> None:
                recording.reset()

        return Counted()


def fixed_attention(batch: Batch) -> tuple[Tensor, Tensor]:
    """Attention that reads no tensor on the host, as kernels do. Each sequence has one query."""
    groups = batch.query.shape[1] // batch.key.shape[1]
    keys, values = (states.repeat_interleave(groups, 1) for states in (batch.key, batch.value))
    scores = torch.einsum("qhd,khd->hqk", batch.query, keys) * batch.scaling
    place = torch.arange(len(keys))
    visible = (place >= batch.ends_k[:-1, None]) & (place < batch.ends_k[1:, None])
    scores = scores.masked_fill(~visible, -torch.inf)
    out = torch.einsum("hqk,khd->qhd", scores.softmax(-1), values)
    return out, scores.logsumexp(-1)


def _attend(batch: Batch) -> tuple[Tensor, Tensor]:
    return (fixed_attention if len(batch.query) == len(batch.ends_q) - 1 else _on_cpu)(batch)


_on_cpu = attention._on_cpu


@pytest.fixture
def graphs(monkeypatch: Patch) -> Graphs:
    """Stands in for CUDA."""
    made = Graphs()
    monkeypatch.setattr(engines, "capture_on", lambda device: made)
    monkeypatch.setattr(attention, "_on_cpu", _attend)
    return made


@pytest.fixture
def opened(small_config: BackendConfig) -> OpenBackend:
    def open_backend(**options: str) -> AbstractAsyncContextManager[LocalBackend]:
        return started(small_config, **{"decode_graphs": "true", **options})

    return open_backend


def request(length: int, tokens: int, **fields: Any) -> GenerationRequest:
    prompt = torch.randint(0, 1000, (length,), generator=torch.Generator().manual_seed(length))
    fields.setdefault("sampling", GREEDY)
    return GenerationRequest("r", tuple(prompt.tolist()), tokens, frozenset(), **fields)


async def sample_all(backend: LocalBackend, asked: list[GenerationRequest]) -> list[list[int]]:
    return list(await asyncio.gather(*(sample(backend, one) for one in asked)))


async def test_replayed_steps_sample_what_other_steps_sample(
    opened: OpenBackend, graphs: Graphs
) -> None:
    """Of different lengths: rows end one after another, so that steps have rows of padding."""
    asked = [request(length, tokens) for length, tokens in [(3, 30), (140, 24), (31, 5), (70, 9)]]
    asked.append(request(20, 16, sampling=SamplingParams(temperature=1.0), seed=5, logprobs=2))
    async with opened(decode_graphs="false") as backend:
        expected = await sample_all(backend, asked)
    assert graphs.captured == 0
    async with opened() as backend:
        assert await sample_all(backend, asked) == expected
        captured = graphs.captured
        assert graphs.replayed > 2 * captured > 0
        assert await sample_all(backend, asked) == expected
        assert graphs.captured == captured


async def test_steps_with_prompts_are_not_captured(opened: OpenBackend, graphs: Graphs) -> None:
    async with opened() as backend:
        captured = graphs.captured
        await sample(backend, request(20, 1))
        assert graphs.captured == captured


async def test_steps_that_read_too_many_keys_are_not_captured(
    opened: OpenBackend, graphs: Graphs, monkeypatch: Patch
) -> None:
    monkeypatch.setattr(decode_graphs, "_LEAST_KEYS", 64)
    monkeypatch.setattr(decode_graphs, "_MOST_KEYS", 64)
    async with opened() as backend:
        replayed = graphs.replayed
        assert len(await sample(backend, request(100, 4))) == 4
        assert graphs.replayed == replayed
        assert len(await sample(backend, request(20, 4))) == 4
        assert graphs.replayed > replayed


async def test_the_first_step_is_captured_before_the_first_request(
    opened: OpenBackend, graphs: Graphs
) -> None:
    async with opened():
        assert graphs.captured == 1


def spoiled(graphs: Graphs, failure: Exception | None) -> Capture:
    """Graphs that compute something else, or that cannot be captured."""

    def capture(compute: Callable[[], None]) -> Graph:
        if failure is not None:
            raise failure
        graph = graphs(compute)

        class Stale:
            def replay(self) -> None:
                graph.replay()
                # The scores of the first step are zero: the token 0 has no embedding.
                SCORES[0].neg_().sub_(1)

            def reset(self) -> None:
                graph.reset()

        return Stale()

    return capture


SCORES: list[Tensor] = []


@pytest.mark.parametrize(
    ("failure", "reason"),
    [
        (None, "the replay of a step has an error of"),
        (RuntimeError("operation not permitted"), "the capture failed: operation not permitted"),
    ],
)
async def test_graphs_that_fail_are_switched_off(
    opened: OpenBackend,
    graphs: Graphs,
    monkeypatch: Patch,
    caplog: pytest.LogCaptureFixture,
    failure: Exception | None,
    reason: str,
) -> None:
    class Watched(decode_graphs.DecodeGraphs):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments)
            SCORES[:] = [self._scores]

    asked = [request(3, 12), request(50, 12)]
    async with opened(decode_graphs="false") as backend:
        expected = await sample_all(backend, asked)
    monkeypatch.setattr(engines, "capture_on", lambda device: spoiled(graphs, failure))
    monkeypatch.setattr(engines, "DecodeGraphs", Watched)
    with caplog.at_level(logging.WARNING):
        async with opened() as backend:
            assert await sample_all(backend, asked) == expected
    assert [one.message for one in caplog.records if reason in one.message]
    assert len([one for one in caplog.records if "switched off" in one.message]) == 1


async def test_a_size_without_memory_has_no_graph(
    opened: OpenBackend, graphs: Graphs, monkeypatch: Patch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(decode_graphs, "_LEAST_KEYS", 64)

    def capture(compute: Callable[[], None]) -> Graph:
        if graphs.captured:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return graphs(compute)

    asked = request(100, 4)
    async with opened(decode_graphs="false") as backend:
        expected = await sample(backend, asked)
    monkeypatch.setattr(engines, "capture_on", lambda device: capture)
    async with opened() as backend:
        assert await sample(backend, asked) == expected
        replayed = graphs.replayed
        assert len(await sample(backend, request(20, 4))) == 4
        assert graphs.replayed > replayed
    assert "no memory for decode graphs with more than 64 keys" in caplog.text


async def test_a_step_that_fails_while_it_is_captured_ends_its_requests_only(
    opened: OpenBackend, graphs: Graphs, small_config: BackendConfig, monkeypatch: Patch
) -> None:
    async with opened() as backend:
        model = backend._engine._manager.model  # type: ignore[union-attr]
        forward, steps = type(model).forward, 0

        def fail(*arguments: Any, **keywords: Any) -> Any:
            nonlocal steps
            steps += 1
            if steps == 2:
                raise torch.OutOfMemoryError("CUDA out of memory")
            return forward(*arguments, **keywords)

        monkeypatch.setattr(type(model), "forward", fail)
        two = [request(20, 6), request(30, 6)]  # a size that is not captured yet
        failed = await asyncio.gather(
            *(sample(backend, one) for one in two), return_exceptions=True
        )
        assert any(isinstance(one, BackendFailed) for one in failed)
        assert len(await sample(backend, two[0])) == 6


@pytest.mark.parametrize(
    ("count", "least", "most", "size"),
    [(1, 1, 128, 1), (3, 1, 128, 4), (64, 1, 128, 64), (65, 1, 100, 100), (0, 4096, 10**6, 4096)],
)
def test_sizes_are_powers_of_two(count: int, least: int, most: int, size: int) -> None:
    assert padded(count, least, most) == size


async def test_a_device_without_graphs_is_refused(opened: OpenBackend) -> None:
    with pytest.raises(BackendFailed, match="decode_graphs needs a CUDA device, and this is cpu"):
        async with opened():
            pass


class Mxfp4GptOssExperts(torch.nn.Module):
    """Has the name of transformers' packed experts, which only a GPU can make."""


def on_gpu(
    monkeypatch: Patch, capability: int = 9, free: int = 1 << 30, device: str = "cuda:0"
) -> Any:
    """A model in bfloat16 that says that it is on a GPU, with `flash_with_sinks`."""
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (free, 1 << 40))
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (capability, 0))
    model: Any = torch.nn.Module()
    model.device, model.dtype = torch.device(device), torch.bfloat16
    model.config = SimpleNamespace(_attn_implementation=f"paged|{attention.NAME}")
    return model


@pytest.mark.parametrize(
    ("situation", "captured"),
    [
        ({}, True),
        ({"free": (1 << 30) - 1}, False),
        ({"capability": 8}, False),
        ({"device": "cpu"}, False),
    ],
)
def test_graphs_are_captured_unasked_where_they_were_measured(
    monkeypatch: Patch, situation: dict[str, Any], captured: bool
) -> None:
    assert wanted("auto", on_gpu(monkeypatch, **situation)) is captured


def test_graphs_of_other_attentions_have_to_be_asked_for(monkeypatch: Patch) -> None:
    model: Any = on_gpu(monkeypatch)
    model.config._attn_implementation = HOPPER_ATTENTION
    assert not wanted("auto", model)


def test_experts_of_pytorch_in_float16_get_no_graphs_unasked(monkeypatch: Patch) -> None:
    model: Any = on_gpu(monkeypatch)
    model.dtype = torch.float16
    assert not wanted("auto", model)


def test_packed_experts_get_graphs_on_older_gpus(monkeypatch: Patch) -> None:
    model = on_gpu(monkeypatch, capability=8)
    model.experts = Mxfp4GptOssExperts()
    assert wanted("auto", model)


@pytest.mark.parametrize(("choice", "captured"), [("true", True), ("false", False)])
def test_what_is_asked_for_needs_no_conditions(choice: str, captured: bool) -> None:
    assert wanted(choice, None) is captured


async def test_attention_with_masks_is_refused(opened: OpenBackend, graphs: Graphs) -> None:
    with pytest.raises(BackendFailed, match=r"needs a flash attention, and this is paged\|eager"):
        async with opened(attention="eager"):
            pass


def test_graphs_share_their_memory(monkeypatch: Patch) -> None:
    used: list[Any] = []

    class FakeGraph:
        pass

    class Capturing:
        def __init__(self, graph: FakeGraph, **keywords: Any) -> None:
            used.append((type(graph), keywords))

        def __enter__(self) -> None:
            used.append("begin")

        def __exit__(self, *_: object) -> None:
            used.append("end")

    monkeypatch.setattr(torch.cuda, "graph_pool_handle", lambda: (0, 7))
    monkeypatch.setattr(torch.cuda, "CUDAGraph", FakeGraph)
    monkeypatch.setattr(torch.cuda, "graph", Capturing)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: "the engine's")
    monkeypatch.setattr(torch.cuda, "set_stream", used.append)
    capture = capture_on(torch.device("cuda", 0))
    keywords = {"pool": (0, 7), "capture_error_mode": "thread_local"}
    for _ in range(2):
        assert isinstance(capture(lambda: used.append("computed")), FakeGraph)
    assert used == [(FakeGraph, keywords), "begin", "computed", "end", "the engine's"] * 2
