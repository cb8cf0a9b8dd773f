"""What can go wrong between the gateway and an engine."""

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import httpx
import pytest

from adapters.base import GenerationChunk, GenerationRequest
from adapters.errors import (
    BackendError,
    BackendFailed,
    EngineFault,
    Lost,
    NotReady,
    Overloaded,
    Rejected,
    Unreached,
)
from adapters.http.engine import HTTPEngine
from adapters.http.options import Options
from adapters.http.vllm import VLLMWire
from tests.adapters.fake_engine import (
    Answer,
    Exchange,
    FakeEngine,
    breaks_off,
    running,
    sends,
    status,
)
from tests.certificates import certificates
from tests.ports import free_port

GENERATE = "/inference/v1/generate"


class LeavingWire(VLLMWire):
    """Stores what remains of the streams that are left."""

    def __init__(self) -> None:
        super().__init__()
        self.rests: list[list[bytes]] = []

    async def leave(self, response: httpx.Response, rest: AsyncIterator[bytes]) -> None:
        self.rests.append([part async for part in rest])


def recorded() -> FakeEngine:
    engine = FakeEngine("vllm.json")
    engine.will("/v1/models", engine.recorded("models"))
    engine.will(GENERATE, engine.recorded("empty"), engine.recorded("length"))
    return engine


@pytest.fixture
async def engine() -> AsyncIterator[FakeEngine]:
    async with running(recorded()) as engine:
        yield engine


async def connect(engine: FakeEngine, **options: Any) -> HTTPEngine:
    client = HTTPEngine(engine.url, VLLMWire(), Options(**options))
    await client.start()
    return client


def ask(**fields: Any) -> GenerationRequest:
    usual: dict[str, Any] = {"max_tokens": 4, "stop_token_ids": frozenset()}
    return GenerationRequest("r", (1, 2), **usual | fields)


async def sample(client: HTTPEngine) -> list[GenerationChunk]:
    try:
        return [chunk async for chunk in client.generate(ask())]
    finally:
        await client.stop()


async def test_nobody_listens() -> None:
    client = HTTPEngine(f"http://127.0.0.1:{free_port()}", VLLMWire(), Options())
    with pytest.raises(EngineFault, match="cannot be reached: ConnectError"):
        await client.start()
    with pytest.raises(EngineFault, match="cannot be reached"):
        await client.check()
    await client.stop()
    await client.stop()


async def test_an_engine_without_a_description_is_not_waited_for(
    engine: FakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("adapters.http.engine._DESCRIBE_SECONDS", 0.01)
    engine.will("/v1/models", engine.hangs())
    client = HTTPEngine(engine.url, VLLMWire(), Options())
    with pytest.raises(EngineFault, match="does not say"):
        await client.start()
    await client.stop()


async def test_a_url_that_is_none_is_named() -> None:
    client = HTTPEngine("http://[", VLLMWire(), Options())
    with pytest.raises(EngineFault, match=r"http://\["):
        await client.start()
    await client.stop()


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (status(401), "answered 401"),
        (sends("<html>"), "is no vllm-http server"),
        (sends("[" * 100_000), "is no vllm-http server: RecursionError"),
        (sends('{"data": []}'), "does not serve a model"),
        (sends('{"data": 7}'), "is no vllm-http server"),
        (sends('{"data": [{"id": "m"}]}'), "is no vllm-http server"),
        (sends('{"data": [{"id": "m", "max_model_len": "1"}]}'), "is no vllm-http server"),
    ],
)
async def test_a_server_of_another_kind_is_refused(
    engine: FakeEngine, answer: Answer, reason: str
) -> None:
    engine.will("/v1/models", answer)
    client = HTTPEngine(engine.url, VLLMWire(), Options())
    with pytest.raises(BackendFailed, match=reason):
        await client.start()
    await client.stop()


