"""This server's engine as the model that writes summaries."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import Any

import pytest

from adapters.base import GenerationChunk, GenerationRequest
from adapters.errors import BackendFailed
from harmony.grammar import GrammarSpec, SchemaJson, final_headers
from server.generation.admission import Admission
from server.generation.summary_model import PRIORITY, EngineModel
from server.inbound.constraints import compile_spec
from server.inbound.options import MAX_PRIORITY
from server.summaries.base import Detail, NoCapacity, SummaryFailed
from server.summaries.prompt import SummaryPrompt, answer_schema

PROMPT = SummaryPrompt("Summarise <|end|>.", "The data.", answer_schema("auto"), 50)
ANSWER = '{"verdict":"withhold","title":"","text":""}'

StartEngine = Callable[..., Awaitable[Any]]


def model(engine: Any, running: int = 1, *, masks: bool = True) -> EngineModel:
    return EngineModel(engine, Admission(running, 0), masks=masks)


async def test_the_engine_answers_in_the_final_channel(start_engine: StartEngine) -> None:
    engine = await start_engine(f"{ANSWER}<|return|>")
    completion = await model(engine).complete(PROMPT)
    (request,) = engine.requests
    assert completion.text == ANSWER
    assert completion.usage.input == len(request.prompt_token_ids)
    assert completion.usage.output > 5
    assert request.prompt_token_ids[-len(final_headers()[1]) :] == final_headers()[1]
    assert request.priority == PRIORITY > MAX_PRIORITY
    assert request.max_tokens == 50
    assert '"verdict"' in (request.grammar or "")


async def test_without_masks_there_is_no_grammar(start_engine: StartEngine) -> None:
    engine = await start_engine(f"{ANSWER}<|return|>")
    await model(engine, masks=False).complete(PROMPT)
    assert engine.requests[0].grammar is None


@pytest.mark.parametrize("detail", ["auto", "concise", "detailed"])
def test_the_grammar_compiles(detail: Detail) -> None:
    spec = GrammarSpec(answer=SchemaJson(answer_schema(detail)), reasoning=False)
    assert "verdict" in compile_spec(spec)


async def test_without_a_spare_slot_there_is_no_capacity(start_engine: StartEngine) -> None:
    engine = await start_engine(f"{ANSWER}<|return|>")
    admission = Admission(1, 0)
    async with admission.enter().slot():
        with pytest.raises(NoCapacity):
            await EngineModel(engine, admission, masks=True).complete(PROMPT)
    assert engine.requests == []


async def test_a_request_ends_the_sampling_and_gets_the_slot(start_engine: StartEngine) -> None:
    engine = await start_engine({"completion": f"{ANSWER}<|return|>", "delay_ms": 60_000})
    generate, started = engine.generate, asyncio.Event()

    async def note_the_first(request: GenerationRequest) -> AsyncGenerator[GenerationChunk, None]:
        async with aclosing(generate(request)) as chunks:
            async for chunk in chunks:
                started.set()
                yield chunk

    engine.generate = note_the_first
    admission = Admission(1, 0)
    writing = asyncio.create_task(EngineModel(engine, admission, masks=True).complete(PROMPT))
    await started.wait()
    async with admission.enter().slot():
        assert engine.open == 0
    with pytest.raises(NoCapacity):
        await writing


@pytest.mark.parametrize("completion", ["", "<|return|>", "words without an end"])
async def test_an_answer_without_an_object_is_no_error_here(
    start_engine: StartEngine, completion: str
) -> None:
    engine = await start_engine(completion)
    assert ANSWER not in (await model(engine).complete(PROMPT)).text


async def test_an_engine_that_breaks_off_fails_without_its_words(
    start_engine: StartEngine,
) -> None:
    engine = await start_engine(f"{ANSWER}<|return|>")
    engine.breaks = BackendFailed("secret")
    with pytest.raises(SummaryFailed) as failure:
        await model(engine).complete(PROMPT)
    assert "secret" not in str(failure.value)


async def test_a_prompt_that_does_not_fit_fails(start_engine: StartEngine) -> None:
    engine = await start_engine(f"{ANSWER}<|return|>")
    engine.changes = {"context_length": 10}
    with pytest.raises(SummaryFailed, match="ContextLengthExceeded"):
        await model(engine).complete(PROMPT)


async def test_an_engine_that_ends_without_a_reason_fails(start_engine: StartEngine) -> None:
    engine = await start_engine("a")

    async def generate(request: GenerationRequest) -> AsyncGenerator[GenerationChunk, None]:
        nothing: tuple[GenerationChunk, ...] = ()
        for chunk in nothing:
            yield chunk

    engine.generate = generate
    with pytest.raises(SummaryFailed, match="finish reason"):
        await model(engine).complete(PROMPT)
