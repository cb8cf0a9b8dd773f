"""SGLang's native interface, against exchanges written from its documentation and source."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from adapters.base import LEAST_LOGPROB, BackendConfig, SamplingParams, TokenLogprobs
from adapters.errors import (
    BackendFailed,
    EngineFault,
    InvalidGrammar,
    NotReady,
    Rejected,
    Unsupported,
)
from adapters.http.engine import HTTPEngine
from adapters.http.options import Options
from adapters.http.sglang import SGLangWire
from adapters.registry import create
from tests.adapters.fake_engine import FakeEngine, running, sends, status
from tests.adapters.http.asking import ask
from tests.adapters.sampling import logprobs, run, sample, tokens


@pytest.fixture
async def engine() -> AsyncIterator[FakeEngine]:
    engine = FakeEngine("sglang.json")
    engine.will("/v1/models", engine.recorded("models"))
    engine.will("/server_info", engine.recorded("full info"))
    engine.will("/generate", engine.recorded("stop"))
    async with running(engine):
        yield engine


@pytest.fixture
async def client(engine: FakeEngine) -> AsyncIterator[HTTPEngine]:
    client = HTTPEngine(engine.url, SGLangWire(), Options())
    await client.start()
    yield client
    await client.stop()


async def test_what_the_server_can_do_is_declared(client: HTTPEngine) -> None:
    assert (client.info.name, client.info.model) == ("sglang", "openai/gpt-oss-20b")
    assert client.info.context_length == 131_072
    assert {"grammar", "seed", "phases", "penalties"} <= client.info.features


@pytest.mark.parametrize(
    ("speculation", "reserved"),
    [
        ({"speculative_algorithm": None, "speculative_num_draft_tokens": 8}, 0),
        ({"speculative_algorithm": "EAGLE3", "speculative_num_draft_tokens": 8}, 8),
        (
            {
                "speculative_algorithm": "EAGLE",
                "speculative_eagle_topk": 4,
                "speculative_num_steps": 5,
                "speculative_num_draft_tokens": 8,
                "max_speculative_num_draft_tokens": None,
            },
            20,
        ),
    ],
)
async def test_the_context_is_without_what_speculation_reserves(
    engine: FakeEngine, speculation: dict[str, Any], reserved: int
) -> None:
    engine.will("/server_info", status(200, json.dumps(speculation)))
    client = HTTPEngine(engine.url, SGLangWire(), Options())
    await client.start()
    assert client.info.context_length == 131_072 - reserved
    await client.stop()


async def test_an_older_server_has_its_properties_under_another_name(engine: FakeEngine) -> None:
    del engine.answers["/server_info"]
    engine.will("/get_server_info", engine.recorded("full info"))
    client = HTTPEngine(engine.url, SGLangWire(), Options())
    await client.start()
    assert "grammar" in client.info.features
    await client.stop()


@pytest.mark.parametrize(("longest", "context"), [(19_994, 19_994), (200_000, 131_072)])
async def test_the_context_is_no_longer_than_what_the_servers_memory_holds(
    engine: FakeEngine, longest: int, context: int
) -> None:
    engine.will("/server_info", status(200, json.dumps({"max_req_input_len": longest})))
    client = HTTPEngine(engine.url, SGLangWire(), Options())
    await client.start()
    assert client.info.context_length == context
    await client.stop()


async def test_grammars_and_seeds_need_the_servers_flags(engine: FakeEngine) -> None:
    engine.will("/server_info", engine.recorded("plain info"))
    client = HTTPEngine(engine.url, SGLangWire(), Options())
    await client.start()
    assert not {"grammar", "seed"} & client.info.features
    with pytest.raises(Unsupported, match="sglang backend does not support a grammar"):
        await run(client, ask(grammar="start: <[1]>"))
    await client.stop()


async def test_whole_outputs_are_cut_into_what_is_new(client: HTTPEngine) -> None:
    chunks = await run(client, ask())
    assert tokens(chunks) == [200005, 17196, 200002]
    assert chunks[-1].finish_reason == "stop"


async def test_the_first_chunk_has_the_cached_tokens(client: HTTPEngine) -> None:
    assert [chunk.cached_tokens for chunk in await run(client, ask())] == [5, None, None]


async def test_an_answer_of_one_event_has_the_cached_tokens(
    client: HTTPEngine, engine: FakeEngine
) -> None:
    engine.will("/generate", sends(engine.lines("stop")[-2]))
    assert [chunk.cached_tokens for chunk in await run(client, ask())] == [5]


async def test_what_arrives_at_once_has_the_first_ones_cached_tokens(
    client: HTTPEngine, engine: FakeEngine
) -> None:
    engine.will("/generate", sends("".join(engine.lines("stop"))))
    first, _ = await run(client, ask())
    assert (first.token_ids, first.cached_tokens, first.logprobs) == ((200005, 17196), 5, None)


async def test_what_arrives_at_once_has_all_logprobs(
    client: HTTPEngine, engine: FakeEngine
) -> None:
    first, last, _ = engine.lines("incremental")
    more = last.replace('{"type":"length","length":3}', "null")
    engine.will("/generate", sends(first + more))
    generation = client.generate(ask(logprobs=2))
    chunk = await anext(generation)
    await generation.aclose()
    assert chunk.token_ids == (200005, 17196, 261)
    assert [entry.logprob for entry in chunk.logprobs or ()] == [-0.5, -0.25, -2.0]


async def test_a_stop_token_at_the_limit_is_a_stop(client: HTTPEngine, engine: FakeEngine) -> None:
    """Older versions compare the length before the stop tokens."""
    stop, length = '{"type":"stop","matched":200002}', '{"type":"length","length":3}'
    engine.will("/generate", sends(*(line.replace(stop, length) for line in engine.lines("stop"))))
    (*_, last) = await run(client, ask(max_tokens=3))
    assert (last.token_ids, last.finish_reason) == ((200002,), "stop")


async def test_incremental_outputs_are_taken_as_they_are(
    client: HTTPEngine, engine: FakeEngine
) -> None:
    engine.will("/generate", engine.recorded("incremental"))
    chunks = await run(client, ask(logprobs=2))
    assert tokens(chunks) == [200005, 17196, 261]
    assert logprobs(chunks) == [
        TokenLogprobs(200005, -0.5, ((200005, -0.5), (7, -1.5))),
        TokenLogprobs(17196, -0.25, ((17196, -0.25), (8, -2.5))),
        TokenLogprobs(261, -2.0, ((9, -1.0), (261, -2.0))),
    ]
    assert chunks[-1].finish_reason == "length"


async def test_the_request_has_the_fields_of_sglang(client: HTTPEngine, engine: FakeEngine) -> None:
    engine.will("/generate", engine.recorded("incremental"))
    sampling = SamplingParams(0.5, 0.9, 0, 0.1, 0.2, 0.3, 1.1, {7: -100.0})
    optional = {"grammar": "start: <[1]>", "cache_salt": "salt"}
    await run(client, ask(sampling=sampling, seed=3, logprobs=2, **optional))
    body = engine.bodies("/generate")[-1]
    assert body.pop("rid").startswith("r-")
    assert body == {
        "input_ids": [200006, 1428],
        "stream": True,
        "return_logprob": True,
        "top_logprobs_num": 2,
        "extra_key": "salt",
        "sampling_params": {
            "max_new_tokens": 4,
            "stop_token_ids": [200002],
            "no_stop_trim": True,
            "skip_special_tokens": False,
            "temperature": 0.5,
            "top_p": 0.9,
            "top_k": -1,
            "min_p": 0.1,
            "presence_penalty": 0.2,
            "frequency_penalty": 0.3,
            "repetition_penalty": 1.1,
            "logit_bias": {"7": -100.0},
            "sampling_seed": 3,
            "ebnf": "start: <[1]>",
        },
    }


async def test_what_a_request_does_not_ask_for_is_not_sent(
    client: HTTPEngine, engine: FakeEngine
) -> None:
    """An empty bias would make SGLang add it to the logits of the whole batch."""
    await run(client, ask())
    body = engine.bodies("/generate")[-1]
    assert body.keys() == {"rid", "input_ids", "sampling_params", "stream"}
    assert not {"logit_bias", "sampling_seed", "ebnf"} & body["sampling_params"].keys()


async def test_an_attempt_has_an_id_of_its_own(client: HTTPEngine, engine: FakeEngine) -> None:
    for _ in range(2):
        await run(client, ask())
    first, second = engine.bodies("/generate")
    assert first["rid"] != second["rid"]
    assert {one.headers["x-request-id"] for one in engine.asked if one.path == "/generate"} == {"r"}


async def test_a_grammar_that_does_not_compile_is_the_requests_fault(
    client: HTTPEngine, engine: FakeEngine
) -> None:
    engine.will("/generate", engine.recorded("abort"))
    with pytest.raises(InvalidGrammar, match="does not take the request's grammar"):
        await run(client, ask(grammar="start: nonsense("))


@pytest.mark.parametrize("ids", ['"output_ids": [], ', ""])
async def test_an_abort_of_a_full_queue_is_no_failure(
    client: HTTPEngine, engine: FakeEngine, ids: str
) -> None:
    reason = '{"type": "abort", "status_code": 503, "message": "The request queue is full."}'
    meta = f'{{"completion_tokens": 0, "finish_reason": {reason}}}'
    engine.will("/generate", sends(f'data: {{{ids}"meta_info": {meta}}}\n\n'))
    with pytest.raises(NotReady):
        await run(client, ask())


async def test_an_abort_without_a_code_is_a_failure(client: HTTPEngine, engine: FakeEngine) -> None:
    meta = '{"completion_tokens": 0, "finish_reason": {"type": "abort", "status_code": null}}'
    engine.will("/generate", sends(f'data: {{"output_ids": [], "meta_info": {meta}}}\n\n'))
    with pytest.raises(EngineFault, match="answered 500"):
        await run(client, ask())


@pytest.mark.parametrize(
    ("code", "error"), [(400, Rejected), (500, BackendFailed)], ids=["refused", "failed"]
)
async def test_an_error_has_its_class(
    client: HTTPEngine, engine: FakeEngine, code: int, error: type[Exception]
) -> None:
    engine.will("/generate", status(code, '{"error": {"message": "input too long"}}'))
    with pytest.raises(error, match=f"answered {code}"):
        await run(client, ask())


REFUSAL = 'data: {"error": {"message": "too long"}}\n\n'


async def test_an_error_without_a_code_before_a_token_is_a_refusal(
    client: HTTPEngine, engine: FakeEngine
) -> None:
    engine.will("/generate", sends(REFUSAL, "data: [DONE]\n\n"))
    with pytest.raises(Rejected, match="answered 400"):
        await run(client, ask())


async def test_an_error_without_a_code_after_a_token_is_a_failure(
    client: HTTPEngine, engine: FakeEngine
) -> None:
    engine.will("/generate", sends(engine.lines("stop")[0], REFUSAL))
    with pytest.raises(EngineFault, match="answered 500"):
        await run(client, ask())


async def test_an_error_with_a_code_keeps_it(client: HTTPEngine, engine: FakeEngine) -> None:
    engine.will("/generate", sends('data: {"error": {"message": "boom", "code": 500}}\n\n'))
    with pytest.raises(EngineFault, match="answered 500"):
        await run(client, ask())


async def test_tokens_after_the_end_are_a_fault(client: HTTPEngine, engine: FakeEngine) -> None:
    lines = engine.lines("incremental")[:-1]
    engine.will("/generate", sends(*lines, lines[0]))
    with pytest.raises(EngineFault, match="more after the end"):
        await run(client, ask())


async def test_a_missing_logprob_is_the_least(client: HTTPEngine, engine: FakeEngine) -> None:
    lines = [
        line.replace("-0.5,", "null,").replace("-1.5,", "null,")
        for line in engine.lines("incremental")
    ]
    engine.will("/generate", sends(*lines))
    (first, *_) = await run(client, ask(logprobs=2))
    least = LEAST_LOGPROB
    assert first.logprobs == (TokenLogprobs(200005, least, ((200005, least), (7, least))),)


async def test_too_few_logprobs_are_a_fault(client: HTTPEngine, engine: FakeEngine) -> None:
    line = engine.lines("incremental")[0]
    entry = '"output_token_logprobs":[[-0.5,200005,null]],'
    top = '"output_top_logprobs":[[[-0.5,200005,null],[-1.5,7,null]]]'
    none = line.replace(entry, '"output_token_logprobs":[],').replace(
        top, '"output_top_logprobs":[]'
    )
    engine.will("/generate", sends(none))
    with pytest.raises(EngineFault, match="logprobs of other tokens"):
        await run(client, ask(logprobs=2))


async def test_an_end_without_tokens_may_omit_its_lists(
    client: HTTPEngine, engine: FakeEngine
) -> None:
    meta = '{"completion_tokens": 1, "finish_reason": {"type": "length", "length": 1}}'
    end = f'data: {{"meta_info": {meta}}}\n\n'
    engine.will("/generate", sends(engine.lines("incremental")[0], end))
    *_, last = await run(client, ask(logprobs=2))
    assert (last.token_ids, last.logprobs, last.finish_reason) == ((), (), "length")


async def test_a_body_of_another_version_is_no_fault_of_the_request(
    client: HTTPEngine, engine: FakeEngine
) -> None:
    engine.will("/generate", status(422, '{"detail": "field required"}'))
    with pytest.raises(EngineFault, match="answered 422"):
        await run(client, ask())


async def test_it_is_a_backend_by_name(engine: FakeEngine) -> None:
    config = BackendConfig(None, {"url": engine.url}, lambda text: [], lambda ids: "", lambda: None)
    backend = create("sglang", config)
    await backend.start()
    assert await sample(backend, ask()) == [200005, 17196, 200002]
    await backend.stop()


@pytest.mark.parametrize("seed", [-(2**63), -1, 2**31, 2**63 - 1])
async def test_extremes_fit_the_engines_numbers(
    client: HTTPEngine, engine: FakeEngine, seed: int
) -> None:
    """It keeps top_k, and in some versions seeds, in 32 bits for the whole batch."""
    await run(client, ask(sampling=SamplingParams(5e-324, top_k=2**63), seed=seed))
    params = engine.bodies("/generate")[-1]["sampling_params"]
    assert (params["temperature"], params["top_k"]) == (0.0, -1)
    assert params["sampling_seed"] == seed % 2**31
