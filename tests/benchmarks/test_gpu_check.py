"""The check that owners of a GPU run, on the CPU: `make test-gpu DEVICE=cpu` runs all of it."""

import dataclasses
import itertools
import logging
import sys
import warnings
import weakref
from collections.abc import Callable
from typing import Any

import pytest

from adapters.errors import EngineFault
from adapters.local.backend import LocalBackend
from adapters.local.engine.recovery import end_batch
from adapters.local.model.kernels import HOPPER_ATTENTION
from adapters.local.steps.step_sampler import StepSampler
from benchmarks.gpu_check import __main__ as command
from benchmarks.gpu_check import checks, model_checks
from benchmarks.gpu_check.checks import TOLERANCE
from benchmarks.gpu_check.engine import Answer, Loaded, Sizes, Target, ask_all, difference
from benchmarks.gpu_check.results import Check, Measured, Result, Skipped, judge, page
from tests.adapters.local.tiny import write_tiny

TINY = Sizes(streams=(1, 2), wide=(2, 40), long=(300, 2), tokens=3, gap=60.0)


def clock() -> Callable[[], float]:
    return itertools.count(0.0, 2.0).__next__


def check(outcome: Measured | Exception) -> Check:
    async def run() -> Measured:
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    return Check("name", "bound", run)


@pytest.mark.parametrize(("holds", "status"), [(True, "ok"), (False, "failed")])
async def test_a_bound_decides(holds: bool, status: str) -> None:
    result = await judge(check(({"x": 1.0}, holds)), clock())
    assert (result.status, result.figures, result.seconds) == (status, {"x": 1.0}, 2.0)


async def test_what_cannot_run_here_is_skipped_with_the_reason() -> None:
    result = await judge(check(Skipped("no docker")), clock())
    assert (result.status, result.reason) == ("skipped", "no docker")


async def test_a_check_that_breaks_is_a_result_and_the_next_one_runs() -> None:
    broken = check(EngineFault("CUDA error: an illegal memory access\nmore"))
    shown: list[str] = []
    saved: list[int] = []
    checked = [broken, check(({}, True))]
    results = await command.run(
        checked, shown.append, clock(), lambda results: saved.append(len(results))
    )
    assert saved == [1, 2]
    assert [one.status for one in results] == ["failed", "ok"]
    assert results[0].reason.startswith("EngineFault: CUDA error: an illegal memory access (run")
    assert len(shown) == 2


def test_the_page_has_a_row_for_each_check() -> None:
    results = [
        Result("a|b", "ok", "at most 1", {"x": 0.12345, "y": 3}, seconds=1.4),
        Result("c", "skipped", reason="no model"),
    ]
    text = page({"GPUs": "NVIDIA X"}, results)
    assert "- GPUs: NVIDIA X\n" in text
    assert "1 ok, 0 failed, 1 skipped" in text
    assert "| a\\|b | ok | x 0.123, y 3 | at most 1 | 1 |" in text
    assert "| c | skipped | no model |  | 0 |" in text
    assert "## Logged" not in text


def test_a_check_that_fails_shows_its_figures_and_the_reason() -> None:
    result = Result("a", "failed", "at most 1", {"x": 2}, "the bound does not hold")
    assert "| a | failed | x 2; the bound does not hold | at most 1 | 0 |" in page({}, [result])


async def test_the_page_shows_what_the_server_logged() -> None:
    """Such as the attention that it uses, and why it uses no other one."""

    async def run() -> Measured:
        logger = logging.getLogger("adapters.local.model.loading")
        for _ in range(2):
            logger.info("cuda:0: attention eager\nmore")
        logger.debug("a detail")
        logging.getLogger("other").warning("of a library")
        return {}, True

    results = [await judge(Check("name", "", run), clock()) for _ in range(2)]
    assert results[0].log == ("INFO: cuda:0: attention eager",)
    assert page({}, results).count("- name: INFO: cuda:0: attention eager\n") == 1
    assert not logging.getLogger("adapters").handlers


def test_logprobs_are_compared_where_both_list_a_token() -> None:
    assert difference({1: -1.0, 2: -2.0}, {2: -2.5, 3: 0.0}) == 0.5
    assert difference({1: -1.0}, {2: -1.0}) > TOLERANCE


def test_the_longest_gap_is_between_two_tokens() -> None:
    assert Answer((1, 2, 3), (9.0, 10.0, 12.0), (), 0).gap == 2.0
    assert Answer((1,), (9.0,), (), 0).gap == 0.0


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Target:
    """A gpt-oss with a vocabulary of 1,000, on the CPU."""
    folder = tmp_path_factory.mktemp("tiny")
    write_tiny(folder, initializer_range=0.02)
    options = (("cache_tokens", "2048"), ("batch_tokens", "128"))
    return Target("cpu", str(folder), 1000, options)


@pytest.fixture(scope="module")
def answered() -> dict[Any, Any]:
    """What backends have answered, by what they were asked."""
    return {}


