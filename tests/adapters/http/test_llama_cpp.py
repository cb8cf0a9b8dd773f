"""llama.cpp's server, against what a real one was recorded to answer."""

import json
import socket
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from llguidance import LLTokenizer

from adapters.base import BackendConfig, SamplingParams, TokenLogprobs
from adapters.errors import BackendFailed, EngineFault, InvalidGrammar, Rejected, Unsupported
from adapters.http.engine import HTTPEngine
from adapters.http.llama_cpp import LlamaCppWire
from adapters.http.options import Options
from adapters.registry import create
from harmony.tokenizer import decode, encode_with_control
from tests.adapters.fake_engine import FakeEngine, running, sends, status
from tests.adapters.http.asking import ask
from tests.adapters.sampling import logprobs, run, sample, tokens

LOADING = '{"error":{"message":"Loading model","type":"unavailable_error","code":503}}'
KNOT = [4103, 103, 95]  # one character
STRUCTURE = (200006, 200005, 200003, 200008, 200007)


@pytest.fixture
async def engine() -> AsyncIterator[FakeEngine]:
    engine = FakeEngine("llama_cpp.json")
    engine.will("/props", engine.recorded("props"))
    engine.will("/completion", engine.recorded("masked"), engine.recorded("stop"))
    async with running(engine):
        yield engine


@pytest.fixture
async def client(engine: FakeEngine) -> AsyncIterator[HTTPEngine]:
    client = HTTPEngine(engine.url, LlamaCppWire(encode_with_control), Options())
    await client.start()
    yield client
    await client.stop()


async def test_what_the_server_can_do_is_declared(client: HTTPEngine) -> None:
    assert (client.info.name, client.info.context_length) == ("llama-cpp", 2048)
    assert client.info.model == "demo.gguf"
    assert {"grammar", "seed", "phases"} <= client.info.features
    assert "penalties" not in client.info.features
    assert client.info.max_requests == 4


async def test_a_grammar_is_tried_with_one_token(client: HTTPEngine, engine: FakeEngine) -> None:
    assert engine.bodies("/completion") == [
        {
            "prompt": [0],
            "n_predict": 1,
            "return_tokens": True,
            "grammar": "%llguidance {}\nstart: <[1]>",
        }
    ]


async def test_a_server_without_llguidance_takes_no_grammar(engine: FakeEngine) -> None:
    engine.will("/completion", engine.recorded("unmasked"))
    client = HTTPEngine(engine.url, LlamaCppWire(encode_with_control), Options())
    await client.start()
    with pytest.raises(Unsupported, match="llama-cpp backend does not support a grammar"):
        await run(client, ask(grammar="start: <[1]>"))
    await client.stop()


async def test_a_server_that_still_loads_cannot_be_used_yet(engine: FakeEngine) -> None:
    engine.will("/props", status(503, LOADING), engine.recorded("props"))
    client = HTTPEngine(engine.url, LlamaCppWire(encode_with_control), Options())
    with pytest.raises(EngineFault, match="503"):
        await client.start()
    await client.start()
    assert client.info.model == "demo.gguf"
    await client.stop()


@pytest.mark.parametrize("code", [404, 429, 500, 503])
async def test_a_server_that_fails_the_test_completion_may_have_grammars(
    engine: FakeEngine, code: int
) -> None:
    engine.will("/completion", status(code))
    client = HTTPEngine(engine.url, LlamaCppWire(encode_with_control), Options())
    with pytest.raises(EngineFault, match=f"answered {code} to /completion"):
        await client.start()
    await client.stop()


async def test_a_context_without_end_is_none(engine: FakeEngine) -> None:
    settings = '{"n_ctx": 1e999}'
    engine.will(
        "/props", sends(f'{{"model_alias": "m", "default_generation_settings": {settings}}}')
    )
    client = HTTPEngine(engine.url, LlamaCppWire(encode_with_control), Options())
    with pytest.raises(EngineFault, match="is no llama-cpp server: OverflowError"):
        await client.start()
    await client.stop()


