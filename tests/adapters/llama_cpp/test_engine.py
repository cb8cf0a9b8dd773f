"""What the adapter must know of llama.cpp; runs where it is built (`make test-llama-cpp`)."""

import asyncio
from typing import Any

import httpx
import pytest

from adapters.base import Backend, GenerationRequest, SamplingParams
from adapters.errors import InvalidGrammar
from adapters.local.backend import LocalBackend
from harmony.tokenizer import decode, encode, encode_with_control
from harmony.vocab import CALL, CHANNEL, ENDOFTEXT, MESSAGE, RETURN, STOP_TOKENS
from tests.adapters import llama_cpp_process
from tests.adapters.sampling import run, tokens
from tests.adapters.vllm_process import Process

pytestmark = llama_cpp_process.needed

QUESTIONS = ("hello", "What is 12 + 7?", "Who are you?", "What can you do?", "Say hello in French.")
GREEDY = SamplingParams(0.0)
GO_ON = SamplingParams(logit_bias=dict.fromkeys(STOP_TOKENS, -100.0))


def ask(text: str = "hello", max_tokens: int = 8, **fields: Any) -> GenerationRequest:
    prompt = encode_with_control(f"<|start|>user<|message|>{text}<|end|><|start|>assistant")
    return GenerationRequest("r", tuple(prompt), max_tokens, STOP_TOKENS, **fields)


async def busy(engine: Process) -> bool:
    async with httpx.AsyncClient(base_url=engine.url) as client:
        return any(slot["is_processing"] for slot in (await client.get("/slots")).json())


async def test_greedy_tokens_and_logprobs_are_those_of_transformers(
    backend: Backend, local: LocalBackend
) -> None:
    equal = 0
    for question in QUESTIONS:
        request = ask(question, 60, sampling=GREEDY, logprobs=1)
        one, other = await run(backend, request), await run(local, request)
        if tokens(one) != tokens(other):  # sums differ in their last bits
            continue
        equal += 1
        assert one[-1].finish_reason == other[-1].finish_reason
        for mine, theirs in zip(one, other, strict=False):
            for entry, expected in zip(mine.logprobs or (), theirs.logprobs or (), strict=False):
                assert entry.logprob == pytest.approx(expected.logprob, abs=0.5)
    assert equal >= len(QUESTIONS) - 1


@pytest.mark.parametrize("token_id", [RETURN, CALL, ENDOFTEXT])
async def test_each_of_harmonys_stop_tokens_ends_a_generation(
    backend: Backend, token_id: int
) -> None:
    chunks = await run(backend, ask(sampling=SamplingParams(logit_bias={token_id: 100.0})))
    assert tokens(chunks) == [token_id]
    assert chunks[-1].finish_reason == "stop"


async def test_characters_of_several_tokens_come_with_all_their_ids(backend: Backend) -> None:
    knot = encode("\N{KNOT}")
    assert len(knot) == 3
    sampling = SamplingParams(0.0, logit_bias=dict.fromkeys(knot, 30.0))
    request = ask("\N{KNOT}" * 20, 12, sampling=sampling)
    prompt = (*request.prompt_token_ids, *encode_with_control("<|channel|>final<|message|>"))
    chunks = await run(
        backend,
        GenerationRequest("r", (*prompt, *knot * 6), 12, STOP_TOKENS, sampling=sampling),
    )
    assert decode(tokens(chunks)) == "\N{KNOT}" * 4
    assert tokens(chunks) == knot * 4


async def test_requests_right_after_one_another_do_not_meet_a_closed_connection(
    backend: Backend,
) -> None:
    for _ in range(60):
        await run(backend, ask(max_tokens=1))


async def test_a_generation_that_is_closed_frees_its_slot(
    backend: Backend, engine: Process
) -> None:
    generator = backend.generate(ask(max_tokens=1500, sampling=GO_ON))
    await anext(generator)
    await generator.aclose()
    async with asyncio.timeout(60):
        while await busy(engine):
            continue


async def test_what_continues_a_generation_that_is_closed_finds_its_tokens_in_the_cache(
    backend: Backend,
) -> None:
    """If its slot were still busy, another slot would compute them again."""
    for number in range(8):
        request = ask(f"{number} again" * 100, 500, sampling=GO_ON)
        generator = backend.generate(request)
        first = await anext(generator)
        await generator.aclose()
        continued = request.after(first.token_ids, max_tokens=1)
        cached = sum(chunk.cached_tokens or 0 for chunk in await run(backend, continued))
        assert cached >= len(request.prompt_token_ids)


async def test_text_that_may_only_end_otherwise_holds_no_structural_token(
    backend: Backend,
) -> None:
    """By itself the model would say its analysis' end and begin another message."""
    text = r"/(.|\n)*/"
    grammar = f"start: <[{CHANNEL}]> <[35644]> <[{MESSAGE}]> {text} <[{RETURN}]>"
    sampled = tokens(await run(backend, ask(max_tokens=100, sampling=GREEDY, grammar=grammar)))
    assert sampled[:3] == [CHANNEL, 35644, MESSAGE]
    assert max(sampled[3:-1]) < ENDOFTEXT


async def test_the_server_would_sample_freely_under_a_grammar_that_does_not_compile(
    backend: Backend, engine: Process
) -> None:
    """Why the adapter follows grammars itself."""
    body = {"prompt": [0], "n_predict": 1, "grammar": "%llguidance {}\nstart: nonsense("}
    async with httpx.AsyncClient(base_url=engine.url) as client:
        assert (await client.post("/completion", json=body)).status_code == 200
    with pytest.raises(InvalidGrammar):
        await run(backend, ask(grammar="start: nonsense("))