async def test_the_key_goes_along(engine: FakeEngine) -> None:
    client = await connect(engine, api_key="secret")
    await client.stop()
    assert engine.asked[0].headers["authorization"] == "Bearer secret"


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (status(500, '{"error": {"message": "boom"}}'), "answered 500"),
        (status(500, "grammar"), "answered 500"),
        (status(404, '{"detail": "Not Found"}'), "answered 404"),
        (breaks_off(), "cannot be reached: RemoteProtocolError"),
        (sends("data: {nonsense\n\n"), "sent what cannot be read: JSONDecodeError"),
        (sends('data: {"choices": 7}\n\n'), "sent what cannot be read"),
        (sends('data: {"choices": [{}]}\n\n'), "sent what cannot be read"),
        (sends("data: []\n\n"), "sent what cannot be read"),
        (sends("data: [DONE]\n\n"), "answer was cut off"),
        (sends(), "answer was cut off"),
    ],
)
async def test_a_fault_is_the_engines_failure(
    engine: FakeEngine, answer: Answer, reason: str
) -> None:
    client = await connect(engine)
    engine.will(GENERATE, answer)
    with pytest.raises(BackendFailed, match=reason):
        await sample(client)


def failing(error: httpx.TransportError) -> Any:
    async def handle_async_request(*_: object) -> httpx.Response:
        raise error

    return handle_async_request


@pytest.mark.parametrize(
    ("error", "fault"),
    [
        (httpx.ConnectTimeout, Unreached),
        (httpx.ConnectError, Unreached),
        (httpx.WriteError, Unreached),
        (httpx.ReadError, Lost),
        (httpx.RemoteProtocolError, Lost),
        (httpx.ReadTimeout, EngineFault),
        (httpx.LocalProtocolError, EngineFault),
    ],
)
async def test_an_engine_is_unreached_where_the_connection_is_at_fault(
    engine: FakeEngine,
    monkeypatch: pytest.MonkeyPatch,
    error: type[httpx.TransportError],
    fault: type[EngineFault],
) -> None:
    client = await connect(engine)
    monkeypatch.setattr(httpx.AsyncHTTPTransport, "handle_async_request", failing(error("no")))
    with pytest.raises(EngineFault, match=f"cannot be reached: {error.__name__}") as raised:
        await sample(client)
    assert type(raised.value) is fault


async def test_an_engine_that_has_gone_is_unreached() -> None:
    async with running(recorded()) as engine:
        client = await connect(engine)
    with pytest.raises(Unreached, match="ConnectError"):
        await sample(client)


async def test_an_engine_whose_answer_breaks_off_is_lost(engine: FakeEngine) -> None:
    client = await connect(engine)
    engine.will(GENERATE, breaks_off())
    with pytest.raises(Lost, match="RemoteProtocolError"):
        await sample(client)


async def test_an_engine_that_answers_500_was_reached(engine: FakeEngine) -> None:
    client = await connect(engine)
    engine.will(GENERATE, status(500))
    with pytest.raises(EngineFault) as raised:
        await sample(client)
    assert not isinstance(raised.value, Unreached)


async def test_what_came_before_the_cut_is_delivered(engine: FakeEngine) -> None:
    client = await connect(engine)
    engine.will(GENERATE, breaks_off(*engine.lines("length")[:2]))
    got: list[int] = []

    async def read() -> None:
        async for chunk in client.generate(ask()):
            got.extend(chunk.token_ids)

    with pytest.raises(BackendFailed):
        await read()
    await client.stop()
    assert got == [144897, 159940]


async def test_what_came_with_a_fault_is_delivered(engine: FakeEngine) -> None:
    client = await connect(engine)
    engine.will(GENERATE, sends("".join([*engine.lines("length")[:2], "data: {}\n\n"])))
    chunks = client.generate(ask())
    assert (await anext(chunks)).token_ids == (144897, 159940)
    with pytest.raises(EngineFault, match="cannot be read"):
        await anext(chunks)
    await client.stop()


