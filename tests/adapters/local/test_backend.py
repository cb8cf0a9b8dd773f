"""The transformers backend on the small checkpoint, whole."""

import asyncio
import dataclasses
import re
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import pytest
import pytest_asyncio
import torch
from transformers import AutoModelForCausalLM

from adapters.base import (
    BackendConfig,
    GenerationChunk,
    GenerationRequest,
    Progress,
    SamplingParams,
    SamplingPhase,
)
from adapters.errors import (
    BackendFailed,
    ContextTooLong,
    EngineDied,
    EngineFault,
    InvalidGrammar,
    Rejected,
)
from adapters.local.backend import LocalBackend
from adapters.local.engine.engine import Engine
from adapters.local.model import precision
from adapters.local.steps.row import Row
from harmony.tokenizer import decode, encode
from harmony.vocab import CHANNEL, END, MESSAGE, RETURN
from tests.adapters.local.conftest import started
from tests.adapters.sampling import logprobs, run, sample, tokens

GREEDY = SamplingParams(temperature=0)
VOCABULARY = 1000
PATIENCE = 60
"""Seconds after which an engine is taken for one that hangs."""
Opener = Callable[..., Any]
in_one_loop = pytest.mark.asyncio(loop_scope="module")
"""For the tests that share a backend."""


def prompt(words: int, seed: int = 0) -> tuple[int, ...]:
    return tuple(
        torch.randint(
            0, VOCABULARY, (words,), generator=torch.Generator().manual_seed(seed)
        ).tolist()
    )


def ask(
    ids: tuple[int, ...] = prompt(20), max_tokens: int = 12, **fields: Any
) -> GenerationRequest:
    fields.setdefault("sampling", GREEDY)
    return GenerationRequest("r", ids, max_tokens, frozenset({RETURN}), **fields)


async def drain(generator: AsyncIterator[GenerationChunk]) -> list[GenerationChunk]:
    return [chunk async for chunk in generator]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared(small_config: BackendConfig) -> AsyncIterator[LocalBackend]:
    """As `small`, for tests that leave it as they found it."""
    async with started(small_config) as backend:
        yield backend


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def whole(local_config: BackendConfig) -> AsyncIterator[LocalBackend]:
    """With the real vocabulary, which grammars need. Tests leave it as they found it."""
    async with started(local_config) as backend:
        yield backend


@pytest.fixture
def opened(small_config: BackendConfig) -> Opener:
    """Opens a backend whose options differ from the usual ones."""

    def open_backend(**options: str) -> AbstractAsyncContextManager[LocalBackend]:
        return started(small_config, **options)

    return open_backend


@pytest.fixture(scope="session")
def expected(small_config: BackendConfig) -> Callable[[tuple[int, ...], int], list[int]]:
    """What `model.generate` continues a prompt with, greedily."""
    model: Any = AutoModelForCausalLM.from_pretrained(
        str(small_config.model), dtype=torch.float32, attn_implementation="eager"
    )

    def generate(ids: tuple[int, ...], max_tokens: int) -> list[int]:
        output = model.generate(
            torch.tensor([ids]),
            attention_mask=torch.ones(1, len(ids), dtype=torch.int64),
            max_new_tokens=max_tokens,
            do_sample=False,
            eos_token_id=RETURN,
        )
        return list(map(int, output[0, len(ids) :]))

    return generate


@pytest.mark.parametrize("length", [1, 20, 128, 300])
async def test_greedy_tokens_are_those_of_generate(
    small: LocalBackend, expected: Any, length: int
) -> None:
    """Below, at and over the sliding window, in one step and in several."""
    ids = prompt(length)
    assert await sample(small, ask(ids, 40)) == expected(ids, 40)


async def test_concurrent_requests_get_the_tokens_that_they_get_alone(
    small: LocalBackend, expected: Any
) -> None:
    prompts = [prompt(5 + 17 * i, seed=i) for i in range(6)]
    results = await asyncio.gather(
        *[sample(small, ask(ids, 10 + i)) for i, ids in enumerate(prompts)]
    )
    assert results == [expected(ids, 10 + i) for i, ids in enumerate(prompts)]