async def test_the_tokens_come_as_they_are_sampled(client: HTTPEngine, engine: FakeEngine) -> None:
    engine.will("/completion", engine.recorded("length"))
    chunks = await run(client, ask())
    assert tokens(chunks) == [200005, 35644, 200008, 2500]
    assert chunks[-1].finish_reason == "length"


async def test_a_stop_token_is_the_last_id(client: HTTPEngine) -> None:
    chunks = await run(client, ask())
    assert tokens(chunks) == [200002]
    assert chunks[-1].finish_reason == "stop"


async def test_the_first_chunk_has_the_cached_tokens(
    client: HTTPEngine, engine: FakeEngine
) -> None:
    engine.will("/completion", engine.recorded("cached"))
    assert [chunk.cached_tokens for chunk in await run(client, ask())] == [306, None]


async def test_a_count_of_no_cached_tokens_is_kept_where_events_arrive_together(
    client: HTTPEngine, engine: FakeEngine
) -> None:
    engine.will("/completion", sends("".join(engine.lines("length"))))
    assert [chunk.cached_tokens for chunk in await run(client, ask())] == [0, None]


async def test_an_answer_without_tokens_has_the_cached_tokens(
    client: HTTPEngine, engine: FakeEngine
) -> None:
    engine.will("/completion", sends(engine.lines("cached")[-1]))
    assert [chunk.cached_tokens for chunk in await run(client, ask())] == [306]


async def test_each_token_has_its_logprob(client: HTTPEngine, engine: FakeEngine) -> None:
    engine.will("/completion", engine.recorded("length"))
    chunks = await run(client, ask(logprobs=2))
    entries = logprobs(chunks)
    assert [entry.token_id for entry in entries] == [200005, 35644, 200008, 2500]
    assert [entry.top[0] for entry in entries] == [
        (entry.token_id, entry.logprob) for entry in entries
    ]
    assert {len(entry.top) for entry in entries} == {2}


async def test_ids_that_the_stream_leaves_out_are_found_again(
    client: HTTPEngine, engine: FakeEngine
) -> None:
    engine.will("/completion", engine.recorded("hidden"))
    chunks = await run(client, ask(logprobs=1, max_tokens=6))
    assert tokens(chunks) == KNOT * 2
    entries = logprobs(chunks)
    assert [entry.token_id for entry in entries] == KNOT * 2
    assert entries[:2] == [TokenLogprobs(token_id, -9999.0) for token_id in KNOT[:2]]
    assert entries[2].top == ((KNOT[-1], entries[2].logprob),)


async def test_ids_of_a_character_that_the_limit_cuts_are_lost(
    client: HTTPEngine, engine: FakeEngine
) -> None:
    engine.will("/completion", engine.recorded("unfinished"))
    chunks = await run(client, ask(max_tokens=5))
    assert tokens(chunks) == KNOT
    assert chunks[-1].finish_reason == "length"


@pytest.mark.parametrize("name", ["other ids", "lost end"])
async def test_ids_that_cannot_be_found_again_fail_the_generation(
    client: HTTPEngine, engine: FakeEngine, name: str
) -> None:
    engine.will("/completion", engine.recorded(name))
    with pytest.raises(BackendFailed, match="did not send all tokens"):
        await run(client, ask())


def events(*texts_and_ids: tuple[str, int, int], stop_type: str, count: int) -> str:
    """Events of a text, its last id and the count so far, then the event that ends the answer."""
    timings = {"cache_n": 0}
    sampled = [
        {
            "content": text,
            "tokens": [token_id],
            "stop": False,
            "tokens_predicted": so_far,
            "timings": timings,
        }
        for text, token_id, so_far in texts_and_ids
    ]
    last = {"stop": True, "stop_type": stop_type, "tokens_predicted": count, "timings": timings}
    return "".join(f"data: {json.dumps(event)}\n\n" for event in [*sampled, last])