@pytest.fixture
def _asked_once(answered: dict[Any, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Checks that ask the same of a backend with the same options do so once in this file."""

    def once(function: Callable[..., Any]) -> Callable[..., Any]:
        async def ask(target: Target, *asked: Any, **options: str) -> Any:
            chosen = sorted({**dict(target.options), **options}.items())
            key = (function.__name__, target.model, repr(asked), *chosen)
            if key not in answered:
                answered[key] = await function(target, *asked, **options)
            return answered[key]

        return ask

    monkeypatch.setattr(checks, "_first_tokens", once(checks._first_tokens))
    monkeypatch.setattr(checks, "_one_by_one", once(checks._one_by_one))


@pytest.mark.usefixtures("_asked_once")
async def test_attention_agrees_with_float32_on_the_cpu(tiny: Target) -> None:
    figures, holds = await checks.attention(tiny, "eager")
    assert holds, figures


@pytest.mark.usefixtures("_asked_once")
async def test_attention_that_is_wrong_is_found(
    tiny: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As an attention would be that forgets the sinks."""
    first_tokens = checks._first_tokens

    async def wrong(target: Target, **options: str) -> list[dict[int, float]]:
        found = await first_tokens(target, **{**options, "attention": "eager"})
        if options["attention"] == "eager":
            return found
        return [{token: value - 0.5 for token, value in top.items()} for top in found]

    monkeypatch.setattr(checks, "_first_tokens", wrong)
    _, holds = await checks.attention(tiny, "another")
    assert not holds


async def test_caches_change_nothing(tiny: Target) -> None:
    figures, holds = await checks.prefix_hit(tiny)
    assert holds, figures


@pytest.mark.parametrize(
    ("dtype", "error", "holds"),
    [
        ("float32", 0.0, True),
        ("float32", 0.01, False),
        ("bfloat16", 0.0, True),
        ("bfloat16", 1.0, False),
    ],
)
@pytest.mark.usefixtures("_asked_once")
async def test_chunks_change_nothing_and_those_that_are_wrong_are_found(
    tiny: Target,
    answered: dict[Any, Any],
    monkeypatch: pytest.MonkeyPatch,
    dtype: str,
    error: float,
    holds: bool,
) -> None:
    """In float32 the smallest fault, and in bfloat16 what rounding does not explain."""

    async def wrong(backend: LocalBackend, asked: Any) -> list[Answer]:
        key = ("ask_all", dtype)
        if key not in answered:
            answered[key] = await ask_all(backend, asked)
        return [
            dataclasses.replace(
                one, tops=tuple({token: p - error for token, p in top.items()} for top in one.tops)
            )
            for one in answered[key]
        ]

    monkeypatch.setattr(checks, "ask_all", wrong)
    target = dataclasses.replace(tiny, options=(*tiny.options, ("dtype", dtype)))
    figures, found = await checks.chunked_prefill(target)
    assert found is holds, figures


async def test_one_prompt_may_differ_by_rounding(
    tiny: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where two experts are nearly equal: only the median counts."""

    def answers(*values: float) -> list[Answer]:
        return [Answer((1,), (0.0,), ({1: value},), 0) for value in values]

    async def exact(*_: Any, **__: Any) -> list[Answer]:
        return answers(-1.0, -1.0, -1.0)

    monkeypatch.setattr(checks, "_one_by_one", exact)
    alone = answers(-1.2, -1.2, -1.2)
    figures, holds = await checks._agree(tiny, [], alone, answers(-1.1, -1.2, -3.0))
    assert holds
    assert figures == pytest.approx({"difference": 0.1, "largest": 1.8, "from float32": 0.2})
    _, holds = await checks._agree(tiny, [], alone, answers(-1.1, -3.0, -3.0))
    assert not holds


async def test_masks_and_logprobs_wait_for_no_device_on_a_cpu(tiny: Target) -> None:
    figures, holds = await checks.masked(tiny, TINY)
    assert (figures["waits a step with 1 row"], figures["with 2"], holds) == (0, 0, True)


@pytest.mark.parametrize(("each", "holds"), [(0, True), (3, False)])
async def test_waits_may_not_grow_with_the_rows(
    tiny: Target, monkeypatch: pytest.MonkeyPatch, each: int, holds: bool
) -> None:
    """each: waits of a row, beside four of a step."""
    draw = StepSampler.choose

    def choose(sampler: StepSampler) -> None:
        for _ in range(4 + each * len(sampler.batch)):
            warnings.warn("called a synchronizing CUDA operation", stacklevel=1)
        draw(sampler)

    monkeypatch.setattr(StepSampler, "choose", choose)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        sizes = dataclasses.replace(TINY, streams=(8,))
        _, found = await checks.masked(tiny, sizes)
    assert found is holds


def test_waits_for_the_device_are_counted() -> None:
    with checks._synchronisations("cpu") as found:
        warnings.warn("called a synchronizing CUDA operation", stacklevel=1)
        warnings.warn("something else", stacklevel=1)
    assert found == ["called a synchronizing CUDA operation"]


async def test_a_backend_that_was_stopped_leaves_the_memory_free(tiny: Target) -> None:
    """The next one counts it: a GPU holds one gpt-oss-20b, but not two."""
    async with tiny.backend() as backend:
        model = weakref.ref(backend._engine._manager.model)  # type: ignore[union-attr]
    assert model() is None


async def test_a_model_is_loaded_and_weighed(tiny: Target) -> None:
    figures, holds = await model_checks.load(tiny, packed=True)
    assert holds
    assert 0 < figures["GB of weights"] < 0.01


def test_a_download_is_shown_in_tenths(capsys: pytest.CaptureFixture[str]) -> None:
    show = model_checks.PrintedProgress()
    for fraction in (0.0, 0.05, 0.1, 0.11, 1.0):
        show("downloading m", fraction)
    assert capsys.readouterr().out.splitlines() == [
        "downloading m: 0 %",
        "downloading m: 10 %",
        "downloading m: 100 %",
    ]


def planned(target: Target, sizes: Sizes) -> dict[str, Check]:
    return {one.name: one for one in model_checks.model_checks(target, sizes, packed=False)}


async def test_one_backend_serves_all_checks_of_a_model(
    tiny: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = 0
    start = LocalBackend.start

    async def counted(backend: LocalBackend) -> None:
        nonlocal started
        started += 1
        await start(backend)

    monkeypatch.setattr(LocalBackend, "start", counted)
    plan = planned(tiny, TINY)
    results = [await judge(check, clock()) for check in plan.values()]
    # On a machine that others use, too, the second request may be the slower one.
    assert {one.name for one in results if one.status != "ok"} <= {"first and second request"}
    assert started == 1
    figures = {one.name: one.figures for one in results}
    assert figures["start"]["context"] == 2048
    assert figures["2 streams"]["tokens/s"] > 0
    assert set(figures["first and second request"]) == {"first s", "second s"}


async def test_a_prompt_that_the_cache_cannot_hold_is_skipped(tiny: Target) -> None:
    sizes = Sizes((1,), (1, 1), (4096, 1), 1, 1.0)
    loaded = Loaded(tiny)
    with pytest.raises(Skipped, match="room for 2048"):
        await model_checks.long_prompt(loaded, sizes)
    await loaded.close()


async def test_a_model_that_cannot_be_started_fails_each_check_that_needs_it(tiny: Target) -> None:
    plan = planned(dataclasses.replace(tiny, device="cuda:7"), TINY)
    results = [await judge(check, clock()) for check in list(plan.values())[:3]]
    assert [one.status for one in results] == ["failed"] * 3
    assert all("no GPU can be used" in one.reason for one in results)


async def test_an_engine_that_goes_on_without_memory_passes(tiny: Target) -> None:
    figures, holds = await checks.oom(tiny)
    assert holds
    assert figures == {"the request": "BackendFailed", "tokens beside it": 64, "tokens later": 2}


async def test_a_request_that_ends_with_the_failed_step_of_another_is_found(
    tiny: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As it was when a failed step ended all requests of its batch."""
    monkeypatch.setattr(
        "adapters.local.engine.engine.end_batch",
        lambda processor, all_rows: end_batch(processor, all_rows=True),
    )
    result = await judge(Check("name", "", lambda: checks.oom(tiny)), clock())
    assert (result.status, result.reason.partition(":")[0]) == ("failed", "BackendFailed")


async def test_graphs_need_a_gpu(tiny: Target) -> None:
    with pytest.raises(Skipped, match="decode_graphs needs a CUDA device"):
        await checks.decode_graphs(tiny, TINY)


@pytest.mark.parametrize("fails", [False, True])
async def test_graphs_are_compared_with_other_steps(
    tiny: Target, monkeypatch: pytest.MonkeyPatch, fails: bool
) -> None:
    """With a device that computes the same again instead of replaying."""

    class Again:
        def __init__(self, compute: Callable[[], None]) -> None:
            self.replay = compute

        def reset(self) -> None:
            pass

    def capture(compute: Callable[[], None]) -> Again:
        if fails:
            raise RuntimeError("no")
        return Again(compute)

    monkeypatch.setattr("adapters.local.engine.engine.capture_on", lambda device: capture)
    figures, holds = await checks.decode_graphs(tiny, TINY)
    assert holds is not fails
    assert figures["equal tokens"]
    assert ("warning" in figures) is fails


async def test_kernels_that_cannot_be_had_are_no_failure(
    tiny: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "kernels", None)
    with pytest.raises(Skipped, match=f"the kernels {HOPPER_ATTENTION} are not in the cache"):
        await checks.attention(tiny, HOPPER_ATTENTION)
