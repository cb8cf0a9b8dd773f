"""What every backend owes the server (adapters/base.py). A new backend joins `BACKENDS`.

vLLM's run where vLLM is installed: `make test-vllm`; llama.cpp's where that is built:
`make test-llama-cpp`.
"""

import asyncio
import dataclasses
import json
import re
from collections.abc import AsyncIterator, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from adapters.base import (
    Backend,
    BackendConfig,
    GenerationRequest,
    SamplingParams,
    SamplingPhase,
)
from adapters.errors import BackendFailed, ContextTooLong, DeadEnd, InvalidGrammar
from adapters.registry import create
from harmony.grammar import CallableTool, GrammarSpec, RegexText
from harmony.messages import Author, Message, Role
from harmony.tokenizer import decode, encode_with_control
from harmony.vocab import CHANNEL, MESSAGE, RETURN, STOP_TOKENS
from server.generation.admission import Admission
from server.generation.answer_spec import AnswerSpec
from server.generation.gateway import Gateway
from server.generation.hosted_calls import ToolLimits
from server.generation.plan import Constraint, DeclaredTool
from server.generation.turn_events import CallEnded, MessageClosed
from server.tools.base import Citation, ToolContext
from server.tools.browser.tool import BrowserOptions, BrowserTool
from tests.adapters import llama_cpp_process
from tests.adapters.sampling import run, tokens
from tests.adapters.vllm_process import ENGINE_ARGUMENTS, serving
from tests.server.generation.recorder import Recorder
from tests.server.tools.hosted import Session, plan

BACKENDS = [
    *("scripted", "transformers"),
    *(["vllm", "vllm-http"] if find_spec("vllm") else []),
    pytest.param("llama-cpp", marks=llama_cpp_process.needed),
]
PROMPT = "<|start|>user<|message|>hello<|end|><|start|>assistant"
END_AT_ONCE = SamplingParams(logit_bias={RETURN: 100.0})
GO_ON = SamplingParams(logit_bias=dict.fromkeys(STOP_TOKENS, -100.0))
SCRIPT = [
    {"prompt_contains": "stop", "completion": "<|return|>"},
    {"completion": "<|channel|>final<|message|>" + "one two three " * 20},
]


pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.fixture(scope="module", params=BACKENDS)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def config(
    name: str, tmp_path_factory: pytest.TempPathFactory, local_config: BackendConfig
) -> Iterator[BackendConfig]:
    folder = tmp_path_factory.mktemp(name)
    match name:
        case "transformers":
            yield local_config
        case "vllm":
            yield dataclasses.replace(local_config, options=ENGINE_ARGUMENTS)
        case "vllm-http":
            with serving(Path(str(local_config.model)), folder) as (server,):
                yield dataclasses.replace(local_config, model=None, options={"url": server.url})
        case "llama-cpp":
            with llama_cpp_process.serving(folder) as server:
                yield dataclasses.replace(local_config, model=None, options={"url": server.url})
        case _:
            script = folder / "script.jsonl"
            script.write_text("\n".join(json.dumps(line) for line in SCRIPT))
            yield dataclasses.replace(local_config, model=None, options={"script": str(script)})


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared(name: str, config: BackendConfig) -> AsyncIterator[Backend]:
    backend = create(name, config)
    await backend.start()
    yield backend
    await backend.stop()


@pytest.fixture
def backend(shared: Backend) -> Backend:
    """For tests that leave it as they found it."""
    return shared


@pytest.fixture
def sampler(name: str, backend: Backend) -> Backend:
    """A backend that samples; a script is replayed whatever is asked for."""
    if name == "scripted":
        pytest.skip("replays")
    return backend


@pytest_asyncio.fixture(loop_scope="module")
async def fresh(name: str, config: BackendConfig) -> AsyncIterator[Backend]:
    backend = create(name, config)
    await backend.start()
    yield backend
    await backend.stop()


def ask(prompt: str = PROMPT, max_tokens: int = 8, **fields: Any) -> GenerationRequest:
    ids = tuple(encode_with_control(prompt))
    return GenerationRequest("r", ids, max_tokens, STOP_TOKENS, **({"sampling": GO_ON} | fields))