async def test_ids_that_end_in_another_one_than_the_server_sampled_are_not_used(
    client: HTTPEngine, engine: FakeEngine
) -> None:
    text = decode(KNOT)
    engine.will("/completion", sends(events((text, KNOT[-1] + 1, 3), stop_type="limit", count=3)))
    with pytest.raises(BackendFailed, match="did not send all tokens"):
        await run(client, ask())


async def test_an_answer_that_ends_before_its_stop_token_was_sent_is_not_whole(
    client: HTTPEngine, engine: FakeEngine
) -> None:
    engine.will("/completion", sends(events(("a", 64, 1), stop_type="eos", count=2)))
    with pytest.raises(BackendFailed, match="did not send all tokens"):
        await run(client, ask())


async def test_the_request_has_the_fields_of_llama_cpp(
    client: HTTPEngine, engine: FakeEngine
) -> None:
    engine.will("/completion", engine.recorded("length"))
    sampling = SamplingParams(0.5, 0.9, 40, 0.1, logit_bias={7: -100.0})
    request = ask(sampling=sampling, seed=3, logprobs=0, grammar="start: <[1]>")
    entries = logprobs(await run(client, request))
    assert {entry.top for entry in entries} == {()}
    assert engine.bodies("/completion")[-1] == {
        "prompt": [200006, 1428],
        "n_predict": 4,
        "stream": True,
        "return_tokens": True,
        "response_fields": ["stop", "stop_type", "tokens_predicted", "timings"],
        "timings_per_token": True,
        "cache_prompt": True,
        "temperature": 0.5,
        "top_p": 0.9,
        "top_k": 40,
        "min_p": 0.1,
        "repeat_penalty": 1.0,
        "samplers": ["temperature", "min_p", "top_k", "top_p"],
        "logit_bias": [[7, -100.0], *([token_id, False] for token_id in STRUCTURE)],
        "seed": 3,
        "grammar": "%llguidance {}\nstart: <[1]>",
        "n_probs": 1,
    }


async def test_no_seed_is_the_one_that_stands_for_none(
    client: HTTPEngine, engine: FakeEngine
) -> None:
    for seed in (2**32 - 2, 2**32 - 1, -1):
        await run(client, ask(seed=seed))
    assert [body["seed"] for body in engine.bodies("/completion")[-3:]] == [2**32 - 2, 0, 2**32 - 2]


async def test_a_connection_is_not_used_again_after_a_stream(
    client: HTTPEngine, engine: FakeEngine
) -> None:
    await run(client, ask())
    assert engine.asked[-1].headers["connection"] == "close"


class Connection:
    """A response on one end of a connection whose other end is `server`, and what it reads."""

    def __init__(self, parts: int) -> None:
        self.server, self.client = socket.socketpair()
        self.response = httpx.Response(200, extensions={"network_stream": self})
        self.unread = parts

    def get_extra_info(self, info: str) -> Any:
        assert info == "socket"
        return self.client

    async def rest(self) -> AsyncIterator[bytes]:
        while self.unread:
            self.unread -= 1
            yield b"data: {}"
        raise httpx.RemoteProtocolError("incomplete chunked read")

    async def leave(self) -> None:
        with self.server, self.client:
            await LlamaCppWire(encode_with_control).leave(self.response, self.rest())
            assert self.server.recv(1) == b""
            self.server.send(b"more")
            assert self.client.recv(4) == b"more"


async def test_a_stream_that_is_left_is_read_until_the_server_ends_it() -> None:
    connection = Connection(parts=3)
    await connection.leave()
    assert connection.unread == 0


async def test_a_server_that_does_not_notice_is_left_after_a_few_tokens() -> None:
    connection = Connection(parts=1000)
    await connection.leave()
    assert connection.unread == 1000 - 16


async def test_a_stream_whose_connection_is_lost_is_left_at_once() -> None:
    connection = Connection(parts=3)
    connection.server.close()
    connection.client.close()
    await LlamaCppWire(encode_with_control).leave(connection.response, connection.rest())
    assert connection.unread == 3