async def test_a_request_may_fill_the_context(engine: FakeEngine) -> None:
    client = await connect(engine)
    room = client.info.context_length - 2
    chunks = [chunk async for chunk in client.generate(ask(max_tokens=room))]
    await client.stop()
    assert chunks[-1].finish_reason == "length"


async def test_an_event_may_arrive_in_pieces(engine: FakeEngine) -> None:
    client = await connect(engine)
    text = "".join(engine.lines("length"))
    engine.will(GENERATE, sends(*(text[at : at + 7] for at in range(0, len(text), 7))))
    chunks = await sample(client)
    assert [one for chunk in chunks for one in chunk.token_ids] == [144897, 159940, 151153, 183088]


async def test_what_arrives_at_once_is_one_chunk(engine: FakeEngine) -> None:
    client = await connect(engine)
    engine.will(GENERATE, sends("".join(engine.lines("length"))))
    assert [chunk.token_ids for chunk in await sample(client)] == [
        (144897, 159940, 151153),
        (183088,),
    ]


async def test_the_address_of_an_engine_is_no_error_of_a_grammar(engine: FakeEngine) -> None:
    client = await connect(engine)
    client.name = "http://grammar-pool:8000"
    engine.will(GENERATE, status(400, "bad seed"))
    with pytest.raises(Rejected, match="answered 400"):
        await anext(client.generate(ask(grammar="start: <[1]>")))
    await client.stop()


@pytest.mark.parametrize(("code", "kind"), [(429, Overloaded), (503, NotReady)])
async def test_a_busy_engine_has_a_retry_after(
    engine: FakeEngine, code: int, kind: type[Overloaded]
) -> None:
    client = await connect(engine)
    engine.will(GENERATE, status(code, "full", retry_after="7"))
    with pytest.raises(Overloaded) as refusal:
        await sample(client)
    assert type(refusal.value) is kind
    assert refusal.value.retry_after == 7