async def test_the_info_describes_the_engine(backend: Backend, name: str) -> None:
    assert backend.info.name == name
    assert backend.info.vocab_size == 201_088
    assert backend.info.context_length >= 1024


async def test_only_the_last_chunk_has_a_finish_reason(backend: Backend) -> None:
    chunks = await run(backend, ask())
    assert [chunk.finish_reason for chunk in chunks[:-1]] == [None] * (len(chunks) - 1)
    assert chunks[-1].finish_reason == "length"
    assert len(tokens(chunks)) == 8


async def test_a_stop_token_ends_the_generation_and_is_its_last_id(backend: Backend) -> None:
    chunks = await run(backend, ask(PROMPT + " stop", sampling=END_AT_ONCE))
    assert tokens(chunks) == [RETURN]
    assert chunks[-1].finish_reason == "stop"


async def test_one_chunk_has_the_cached_tokens(backend: Backend) -> None:
    request = ask()
    chunks = await run(backend, request)
    (cached,) = [chunk.cached_tokens for chunk in chunks if chunk.cached_tokens is not None]
    assert 0 <= cached < len(request.prompt_token_ids)
    assert {chunk.cached_tokens for chunk in chunks[1:-1]} <= {None}


async def test_a_prompt_that_comes_again_is_taken_from_the_cache(sampler: Backend) -> None:
    request = ask("again " * 300)
    await run(sampler, request)
    cached = sum(chunk.cached_tokens or 0 for chunk in await run(sampler, request))
    assert 128 <= cached < len(request.prompt_token_ids)


async def test_only_prompts_with_the_same_salt_are_taken_from_the_cache(
    name: str, sampler: Backend
) -> None:
    if name not in ("transformers", "vllm", "vllm-http"):
        pytest.skip("its cache knows no salts")
    cached = [
        sum(chunk.cached_tokens or 0 for chunk in await run(sampler, request))
        for salt in ("a", "b", None, "a")
        for request in [ask("salted " * 300, cache_salt=salt)]
    ]
    assert cached[:3] == [0, 0, 0]
    assert cached[3] >= 128


async def test_there_are_no_logprobs_unless_asked_for(backend: Backend) -> None:
    assert {chunk.logprobs for chunk in await run(backend, ask())} == {None}


async def test_each_token_has_its_logprob_and_at_most_as_many_rivals_as_asked(
    backend: Backend,
) -> None:
    for chunk in await run(backend, ask(logprobs=3)):
        assert chunk.logprobs is not None
        assert tuple(entry.token_id for entry in chunk.logprobs) == chunk.token_ids
        for entry in chunk.logprobs:
            assert entry.logprob <= 0
            assert 1 <= len(entry.top) <= 3
            assert list(entry.top) == sorted(entry.top, key=lambda rival: -rival[1])


async def test_a_grammar_masks_every_token(sampler: Backend) -> None:
    grammar = f"start: <[{CHANNEL}]> <[{MESSAGE}]> /[ab]{{5}}/ <[{RETURN}]>"
    chunks = await run(sampler, ask(max_tokens=20, grammar=grammar))
    first, second, *letters, last = tokens(chunks)
    assert (first, second, last) == (CHANNEL, MESSAGE, RETURN)
    assert set(decode(letters)) <= {"a", "b"}
    assert len(decode(letters)) == 5
    assert chunks[-1].finish_reason == "stop"


async def test_a_grammar_that_does_not_compile_is_the_requests_fault(sampler: Backend) -> None:
    with pytest.raises(InvalidGrammar):
        await run(sampler, ask(grammar="start: nonsense("))
    await sampler.check()


def object_of(count: int) -> str:
    """A grammar for an object with so many optional properties."""
    properties = {f"p{number}": {"type": "string"} for number in range(count)}
    schema = {"type": "object", "properties": properties, "additionalProperties": False}
    return f"start: <[{MESSAGE}]> %json {json.dumps(schema)}"