async def test_a_cpu_that_computes_in_float32_gives_the_same_tokens(
    opened: Opener, expected: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its layers are others, wherever this test runs."""
    monkeypatch.setattr(precision, "multiplies_bfloat16", lambda: False)
    prompts = [prompt(length, seed=length) for length in (1, 20, 128, 300)]
    async with opened() as backend:
        results = await asyncio.gather(*[sample(backend, ask(ids, 40)) for ids in prompts])
    assert results == [expected(ids, 40) for ids in prompts]


async def test_a_repeated_prompt_comes_from_the_cache_and_goes_on_alike(
    small: LocalBackend, expected: Any
) -> None:
    ids = prompt(200)
    first, second = await run(small, ask(ids)), await run(small, ask(ids))
    assert (first[0].cached_tokens, second[0].cached_tokens) == (0, 192)
    longer = ids[:150] + prompt(50, seed=1)
    third = await run(small, ask(longer))
    assert third[0].cached_tokens == 128
    assert tokens(third) == expected(longer, 12)


async def test_a_prompt_is_cached_by_a_request_that_ends_with_its_first_token(
    small: LocalBackend,
) -> None:
    ids = prompt(300)
    await run(small, ask(ids, 1))
    (chunk, *_) = await run(small, ask((*ids, *prompt(5))))
    assert chunk.cached_tokens == 288


async def test_what_was_sampled_is_cached_for_the_next_turn(small: LocalBackend) -> None:
    ids = prompt(40)
    answer = await sample(small, ask(ids, 60))
    (chunk, *_) = await run(small, ask((*ids, *answer, *prompt(5))))
    assert chunk.cached_tokens == 96


async def test_more_than_the_cache_holds_is_done_one_after_another(
    opened: Opener, expected: Any
) -> None:
    prompts = [prompt(40 + i, seed=i) for i in range(3)]
    async with opened(cache_tokens="128", batch_tokens="64") as backend:
        results = await asyncio.gather(*[sample(backend, ask(ids, 30)) for ids in prompts])
    assert results == [expected(ids, 30) for ids in prompts]


async def test_a_full_cache_that_everyone_has_left_serves_the_next(
    opened: Opener, expected: Any
) -> None:
    async with opened(cache_tokens="128", batch_tokens="64") as backend:
        scheduler = backend._engine._manager.batch_processor.scheduler
        leaving = [
            asyncio.create_task(sample(backend, ask(prompt(40, seed=i), 88))) for i in range(3)
        ]
        while not (scheduler.active_requests and scheduler.waiting_requests):  # noqa: ASYNC110
            await asyncio.sleep(0.001)
        for task in leaving:
            task.cancel()
        await asyncio.wait(leaving)
        async with asyncio.timeout(PATIENCE):
            assert await sample(backend, ask()) == expected(prompt(20), 12)


@pytest.mark.parametrize(
    ("options", "most"),
    [({"batch_tokens": "64"}, 64), ({"batch_tokens": "0", "attention": "eager"}, 512)],
)
async def test_it_computes_as_many_requests_as_a_batch_takes(
    opened: Opener, options: dict[str, str], most: int
) -> None:
    async with opened(cache_tokens="1024", batch_requests="600", **options) as backend:
        assert backend.info.max_requests == most


async def test_a_request_may_fill_the_whole_context(opened: Opener) -> None:
    async with opened(cache_tokens="128", batch_tokens="64") as backend:
        assert backend.info.context_length == 128
        assert len(await sample(backend, ask(prompt(100), 28))) == 28
        with pytest.raises(ContextTooLong):
            await sample(backend, ask(prompt(100), 29))


@in_one_loop
async def test_a_seed_repeats_the_tokens_whatever_runs_beside(shared: LocalBackend) -> None:
    warm = SamplingParams(temperature=1.0)
    alone = await sample(shared, ask(sampling=warm, seed=3))
    crowd = [ask(prompt(9, seed=i), sampling=warm) for i in range(4)]
    together = await asyncio.gather(
        sample(shared, ask(sampling=warm, seed=3)), *[sample(shared, one) for one in crowd]
    )
    assert together[0] == alone
    assert await sample(shared, ask(sampling=warm, seed=4)) != alone


@in_one_loop
async def test_without_a_seed_tokens_differ(shared: LocalBackend) -> None:
    request = ask(sampling=SamplingParams(temperature=2.0))
    assert await sample(shared, request) != await sample(shared, request)


@in_one_loop
async def test_requests_with_different_parameters_share_a_batch(shared: LocalBackend) -> None:
    greedy, biased, only, hot = await asyncio.gather(
        sample(shared, ask()),
        sample(shared, ask(sampling=SamplingParams(temperature=0, logit_bias={77: 100.0}))),
        sample(shared, ask(sampling=SamplingParams(temperature=1.5, top_k=1))),
        sample(shared, ask(sampling=SamplingParams(temperature=5.0), max_tokens=5)),
    )
    assert biased == [77] * 12
    assert only == greedy
    assert len(hot) == 5


@in_one_loop
async def test_a_repetition_penalty_stops_repetition(shared: LocalBackend) -> None:
    params = SamplingParams(temperature=0, logit_bias={77: 60.0})
    assert await sample(shared, ask(sampling=params)) == [77] * 12
    params = SamplingParams(temperature=0, repetition_penalty=1e9)
    ids = await sample(shared, ask(sampling=params))
    assert len(set(ids)) == 12


@in_one_loop
async def test_a_phase_changes_the_parameters_from_its_trigger_on(shared: LocalBackend) -> None:
    params = SamplingParams(temperature=0, logit_bias={77: 100.0})
    before = await sample(shared, ask(max_tokens=4))
    phase = SamplingPhase(begin=((before[1], before[2]),), end=frozenset({77}), params=params)
    after = await sample(shared, ask(max_tokens=5, phases=(phase,)))
    assert after[:4] == [*before[:3], 77]
    assert after[4] != 77


@in_one_loop
async def test_logprobs_are_those_of_the_model(shared: LocalBackend, small_config: Any) -> None:
    ids = prompt(20)
    chunks = await run(shared, ask(ids, 3, logprobs=2))
    entries = logprobs(chunks)
    model: Any = AutoModelForCausalLM.from_pretrained(
        str(small_config.model), dtype=torch.float32, attn_implementation="eager"
    )
    sampled = [entry.token_id for entry in entries]
    with torch.no_grad():
        logits = model(torch.tensor([[*ids, *sampled]])).logits[0, 19:-1]
    expected = logits.log_softmax(-1)
    for entry, row in zip(entries, expected, strict=True):
        assert entry.logprob == pytest.approx(float(row[entry.token_id]), abs=1e-3)
        assert [token for token, _ in entry.top] == row.topk(2).indices.tolist()


@in_one_loop
async def test_a_grammar_is_obeyed_at_any_temperature(whole: LocalBackend) -> None:
    grammar = f"start: <[{CHANNEL}]> /[a-z ]{{1,4}}/ <[{MESSAGE}]> /[0-9]{{2,5}}/ <[{END}]>"
    hot = SamplingParams(temperature=20.0)
    request = dataclasses.replace(
        ask(max_tokens=30, sampling=hot, grammar=grammar), stop_token_ids=frozenset({END})
    )
    *constrained, free = await asyncio.gather(
        *[sample(whole, request) for _ in range(6)], sample(whole, ask(sampling=hot))
    )
    texts = [decode(ids) for ids in constrained]
    for text in texts:
        assert re.fullmatch(r"<\|channel\|>[a-z ]{1,4}<\|message\|>[0-9]{2,5}<\|end\|>", text)
    assert len(set(texts)) > 1
    assert len(free) == 12


@in_one_loop
async def test_a_grammar_without_a_stop_token_ends_with_itself(whole: LocalBackend) -> None:
    chunks = await run(whole, ask(grammar='start: "yes"'))
    assert tokens(chunks) == encode("yes")
    assert chunks[-1].finish_reason == "stop"
    assert len(await sample(whole, ask())) == 12


@in_one_loop
async def test_a_bad_grammar_is_refused_before_it_runs(whole: LocalBackend) -> None:
    with pytest.raises(InvalidGrammar):
        await run(whole, ask(grammar="start: nowhere"))


@in_one_loop
async def test_a_grammar_that_grows_too_complex_ends_its_own_request(whole: LocalBackend) -> None:
    grammar = f'start: <[{CHANNEL}]> s\ns: s s s | s s | /[a-z]/ | " " | ""'
    (word,), (refused,) = encode("international"), encode("1")
    # What the grammar refuses makes the engine compute the whole mask.
    going_on = SamplingParams(temperature=0.0, logit_bias={word: 100.0, refused: 200.0})
    bad, good = await asyncio.gather(
        sample(whole, ask(grammar=grammar, sampling=going_on)),
        sample(whole, ask()),
        return_exceptions=True,
    )
    assert isinstance(bad, InvalidGrammar)
    assert isinstance(good, list)
    assert len(good) == 12


async def test_a_cancelled_request_frees_its_slot(opened: Opener) -> None:
    async with opened(batch_requests="1") as backend, asyncio.timeout(60):
        hog = backend.generate(ask(max_tokens=900))
        await anext(hog)
        waiting = asyncio.ensure_future(sample(backend, ask()))
        await anext(hog)
        assert not waiting.done()
        await hog.aclose()
        assert len(await waiting) == 12


async def test_a_request_cancelled_while_it_waits_never_runs(opened: Opener) -> None:
    async with opened(batch_requests="1") as backend, asyncio.timeout(60):
        hog = backend.generate(ask(max_tokens=30))
        await anext(hog)
        waiting = asyncio.ensure_future(run(backend, ask(max_tokens=900)))
        await anext(hog)
        waiting.cancel()
        await asyncio.wait([waiting])
        assert (await drain(hog))[-1].finish_reason == "length"
        assert len(await sample(backend, ask())) == 12


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (torch.OutOfMemoryError("CUDA out of memory. Tried to allocate"), "out of memory"),
        (ZeroDivisionError("boom"), "boom"),
        (ZeroDivisionError("\n"), "ZeroDivisionError"),
    ],
)
async def test_a_dead_engine_fails_what_runs_and_is_unhealthy(
    small: LocalBackend, monkeypatch: pytest.MonkeyPatch, error: Exception, reason: str
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    running = [small.generate(ask(max_tokens=900)) for _ in range(2)]
    for generator in running:
        await anext(generator)
    waiting = asyncio.ensure_future(run(small, ask()))
    await asyncio.sleep(0)
    engine: Any = small._engine
    monkeypatch.setattr(engine._manager.model, "forward", fail)
    async with asyncio.timeout(60):
        for generator in running:
            with pytest.raises(BackendFailed, match=reason):
                await drain(generator)
        with pytest.raises(EngineDied, match=reason):
            await waiting
    await asyncio.to_thread(engine._thread.join)
    with pytest.raises(BackendFailed, match=reason):
        await small.check()
    with pytest.raises(BackendFailed, match=reason):
        await run(small, ask())


@asynccontextmanager
async def failing_once(
    backend: LocalBackend, when: Callable[[int], bool], error: Exception
) -> AsyncIterator[list[int]]:
    """The model fails at the first step whose number of tokens suits `when`; gives that number."""
    model = backend._engine._manager.model  # type: ignore[union-attr]
    forward = model.forward
    failed: list[int] = []

    def fail(*arguments: Any, **more: Any) -> Any:
        tokens = more["input_ids"].shape[1]
        if not failed and when(tokens):
            failed.append(tokens)
            raise error
        return forward(*arguments, **more)

    model.forward = fail
    try:
        yield failed
    finally:
        model.forward = forward


async def test_a_prompt_that_the_memory_does_not_take_ends_alone(
    small: LocalBackend, expected: Any
) -> None:
    """Those that decode beside it go on with the tokens that they get alone."""
    prompts = [prompt(30 + i, seed=i) for i in range(3)]
    error = torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB")
    async with failing_once(small, lambda tokens: tokens > 100, error) as failed:
        started = [small.generate(ask(ids, 40)) for ids in prompts]
        firsts = [await anext(generator) for generator in started]
        with pytest.raises(BackendFailed, match="ran out of memory: a shorter prompt"):
            await run(small, ask(prompt(600, seed=9)))
        rests = [await drain(generator) for generator in started]
    assert failed
    for ids, first, rest in zip(prompts, firsts, rests, strict=True):
        assert tokens([first, *rest]) == expected(ids, 40)
    await small.check()
    long = prompt(600, seed=9)
    assert await sample(small, ask(long)) == expected(long, 12)


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (torch.OutOfMemoryError("CUDA out of memory"), "ran out of memory"),
        (ZeroDivisionError("boom"), "a step failed: ZeroDivisionError: boom"),
    ],
)
async def test_a_step_that_fails_ends_its_batch_and_not_the_engine(
    small: LocalBackend, expected: Any, error: Exception, reason: str
) -> None:
    async with failing_once(small, lambda tokens: tokens == 2, error):
        started = [small.generate(ask(prompt(30, seed=i), 900)) for i in range(2)]
        for generator in started:
            await anext(generator)
        for generator in started:
            with pytest.raises(BackendFailed, match=reason):
                await drain(generator)
    await small.check()
    assert await sample(small, ask()) == expected(prompt(20), 12)
    engine: Any = small._engine
    assert not engine._manager.batch_processor.scheduler.active_requests
    assert not engine._rows


async def test_rows_that_have_their_token_are_not_computed_again(
    small: LocalBackend, expected: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a step fails after its tokens went out, all of its requests end."""
    step: Any = small._engine._step  # type: ignore[union-attr]
    advance = step._advance_all

    def fail(sampler: Any) -> None:
        advance(sampler)
        if len(sampler.batch) == 2:
            monkeypatch.undo()
            raise ZeroDivisionError("boom")

    monkeypatch.setattr(step, "_advance_all", fail)
    results = await asyncio.gather(
        *[sample(small, ask(prompt(30, seed=i), 20)) for i in range(2)], return_exceptions=True
    )
    assert [type(result) for result in results] == [EngineFault, EngineFault]
    assert await sample(small, ask()) == expected(prompt(20), 12)


async def test_tokens_are_sent_before_anything_else_can_fail(
    small: LocalBackend, expected: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An answer that is complete then stays so, and what goes on ends with an error."""
    engine: Any = small._engine
    start = engine._step._masks.start
    other = small.generate(ask(prompt(30, seed=1), 900))
    await anext(other)
    answer = asyncio.ensure_future(sample(small, ask(max_tokens=5)))
    await asyncio.sleep(0)
    row = list(engine._rows.values())[-1]

    def fail_at_the_end(due: Any) -> None:
        if row.ended:
            monkeypatch.undo()
            raise RuntimeError("can't start new thread")
        start(due)

    monkeypatch.setattr(engine._step._masks, "start", fail_at_the_end)
    async with asyncio.timeout(PATIENCE):
        assert await answer == expected(prompt(20), 5)
        with pytest.raises(EngineFault, match="new thread"):
            await drain(other)
        assert await sample(small, ask()) == expected(prompt(20), 12)


async def test_an_answer_that_is_complete_outlives_the_engine(
    small: LocalBackend, expected: Any
) -> None:
    """Also if its last tokens and the end of the engine reach the event loop together."""
    answer = asyncio.ensure_future(sample(small, ask()))
    await asyncio.sleep(0)
    engine: Any = small._engine
    (row,) = engine._rows.values()
    while not row.ended:
        time.sleep(0.001)  # noqa: ASYNC251
    engine.stop()
    assert await answer == expected(prompt(20), 12)


async def test_a_request_that_comes_while_the_engine_ends_does_not_wait(
    small: LocalBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The engine has ended its rows, and does not know of the one that is made just then."""
    engine: Any = small._engine

    def make_late(*arguments: Any) -> Row:
        engine.stop()
        engine._thread.join()
        return Row(*arguments)

    monkeypatch.setattr("adapters.local.engine.engine.Row", make_late)
    async with asyncio.timeout(PATIENCE):
        with pytest.raises(EngineDied, match="the engine was stopped"):
            await run(small, ask())
    assert engine.is_idle


async def test_a_cancellation_that_overtakes_its_request_ends_it(small: LocalBackend) -> None:
    """Both come when the engine has emptied its queue of requests, and not yet the other one."""
    engine: Any = small._engine
    loop, passed = asyncio.get_running_loop(), threading.Event()
    queue, scheduler = engine._manager.cancel_queue, engine._manager.batch_processor.scheduler
    empty, seen = queue.empty, list[str]()

    def submit_and_release() -> None:
        engine.release(engine.submit(ask(max_tokens=900), None))
        passed.set()

    def look() -> bool:
        if not passed.is_set():
            loop.call_soon_threadsafe(submit_and_release)
            passed.wait(PATIENCE)
        seen.extend(scheduler.active_requests)
        return bool(empty())

    queue.empty = look
    async with asyncio.timeout(PATIENCE):
        while not seen or scheduler.active_requests:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
    assert len(seen) < 10


async def test_pages_that_a_request_lost_are_not_counted_as_cached(
    opened: Opener, expected: Any
) -> None:
    """It finds its own tokens, which another request sampled too, when it comes back."""
    async with opened(cache_tokens="128", batch_tokens="64") as backend:
        request = ask(prompt(40), 80)
        answers = [asyncio.ensure_future(run(backend, request)) for _ in range(2)]
        await asyncio.sleep(0)
        rows: list[Row] = list(backend._engine._rows.values())
        while not all(row.ended for row in rows):
            time.sleep(0.001)  # noqa: ASYNC251  # no chunk is taken before the end
        for chunks in await asyncio.gather(*answers):
            assert tokens(chunks) == expected(prompt(40), 80)
            assert chunks[0].cached_tokens in (0, 32)


async def test_a_prompt_that_lost_its_pages_halfway_is_not_counted_as_cached(
    opened: Opener,
) -> None:
    """An answer that grows takes them, while each step computes one token of the prompt."""
    async with opened(cache_tokens="128", batch_tokens="2") as backend:
        growing = backend.generate(ask(prompt(20), 70))
        await anext(growing)
        chunks = await run(backend, ask(prompt(60, seed=1), 5))
        assert chunks[0].cached_tokens == 0
        await growing.aclose()


async def test_a_backend_that_is_stopped_while_it_starts_keeps_no_engine(
    small_config: BackendConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Loading goes on after the start was cancelled; what it makes is not used."""
    made: list[Engine] = []
    loading, stopped = threading.Event(), threading.Event()

    def make(*arguments: Any) -> Engine:
        loading.set()
        stopped.wait(PATIENCE)
        made.append(Engine(*arguments))
        return made[0]

    monkeypatch.setattr("adapters.local.backend.Engine", make)
    backend = LocalBackend(small_config)
    starting = asyncio.ensure_future(backend.start())
    await asyncio.to_thread(loading.wait, PATIENCE)
    starting.cancel()
    await asyncio.wait([starting])
    await backend.stop()
    stopped.set()
    async with asyncio.timeout(PATIENCE):
        while not made or made[0]._thread.is_alive():  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    assert backend._engine is None


@in_one_loop
@pytest.mark.parametrize(
    "request_",
    [
        ask(ids=()),
        ask(max_tokens=0),
        ask(ids=(1, -1)),
        ask(ids=(VOCABULARY,)),
        ask(sampling=SamplingParams(logit_bias={VOCABULARY: 1.0})),
    ],
    ids=["empty", "nothing to sample", "negative", "too large", "bias"],
)
async def test_a_request_that_would_break_the_engine_is_refused(
    shared: LocalBackend, request_: GenerationRequest
) -> None:
    with pytest.raises(Rejected, match=r"token|prompt"):
        await run(shared, request_)
    await shared.check()


async def test_several_backends_start_one_after_another_in_one_process(
    opened: Opener, expected: Any
) -> None:
    for _ in range(2):
        async with opened() as backend:
            assert await sample(backend, ask()) == expected(prompt(20), 12)


async def test_the_mask_tokenizer_is_built_before_the_backend_is_ready(
    small_config: BackendConfig,
) -> None:
    built: list[str] = []

    def build() -> None:
        built.append("built")

    backend = LocalBackend(dataclasses.replace(small_config, mask_tokenizer=build))
    await backend.start()
    assert built
    await backend.stop()


async def test_a_mask_tokenizer_that_cannot_be_built_is_missed_by_grammars_alone(
    small_config: BackendConfig,
) -> None:
    def build() -> None:
        raise OSError("no vocabulary")

    backend = LocalBackend(dataclasses.replace(small_config, mask_tokenizer=build))
    await backend.start()
    assert len(await sample(backend, ask())) == 12
    with pytest.raises(BackendFailed, match="no vocabulary"):
        await run(backend, ask(grammar='start: "yes"'))
    await backend.stop()


async def test_stopping_ends_the_threads_of_the_backend(local_config: BackendConfig) -> None:
    before, kinds = set(threading.enumerate()), {"engine", "grammar", "masks"}
    async with started(local_config) as backend:
        await run(backend, ask(grammar='start: ("yes" | "no") /[a-z]{4,8}/'))
        new = set(threading.enumerate()) - before
        # Others are of the libraries, such as one of progress bars, and of the event loop.
        threads = [thread for thread in new if thread.name.partition("_")[0] in kinds]
    assert {thread.name.partition("_")[0] for thread in threads} == kinds
    for thread in threads:
        await asyncio.to_thread(thread.join, PATIENCE)
    assert not any(thread.is_alive() for thread in threads)


async def test_a_model_is_needed(small_config: BackendConfig) -> None:
    backend = LocalBackend(dataclasses.replace(small_config, model=None))
    with pytest.raises(BackendFailed, match="needs a model"):
        await backend.start()


async def test_there_is_no_info_before_the_start(small_config: BackendConfig) -> None:
    with pytest.raises(BackendFailed, match="not been started"):
        _ = LocalBackend(small_config).info


async def test_a_cache_that_does_not_fit_the_memory_stops_the_start(
    small_config: BackendConfig,
) -> None:
    options = {**small_config.options, "cache_tokens": "100000000"}
    backend = LocalBackend(dataclasses.replace(small_config, options=options))
    with pytest.raises(BackendFailed, match="cannot set up the cache"):
        await backend.start()


@pytest.mark.parametrize("error", [OSError("libcudart.so"), TypeError("no such argument")])
async def test_an_engine_that_cannot_be_made_stops_the_start(
    small_config: BackendConfig, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fail(*_: Any) -> Engine:
        raise error

    monkeypatch.setattr("adapters.local.backend.Engine", fail)
    with pytest.raises(BackendFailed, match=r"cannot set up the cache: (libcudart|no such)"):
        await LocalBackend(small_config).start()


async def test_loading_reports_its_progress(small_config: BackendConfig) -> None:
    stages: list[tuple[str, float]] = []
    backend = LocalBackend(
        dataclasses.replace(small_config, progress=lambda *stage: stages.append(stage))
    )
    await backend.start()
    await backend.stop()
    assert stages[-1] == ("ready", 1.0)
    assert any(stage == "loading weights" for stage, _ in stages)
    assert ("warming up", 0.0) in stages
    assert all(0 <= fraction <= 1 for _, fraction in stages)


def pick_cpu(_name: str) -> torch.device:
    return torch.device("cpu")


def find_no_device(_name: str) -> torch.device:
    raise BackendFailed("no GPU can be used")


@pytest.mark.parametrize(
    ("pick", "reason"),
    [
        (pick_cpu, r"no GPU was found, and the checkpoint has 14\.0 GB"),
        (find_no_device, "no GPU can be used"),
    ],
)
async def test_a_model_that_this_machine_cannot_serve_is_not_downloaded(
    local_config: BackendConfig,
    monkeypatch: pytest.MonkeyPatch,
    pick: Callable[[str], torch.device],
    reason: str,
) -> None:
    def download(model: str, progress: Progress, *, check: Callable[[int], None]) -> None:
        check(14_000_000_000)
        raise AssertionError(f"{model} is downloaded")

    monkeypatch.setattr("adapters.local.backend.download", download)
    monkeypatch.setattr("adapters.local.backend.pick_device", pick)
    backend = LocalBackend(dataclasses.replace(local_config, model="org/model", options={}))
    with pytest.raises(BackendFailed, match=reason):
        await backend.start()
