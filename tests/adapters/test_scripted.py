import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from adapters.base import (
    CONTEXT_LENGTH,
    BackendConfig,
    GenerationChunk,
    GenerationRequest,
    TokenLogprobs,
)
from adapters.errors import BackendFailed, ContextTooLong
from adapters.scripted import ScriptedBackend
from tests.waiting import pass_time

STOP = ord("$")


def encode(text: str) -> list[int]:
    if "\0" in text:
        raise ValueError("no such token")
    return [ord(character) for character in text]


def config(**options: str) -> BackendConfig:
    return BackendConfig(None, options, encode, lambda ids: "".join(map(chr, ids)), lambda: None)


def ask(prompt: str = "hello", max_tokens: int = 100, **fields: Any) -> GenerationRequest:
    return GenerationRequest("r", tuple(encode(prompt)), max_tokens, frozenset({STOP}), **fields)


class Script:
    """A script file, and the backend that replays it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def write(self, *lines: dict[str, Any] | str) -> None:
        self.path.write_text(
            "\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines)
        )

    async def start(self, *lines: dict[str, Any] | str) -> ScriptedBackend:
        self.write(*lines)
        backend = ScriptedBackend(config(script=str(self.path)))
        await backend.start()
        return backend


@pytest.fixture
def script(tmp_path: Path) -> Script:
    return Script(tmp_path / "script.jsonl")


async def replay(backend: ScriptedBackend, request: GenerationRequest) -> list[GenerationChunk]:
    return [chunk async for chunk in backend.generate(request)]


def text(chunks: list[GenerationChunk]) -> str:
    return "".join(chr(token_id) for chunk in chunks for token_id in chunk.token_ids)


async def test_the_first_line_that_occurs_in_the_prompt_is_replayed(script: Script) -> None:
    backend = await script.start(
        {"prompt_contains": "weather", "completion": "rain$"},
        {"prompt_contains": "hell", "completion": "hi$"},
        "",
        {"prompt_contains": "hello", "completion": "later$"},
        {"completion": "anything$"},
    )
    assert text(await replay(backend, ask("well, hello"))) == "hi$"
    assert text(await replay(backend, ask("the weather"))) == "rain$"
    assert text(await replay(backend, ask("else"))) == "anything$"


async def test_a_completion_that_ends_in_a_stop_token_stops(script: Script) -> None:
    backend = await script.start({"completion": "ab$"})
    chunks = await replay(backend, ask())
    assert [chunk.finish_reason for chunk in chunks] == [None, None, "stop"]
    assert text(chunks) == "ab$"


async def test_a_completion_without_a_stop_token_ends_by_length(script: Script) -> None:
    backend = await script.start({"completion": "ab"})
    assert [chunk.finish_reason for chunk in await replay(backend, ask())] == [None, "length"]


async def test_nothing_is_replayed_after_a_stop_token(script: Script) -> None:
    backend = await script.start({"completion": "a$bc$"})
    assert text(await replay(backend, ask())) == "a$"


async def test_max_tokens_cuts_the_completion(script: Script) -> None:
    backend = await script.start({"completion": "abc$"})
    chunks = await replay(backend, ask(max_tokens=3))
    assert (text(chunks), chunks[-1].finish_reason) == ("abc", "length")


async def test_an_empty_completion_is_one_empty_chunk(script: Script) -> None:
    backend = await script.start({"completion": ""})
    (chunk,) = await replay(backend, ask())
    assert (chunk.token_ids, chunk.finish_reason) == ((), "length")


async def test_chunks_hold_tokens_per_chunk_tokens(script: Script) -> None:
    backend = await script.start({"completion": "abcd$", "tokens_per_chunk": 2})
    assert [len(chunk.token_ids) for chunk in await replay(backend, ask())] == [2, 2, 1]


async def test_cached_tokens_are_on_the_first_chunk_alone(script: Script) -> None:
    backend = await script.start({"completion": "ab$"})
    assert [chunk.cached_tokens for chunk in await replay(backend, ask())] == [0, None, None]


async def test_logprobs_are_those_of_a_certain_token(script: Script) -> None:
    backend = await script.start({"completion": "a$"})
    first, last = await replay(backend, ask(logprobs=2))
    assert first.logprobs == (TokenLogprobs(ord("a"), 0.0, ((ord("a"), 0.0),)),)
    assert last.logprobs == (TokenLogprobs(STOP, 0.0, ((STOP, 0.0),)),)


async def test_the_script_has_the_likeliest_tokens_of_a_place(script: Script) -> None:
    listed = {"b": {"c": -2, "b": -0.5, "d": -3}}
    backend = await script.start({"completion": "ab$", "logprobs": listed})
    chunks = await replay(backend, ask(logprobs=2))
    first, second, _ = (chunk.logprobs for chunk in chunks)
    assert first == (TokenLogprobs(ord("a"), 0.0, ((ord("a"), 0.0),)),)
    assert second == (TokenLogprobs(ord("b"), -0.5, ((ord("b"), -0.5), (ord("c"), -2.0))),)


async def test_no_top_logprobs_where_none_were_asked_for(script: Script) -> None:
    backend = await script.start({"completion": "$"})
    (chunk,) = await replay(backend, ask(logprobs=0))
    assert chunk.logprobs == (TokenLogprobs(STOP, 0.0),)


async def test_every_grammar_and_sampling_option_is_accepted(script: Script) -> None:
    backend = await script.start({"completion": "a$"})
    assert text(await replay(backend, ask(grammar="start: /b/", seed=3))) == "a$"
    assert {"grammar", "phases", "seed", "logprobs"} <= backend.info.features


async def test_a_prompt_that_no_line_matches_fails_quoting_its_end(script: Script) -> None:
    backend = await script.start({"prompt_contains": "other", "completion": "$"})
    with pytest.raises(BackendFailed, match="no matching line") as failure:
        await replay(backend, ask("begin" + "x" * 500 + "the end"))
    assert "the end" in str(failure.value)
    assert "begin" not in str(failure.value)


async def test_a_prompt_that_leaves_no_room_for_max_tokens_is_too_long(script: Script) -> None:
    backend = await script.start({"completion": "$"})
    with pytest.raises(ContextTooLong):
        await replay(backend, ask("hello", max_tokens=CONTEXT_LENGTH - 4))


async def test_a_delay_is_between_two_chunks(
    script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend = await script.start({"completion": "a$", "delay_ms": 3_600_000})
    generator = backend.generate(ask())
    assert text([await anext(generator)]) == "a"
    pending = asyncio.ensure_future(anext(generator))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert not pending.done()
    pass_time(monkeypatch, 3600)
    assert text([await pending]) == "$"
    await generator.aclose()


async def test_closing_ends_the_replay_although_a_delay_is_pending(script: Script) -> None:
    backend = await script.start({"completion": "ab$", "delay_ms": 3_600_000})
    generator = backend.generate(ask())
    await anext(generator)
    pending = asyncio.ensure_future(anext(generator))
    await asyncio.sleep(0)
    pending.cancel()
    await asyncio.wait([pending])
    await generator.aclose()
    with pytest.raises(StopAsyncIteration):
        await anext(generator)


async def test_several_replays_run_side_by_side(script: Script) -> None:
    backend = await script.start({"completion": "ab$"})
    first, second = backend.generate(ask()), backend.generate(ask())
    order = [(await anext(stream)).token_ids[0] for stream in (first, second, first, second)]
    assert "".join(map(chr, order)) == "aabb"
    await first.aclose()
    assert text([chunk async for chunk in second]) == "$"


async def test_a_replay_in_flight_fails_when_the_backend_stops(script: Script) -> None:
    backend = await script.start({"completion": "ab$"})
    generator = backend.generate(ask())
    await anext(generator)
    await backend.stop()
    await backend.stop()
    with pytest.raises(BackendFailed, match="was stopped"):
        await anext(generator)


async def test_check_fails_before_start_and_after_stop(script: Script) -> None:
    script.write({"completion": "$"})
    backend = ScriptedBackend(config(script=str(script.path)))
    with pytest.raises(BackendFailed, match="not been started"):
        await backend.check()
    await backend.start()
    await backend.check()
    await backend.stop()
    with pytest.raises(BackendFailed, match="was stopped"):
        await backend.check()


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("{", "Expecting"),
        ("[]", "must be a JSON object"),
        ({}, "completion must be a string"),
        ({"completion": "", "prompt_contains": 1}, "prompt_contains must be a string or null"),
        ({"completion": "", "tokens_per_chunk": 0}, "tokens_per_chunk must be an integer"),
        ({"completion": "", "tokens_per_chunk": True}, "tokens_per_chunk must be an integer"),
        ({"completion": "", "delay_ms": -1}, "delay_ms must be a number"),
        ('{"completion": "", "delay_ms": 1e999}', "delay_ms must be a number"),
        ({"completion": "", "delay": 1}, "unknown field delay"),
        ({"completion": "\0"}, "no such token"),
        ({"completion": "\ud800"}, "surrogates not allowed"),
        ('{"completion": "", "logprobs": {"\\udfff": {}}}', "surrogates not allowed"),
        (f'{{"completion": "", "delay_ms": 1{"0" * 400}}}', "too large"),
        (f'{{"completion": "", "logprobs": {{"a": {{"a": -1{"0" * 400}}}}}}}', "too large"),
        ("[" * 100_000, "recursion"),
        ({"completion": "", "logprobs": []}, "logprobs must be an object of objects"),
        ({"completion": "", "logprobs": {"a": {"a": 1}}}, "logprobs must be an object of objects"),
        ('{"completion": "", "logprobs": {"a": {"a": -1e999}}}', "logprobs must be an object"),
        ({"completion": "", "logprobs": {"a": {"b": -1}}}, "logprob of that token itself"),
        ({"completion": "", "logprobs": {"ab": {"ab": -1}}}, "'ab' has 2"),
    ],
)
async def test_a_malformed_line_stops_the_start_with_its_place(
    script: Script, line: Any, reason: str
) -> None:
    with pytest.raises(BackendFailed, match=rf"script\.jsonl:2: .*{reason}"):
        await script.start({"completion": "$"}, line)


async def test_a_line_separator_inside_a_string_does_not_end_the_line(script: Script) -> None:
    backend = await script.start('{"completion": "a\u2028$"}')
    assert text(await replay(backend, ask())) == "a\u2028$"


async def test_a_missing_file_stops_the_start() -> None:
    with pytest.raises(BackendFailed, match="No such file"):
        await ScriptedBackend(config(script="/nowhere.jsonl")).start()


@pytest.mark.parametrize("options", [{}, {"script": ""}])
async def test_a_script_is_needed(options: dict[str, str]) -> None:
    with pytest.raises(BackendFailed, match="needs a script"):
        await ScriptedBackend(config(**options)).start()


async def test_an_unknown_option_is_refused(script: Script) -> None:
    script.write()
    with pytest.raises(BackendFailed, match="no option speed"):
        await ScriptedBackend(config(script=str(script.path), speed="9")).start()