@pytest.mark.parametrize(
    "grammar",
    [
        "start: /[a-z]{3}[^\\s\\S]/",
        'start: "select" x\nx: /[^\\s\\S]/',
        'start: "a" s\ns: s s s | s s | /[a-z]/ | " " | ""',
        object_of(600),
    ],
)
async def test_a_grammar_that_cannot_be_followed_to_its_end_is_at_fault(
    sampler: Backend, grammar: str
) -> None:
    for _ in range(3):
        with pytest.raises((DeadEnd, InvalidGrammar)):
            await run(sampler, ask(max_tokens=60, grammar=grammar))
    assert tokens(await run(sampler, ask(max_tokens=2)))


async def test_a_seed_repeats_the_tokens(backend: Backend) -> None:
    one, other = [tokens(await run(backend, ask(seed=7))) for _ in range(2)]
    assert one == other


def only(token_id: int) -> SamplingParams:
    """Samples this token, whatever the model prefers."""
    return SamplingParams(logit_bias={token_id: 100.0})


async def test_a_phase_has_its_own_sampling_until_it_ends(sampler: Backend) -> None:
    phase = SamplingPhase(((2000, 1000), (1000, 1000)), frozenset({4000}), only(4000))
    request = ask(max_tokens=9, sampling=only(1000), phases=(phase,))
    assert tokens(await run(sampler, request)) == [1000, 1000, 4000] * 3


async def test_a_phase_goes_on_until_it_ends(sampler: Backend) -> None:
    phase = SamplingPhase(((1000, 1000),), frozenset({4000}), only(3000))
    request = ask(max_tokens=40, sampling=only(1000), phases=(phase,))
    assert tokens(await run(sampler, request)) == [1000, 1000] + [3000] * 38


async def test_a_phase_goes_on_under_its_grammar(sampler: Backend) -> None:
    rest = f"/[ab]{{5}}/ <[{RETURN}]>"
    (letter,) = encode_with_control("a")
    bias = SamplingParams(logit_bias={letter: 100.0})
    begin = (CHANNEL, MESSAGE)
    phase = SamplingPhase((begin,), frozenset({RETURN}), bias, f"start: {rest}")
    grammar = f"start: <[{CHANNEL}]> <[{MESSAGE}]> {rest}"
    chunks = await run(sampler, ask(max_tokens=20, grammar=grammar, phases=(phase,)))
    assert tokens(chunks) == [*begin, *[letter] * 5, RETURN]
    assert chunks[-1].finish_reason == "stop"


async def test_a_request_that_exceeds_the_context_is_refused_before_it_runs(
    backend: Backend,
) -> None:
    generator = backend.generate(ask(max_tokens=backend.info.context_length))
    with pytest.raises(ContextTooLong) as refusal:
        await anext(generator)
    assert refusal.value.context_length == backend.info.context_length


async def test_many_run_at_once(backend: Backend) -> None:
    results = await asyncio.gather(*[run(backend, ask(max_tokens=n)) for n in range(1, 7)])
    assert [len(tokens(chunks)) for chunks in results] == [1, 2, 3, 4, 5, 6]


async def test_closing_a_generator_ends_it_and_leaves_the_backend_well(backend: Backend) -> None:
    generator = backend.generate(ask(max_tokens=50))
    await anext(generator)
    await generator.aclose()
    with pytest.raises(StopAsyncIteration):
        await anext(generator)
    await backend.check()
    assert len(tokens(await run(backend, ask()))) == 8


async def test_stopping_fails_what_is_in_flight_and_refuses_what_comes(fresh: Backend) -> None:
    await fresh.check()
    # More than can have come before a slow machine stops it.
    generator = fresh.generate(ask(max_tokens=min(4000, fresh.info.context_length - 100)))
    await anext(generator)
    await fresh.stop()
    await fresh.stop()
    with pytest.raises(BackendFailed):
        async for _ in generator:
            pass
    with pytest.raises(BackendFailed):
        await fresh.check()
    with pytest.raises(BackendFailed):
        await run(fresh, ask())