async def test_the_limits_of_time_are_those_of_the_options(
    engine: FakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = await connect(engine, connect_seconds=3.0, timeout_seconds=70.0)
    limits: list[dict[str, float]] = []

    async def stop(_: object, request: httpx.Request) -> httpx.Response:
        limits.append(request.extensions["timeout"])
        raise httpx.ConnectTimeout("")

    monkeypatch.setattr(httpx.AsyncHTTPTransport, "handle_async_request", stop)
    with pytest.raises(Unreached, match="ConnectTimeout"):
        await sample(client)
    assert limits == [{"connect": 3.0, "read": 70.0, "write": 70.0, "pool": 70.0}]


async def test_more_requests_run_at_once_than_a_client_usually_has_connections(
    engine: FakeEngine,
) -> None:
    client = await connect(engine)
    engine.will(GENERATE, engine.hangs(engine.lines("length")[0]))
    running = [client.generate(ask()) for _ in range(120)]
    async with asyncio.timeout(60):
        await asyncio.gather(*map(anext, running))
    await asyncio.gather(*(one.aclose() for one in running))
    await client.stop()


async def test_a_silent_engine_fails_after_the_timeout(engine: FakeEngine) -> None:
    client = await connect(engine, timeout_seconds=0.05)
    engine.will(GENERATE, engine.hangs())
    with pytest.raises(EngineFault, match="ReadTimeout"):
        await sample(client)


async def test_closing_the_generator_closes_the_request(engine: FakeEngine) -> None:
    client = await connect(engine)
    engine.will(GENERATE, engine.hangs(engine.lines("length")[0]))
    chunks = client.generate(ask())
    assert (await anext(chunks)).token_ids == (144897,)
    await chunks.aclose()
    await asyncio.wait_for(engine.gone.get(), 10)
    await client.stop()


async def test_closing_the_generator_closes_all_below_it(
    engine: FakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed: list[bool] = []
    read = HTTPEngine._chunks

    async def watched(*arguments: Any) -> AsyncGenerator[GenerationChunk, None]:
        try:
            async with aclosing(read(*arguments)) as chunks:
                async for chunk in chunks:
                    yield chunk
        finally:
            closed.append(True)

    monkeypatch.setattr(HTTPEngine, "_chunks", watched)
    client = await connect(engine)
    engine.will(GENERATE, engine.hangs(engine.lines("length")[0]))
    chunks = client.generate(ask())
    await anext(chunks)
    await chunks.aclose()
    assert closed
    await client.stop()


async def test_the_wire_gets_the_rest_of_a_stream_that_is_left(engine: FakeEngine) -> None:
    wire = LeavingWire()
    client = HTTPEngine(engine.url, wire, Options())
    await client.start()
    engine.will(GENERATE, engine.recorded("length"))
    chunks = client.generate(ask())
    await anext(chunks)
    await chunks.aclose()
    await client.stop()
    (rest,) = wire.rests
    assert b"".join(rest).decode().endswith(engine.lines("length")[-1])


async def test_a_stream_that_has_ended_is_not_left(engine: FakeEngine) -> None:
    wire = LeavingWire()
    client = HTTPEngine(engine.url, wire, Options())
    await client.start()
    engine.will(GENERATE, engine.recorded("length"))
    chunks = client.generate(ask())
    while (await anext(chunks)).finish_reason is None:
        continue
    await chunks.aclose()
    await client.stop()
    assert wire.rests == []


async def test_stopping_fails_what_is_in_flight(engine: FakeEngine) -> None:
    client = await connect(engine)
    engine.will(GENERATE, engine.hangs(engine.lines("length")[0]))
    chunks = client.generate(ask())
    await anext(chunks)
    rest = asyncio.ensure_future(anext(chunks))
    await asyncio.sleep(0)
    await client.stop()
    with pytest.raises(EngineFault, match="was closed"):
        await rest
    with pytest.raises(EngineFault, match="is closed"):
        await anext(client.generate(ask()))
    with pytest.raises(EngineFault, match="is closed"):
        await client.check()


async def test_health_is_the_engines(engine: FakeEngine) -> None:
    client = await connect(engine)
    await client.check()
    engine.will("/health", status(503))
    with pytest.raises(EngineFault, match="is not healthy: it answered 503"):
        await client.check()
    await client.stop()


async def test_before_it_was_reached_there_is_no_info() -> None:
    with pytest.raises(EngineFault, match="has not been reached"):
        _ = HTTPEngine("http://localhost", VLLMWire(), Options()).info


# What engines send


def events(*token_ids: str, ending: str = "") -> Answer:
    """An event of the ids, which are JSON, then an event with the finish reason."""

    def event(ids: str, reason: str) -> str:
        return f'data: {{"choices": [{{"token_ids": {ids}, "finish_reason": {reason}}}]}}\n\n'

    return sends(*(event(ids, "null") for ids in token_ids), event("[5]", '"stop"'), ending)


@pytest.mark.parametrize("ids", ["[1.5]", "[true]", "[-1]", "[201088]", '["a"]', "[null]", '"abc"'])
async def test_ids_of_no_tokens_are_a_fault(engine: FakeEngine, ids: str) -> None:
    client = await connect(engine)
    engine.will(GENERATE, events(ids))
    with pytest.raises(EngineFault, match="ids of no tokens"):
        await sample(client)


async def test_more_tokens_than_were_requested_are_a_fault(engine: FakeEngine) -> None:
    client = await connect(engine)
    engine.will(GENERATE, events("[1, 2]", "[3, 4]"))
    with pytest.raises(EngineFault, match="more tokens than were requested"):
        await sample(client)


@pytest.mark.parametrize("count", ["-1", "1.5", '"many"'])
async def test_a_count_of_cached_tokens_that_is_none_is_unknown(
    engine: FakeEngine, count: str
) -> None:
    client = await connect(engine)
    usage = f'{{"prompt_tokens_details": {{"cached_tokens": {count}}}}}'
    ending = f'data: {{"choices": [], "usage": {usage}}}\n\n'
    engine.will(GENERATE, events("[1]", ending=ending))
    assert [chunk.cached_tokens for chunk in await sample(client)] == [None, None]


async def test_a_chunk_before_the_last_has_tokens(engine: FakeEngine) -> None:
    client = await connect(engine)
    engine.will(
        GENERATE, sends('data: {"choices": [{"token_ids": [], "finish_reason": null}]}\n\n')
    )
    with pytest.raises(BackendFailed, match="cut off"):
        await anext(client.generate(ask()))
    await client.stop()


def whole(engine: FakeEngine) -> list[str]:
    lines = engine.lines("length")
    assert lines[-1] == "data: [DONE]\n\n"
    return lines


async def test_an_answer_whose_connection_breaks_after_its_end_is_whole(engine: FakeEngine) -> None:
    client = await connect(engine)
    engine.will(GENERATE, breaks_off(*whole(engine)))
    assert (await sample(client))[-1].finish_reason == "length"


async def test_an_answer_whose_connection_stays_open_after_its_end_is_whole(
    engine: FakeEngine,
) -> None:
    client = await connect(engine)
    engine.will(GENERATE, engine.hangs(*whole(engine)))
    async with asyncio.timeout(10):
        assert (await sample(client))[-1].finish_reason == "length"
        await engine.gone.get()


async def test_the_wire_does_not_leave_an_answer_that_stays_open(engine: FakeEngine) -> None:
    wire = LeavingWire()
    client = HTTPEngine(engine.url, wire, Options())
    await client.start()
    engine.will(GENERATE, engine.hangs(*whole(engine)))
    async with asyncio.timeout(10):
        chunks = client.generate(ask())
        while (await anext(chunks)).finish_reason is None:
            continue
        await chunks.aclose()
    await client.stop()
    assert wire.rests == []


async def test_a_connection_is_used_again_after_an_answer_and_a_description(
    engine: FakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = await connect(engine)
    opened: list[object] = []
    handle_async_request = httpx.AsyncHTTPTransport.handle_async_request

    async def count(transport: Any, request: httpx.Request) -> httpx.Response:
        response = await handle_async_request(transport, request)
        opened.append(response.extensions["network_stream"].get_extra_info("client_addr"))
        return response

    monkeypatch.setattr(httpx.AsyncHTTPTransport, "handle_async_request", count)
    for _ in range(2):
        assert [chunk async for chunk in client.generate(ask())]
        await client.start()
    await client.stop()
    assert len(opened) > 2
    assert len(set(opened)) == 1


async def test_what_comes_after_the_end_of_an_answer_is_not_read(engine: FakeEngine) -> None:
    client = await connect(engine)
    engine.will(GENERATE, sends("".join([*whole(engine), "data: nonsense\n\n"])))
    assert (await sample(client))[-1].finish_reason == "length"


async def test_no_proxy_of_the_environment_is_used(
    engine: FakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{free_port()}")
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    client = await connect(engine)
    assert await sample(client)


async def answer_500(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readuntil(b"\r\n\r\n")
    writer.write(b"HTTP/1.1 500 Fault\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
    await writer.drain()
    writer.close()


async def test_the_authorities_of_the_environment_are_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server, _ = certificates("localhost", tmp_path)
    listener = await asyncio.start_server(answer_500, "localhost", 0, ssl=server)
    url = f"https://localhost:{listener.sockets[0].getsockname()[1]}"
    with pytest.raises(EngineFault, match="cannot be reached"):
        await HTTPEngine(url, VLLMWire(), Options()).start()
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "cert.pem"))
    with pytest.raises(EngineFault, match="answered 500"):
        await HTTPEngine(url, VLLMWire(), Options()).start()
    listener.close()


async def test_authorities_that_cannot_be_read_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", "/nowhere.pem")
    with pytest.raises(EngineFault, match=r"authorities cannot be read: .*No such file"):
        await HTTPEngine("https://a", VLLMWire(), Options()).start()


# Health


async def test_a_health_check_does_not_wait_for_the_body(engine: FakeEngine) -> None:
    async def endless(exchange: Exchange) -> None:
        await exchange.begin(200, content_type="text/plain")
        await exchange.left()

    client = await connect(engine)
    engine.will("/health", endless)
    await asyncio.wait_for(client.check(), 10)
    await client.stop()


async def test_a_health_check_has_a_limit_of_time(engine: FakeEngine) -> None:
    async def never(exchange: Exchange) -> None:
        await exchange.left()

    client = await connect(engine, health_timeout_seconds=0.05)
    engine.will("/health", never)
    with pytest.raises(EngineFault, match="does not answer health checks"):
        await asyncio.wait_for(client.check(), 10)
    await client.stop()


# Secrets


def with_user(url: str) -> str:
    return url.replace("//", "//user:secret@")


async def test_user_and_password_go_along_and_are_not_in_the_name(engine: FakeEngine) -> None:
    client = HTTPEngine(with_user(engine.url), VLLMWire(), Options())
    await client.start()
    await client.stop()
    assert client.name == engine.url
    assert engine.asked[0].headers["authorization"] == "Basic dXNlcjpzZWNyZXQ="


@pytest.mark.parametrize(
    "answer", [status(401), sends("<html>"), sends('{"data": []}'), breaks_off()]
)
async def test_an_engine_that_cannot_be_used_is_named_without_the_password(
    engine: FakeEngine, answer: Answer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    engine.will("/v1/models", answer)
    client = HTTPEngine(with_user(engine.url), VLLMWire(), Options())
    with pytest.raises(BackendFailed, match=engine.url) as raised:
        await client.start()
    await client.stop()
    assert "secret" not in str(raised.value) + caplog.text


async def test_a_key_that_is_no_header_is_not_in_the_error(
    engine: FakeEngine, caplog: pytest.LogCaptureFixture
) -> None:
    client = HTTPEngine(engine.url, VLLMWire(), Options(api_key="secret\n"))
    with pytest.raises(EngineFault, match="LocalProtocolError") as raised:
        await client.start()
    await client.stop()
    assert "secret" not in str(raised.value) + caplog.text


# What is logged


@pytest.mark.parametrize(
    ("answer", "line"),
    [
        (status(500, "prompt"), "EngineFault, status 500: the engine answered 500"),
        (status(400, "prompt"), "Rejected, status 400: the engine answered 400"),
        (status(429, "prompt"), "Overloaded, status 429: the engine is busy"),
        (
            sends('data: {"error": {"message": "prompt", "code": 500}}\n\n'),
            "EngineFault, status 200: the engine answered 500",
        ),
        (
            sends("data: prompt\n\n"),
            "EngineFault, status 200: URL sent what cannot be read: JSONDecodeError",
        ),
        (
            sends('data: {"choices": [{"token_ids": [], "finish_reason": "prompt"}]}\n\n'),
            "BackendFailed, status 200: vLLM ended the generation: unknown",
        ),
        (sends(), "BackendFailed, status 200: the vLLM engine's answer was cut off"),
        (breaks_off(), "Lost, status 200: URL cannot be reached: RemoteProtocolError"),
    ],
)
async def test_a_failure_is_logged_once_without_what_the_engine_said(
    engine: FakeEngine, caplog: pytest.LogCaptureFixture, answer: Answer, line: str
) -> None:
    client = await connect(engine)
    engine.will(GENERATE, answer)
    with pytest.raises(BackendError) as raised:
        await sample(client)
    (message,) = (one.message for one in caplog.records if one.name == "adapters.http.engine")
    line = line.replace("URL", engine.url)
    assert message == f"{engine.url} did not serve request r: {line}"
    assert "prompt" not in str(raised.value)


async def test_a_failure_without_a_response_is_logged_without_a_status(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with running(recorded()) as engine:
        client = await connect(engine)
    with pytest.raises(Unreached):
        await sample(client)
    assert "Unreached, status none: " in caplog.text