async def test_a_generation_that_is_closed_closes_its_request(
    client: HTTPEngine, engine: FakeEngine
) -> None:
    engine.will("/completion", engine.hangs(engine.lines("length")[0]))
    chunks = client.generate(ask())
    await anext(chunks)
    await chunks.aclose()
    await engine.gone.get()


async def test_a_grammar_that_has_its_head_is_sent_as_it_is(
    client: HTTPEngine, engine: FakeEngine
) -> None:
    await run(client, ask(grammar="%llguidance {}\nstart: <[1]>"))
    assert engine.bodies("/completion")[-1]["grammar"] == "%llguidance {}\nstart: <[1]>"


@pytest.mark.parametrize(
    ("grammar", "forbidden"),
    [
        ("start: <[200005]> /.*/ <[200008]> /.*/ <[200002]>", {200006, 200003, 200007}),
        ("start: <[200000-200012]>", set()),
        ("start: <|end|>", set()),
    ],
)
async def test_structural_tokens_that_a_grammar_does_not_name_are_forbidden(
    client: HTTPEngine, engine: FakeEngine, grammar: str, forbidden: set[int]
) -> None:
    await run(client, ask(grammar=grammar))
    assert dict(engine.bodies("/completion")[-1]["logit_bias"]) == dict.fromkeys(forbidden, False)


async def test_a_grammar_that_the_server_refuses_is_the_requests_fault(
    client: HTTPEngine, engine: FakeEngine
) -> None:
    engine.will("/completion", engine.recorded("unmasked"))
    with pytest.raises(InvalidGrammar, match="does not take the request's grammar"):
        await run(client, ask(grammar="start: nonsense("))


async def test_a_refusal_is_the_requests(client: HTTPEngine, engine: FakeEngine) -> None:
    engine.will("/completion", engine.recorded("bad token"))
    with pytest.raises(Rejected, match="answered 400"):
        await run(client, ask())


async def test_an_error_in_the_stream_is_read(client: HTTPEngine, engine: FakeEngine) -> None:
    engine.will("/completion", engine.recorded("exceeded"))
    with pytest.raises(BackendFailed, match="answered 500"):
        await run(client, ask())


async def test_tokens_after_the_end_are_a_fault(client: HTTPEngine, engine: FakeEngine) -> None:
    lines = engine.lines("length")
    engine.will("/completion", sends(*lines, lines[0]))
    with pytest.raises(EngineFault, match="more after the end"):
        await run(client, ask(max_tokens=9))


async def test_a_body_of_another_version_is_no_fault_of_the_request(
    client: HTTPEngine, engine: FakeEngine
) -> None:
    engine.will("/completion", status(422, '{"detail": "field required"}'))
    with pytest.raises(EngineFault, match="answered 422"):
        await run(client, ask())


async def test_as_a_backend_it_follows_the_grammar_itself(
    engine: FakeEngine, mask_tokenizer: LLTokenizer
) -> None:
    """The server samples freely where it cannot follow one: as recorded, a header came."""
    config = BackendConfig(
        None, {"url": engine.url}, encode_with_control, decode, lambda: mask_tokenizer
    )
    backend = create("llama-cpp", config)
    await backend.start()
    engine.will("/completion", engine.recorded("bad grammar"))
    with pytest.raises(BackendFailed, match="did not keep to"):
        await run(backend, ask(grammar='start: "a"'))
    assert await sample(backend, ask()) == [200005, 35644, 200008, 2500]
    await backend.stop()


async def test_extremes_fit_the_engines_numbers(client: HTTPEngine, engine: FakeEngine) -> None:
    await run(client, ask(sampling=SamplingParams(5e-324, top_k=2**63), seed=-(2**63)))
    body = engine.bodies("/completion")[-1]
    assert (body["temperature"], body["top_k"]) == (0.0, 0)
    assert 0 <= body["seed"] < 2**32 - 1