async def test_a_start_that_fails_has_a_reason_and_can_be_stopped(
    name: str, config: BackendConfig, tmp_path: Path
) -> None:
    nowhere = str(tmp_path / "nowhere")
    url = {"url": "http://nowhere.invalid"}
    unreachable = {"scripted": {"script": nowhere}, "vllm-http": url, "llama-cpp": url}
    options = unreachable.get(name, {})
    backend = create(name, dataclasses.replace(config, model=nowhere, options=options))
    with pytest.raises(BackendFailed, match="nowhere"):
        await backend.start()
    await backend.stop()


async def test_a_grammar_forces_a_hosted_call_whose_result_the_next_turn_reads(
    sampler: Backend,
) -> None:
    """The server runs the call, and the engine has the tokens before the result in its cache."""
    code, texts = ("1+1", "2+2"), ("yes", "no")
    spec = GrammarSpec(
        (CallableTool("python", RegexText("|".join(map(re.escape, code)))),),
        call_required=True,
        answer=RegexText("|".join(texts)),
        reasoning=False,
        preambles=False,
    )
    asked = plan(
        Message(Author(Role.USER), "How much? " * 100),
        max_tokens=100,
        constraint=Constraint.of(spec),
    )
    recorder, session = Recorder(), Session()
    # A second call is refused, and the turn after it has the answer.
    gateway = Gateway(sampler, Admission(1, 1), tool_limits=ToolLimits(rounds=1))
    run = await gateway.start(AnswerSpec(asked, recorder, "r", sessions=[session]))
    await run.wait()
    (call,) = session.calls
    assert (call.recipient, call.content in code) == ("python", True)
    (first, *_) = recorder.of(CallEnded)
    assert first.result.text == f"RESULT {call.content}"
    closed = recorder.of(MessageClosed)
    assert (closed[-1].header.channel, closed[-1].message.content in texts) == ("final", True)
    finished = recorder.finished
    assert finished.reason == "stop"
    assert finished.usage.later_cached > 0


CALLS = {
    "browser.search": '{"query":"harbour"}',
    "browser.open": '{"id":0}',
    "browser.find": '{"pattern":"tides"}',
}
SHOWN = ["[0] harbour", "[1] Harbour (file-search://", "[2] Find results for text: `tides`"]


async def test_grammars_force_the_browser_to_search_open_and_find(
    sampler: Backend, tmp_path: Path
) -> None:
    """Each answer is forced to call one function of the browser, then to cite its page."""
    (tmp_path / "harbour.md").write_text("# Harbour\n\nHigh tides reach the quay.")
    tool = BrowserTool(BrowserOptions(search=(f"files:{tmp_path}",)), {})
    await tool.start()
    session = await tool.open({"type": "web_search"}, ToolContext("owner", "r", "tools.0", 60.0))
    declared = tuple(
        DeclaredTool(name, name.rpartition(".")[2], "hosted", hosted=session.declaration)
        for name in CALLS
    )
    results: list[CallEnded] = []
    for cursor, (name, arguments) in enumerate(CALLS.items()):
        cited = f"Yes【{cursor}†L1】"
        spec = GrammarSpec(
            (CallableTool(name, RegexText(re.escape(arguments))),),
            call_required=True,
            answer=RegexText(re.escape(cited)),
            reasoning=False,
            preambles=False,
        )
        asked = plan(
            Message(Author(Role.USER), "Where?"),
            tools=declared,
            max_tokens=100,
            constraint=Constraint.of(spec),
        )
        recorder = Recorder()
        gateway = Gateway(sampler, Admission(1, 1), tool_limits=ToolLimits(rounds=1))
        await (await gateway.start(AnswerSpec(asked, recorder, "r", sessions=[session]))).wait()
        results.append(recorder.of(CallEnded)[0])
        closed = recorder.of(MessageClosed)
        assert closed[-1].message.content == cited
    await tool.stop()
    texts = [event.result.text for event in results]
    assert [event.result.failed for event in results] == [False] * 3, texts
    assert [text[: len(shown)] for text, shown in zip(texts, SHOWN, strict=True)] == SHOWN
    page = Citation(f"file-search://{tmp_path.name}/harbour.md", "Harbour")
    assert [session.cite(1), session.cite(2)] == [page, page]
