"""`GET /metrics` of the whole application: its numbers are those of the answers."""

import asyncio
import json
import shutil
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.exposition import generate_latest
from prometheus_client.parser import text_string_to_metric_families as parse

from adapters.errors import EngineFault
from server.http.bodies.budget import Lease
from server.telemetry import metrics
from server.tools.python.process import ProcessSandbox
from tests.sampled import call, final
from tests.sandboxes import BareSandbox
from tests.server.routes.test_responses_socket import connect
from tests.server.tools.hosted import SEARCH, Tool, script
from tests.waiting import pass_time, until

RESPONSES, CHAT = "/v1/responses", "/v1/chat/completions"
THOUGHTFUL = (
    "<|channel|>analysis<|message|>Think a while.<|end|><|start|>assistant"
    "<|channel|>final<|message|>Hello there.<|return|>"
)
ENDLESS = {"completion": f"<|channel|>final<|message|>{'more ' * 500}", "delay_ms": 5}
CODE = {"type": "code_interpreter", "container": {"type": "auto"}}
MESSAGES = [{"role": "user", "content": "Hi."}]


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each scrape shows what is true now."""
    monkeypatch.setattr(metrics, "FRESH_SECONDS", 0)


class Scraped:
    """The samples of one scrape, by name and the values of some labels."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._samples = [each for family in parse(text) for each in family.samples]

    def __call__(self, name: str, **labels: str) -> float:
        """The sum of the samples with these labels."""
        return sum(
            each.value
            for each in self._samples
            if each.name == name and labels.items() <= each.labels.items()
        )

    @property
    def label_values(self) -> set[str]:
        return {value for each in self._samples for value in each.labels.values()}

    @property
    def tokens(self) -> tuple[float, float, float, float]:
        """Of prompts, of these cached, sampled, and of these reasoning."""
        return (
            self("vllm:prompt_tokens_total"),
            self("vllm:prompt_tokens_cached_total"),
            self("vllm:generation_tokens_total"),
            self("gpt_oss_reasoning_tokens_total"),
        )

    @property
    def ended(self) -> dict[str, float]:
        """The answers by how they ended, without zeros."""
        name, reasons = "vllm:request_success_total", ("stop", "length", "abort", "error")
        counts = {reason: self(name, finished_reason=reason) for reason in reasons}
        return {reason: count for reason, count in counts.items() if count}

    @property
    def open(self) -> list[float]:
        """All gauges of what is going on."""
        return [
            self("vllm:num_requests_running"),
            self("vllm:num_requests_waiting"),
            self("gpt_oss_answers_in_tools"),
            self("gpt_oss_open_streams"),
            self("gpt_oss_open_websockets"),
        ]


async def scrape(app: Any, **headers: str) -> Scraped:
    answered = await app.client.get("/metrics", headers=headers)
    assert answered.status_code == 200
    return Scraped(answered.text)


async def scraped_idle(app: Any) -> Scraped:
    """A scrape once nothing runs."""
    await app.until_idle()
    return await scrape(app)


def of_usage(usage: dict[str, Any]) -> tuple[int, int, int, int]:
    """As `Scraped.tokens`, from the usage of either API."""
    if "input_tokens" in usage:
        details = usage["input_tokens_details"], usage["output_tokens_details"]
        whole = usage["input_tokens"], usage["output_tokens"]
    else:
        details = usage["prompt_tokens_details"], usage["completion_tokens_details"]
        whole = usage["prompt_tokens"], usage["completion_tokens"]
    return (whole[0], details[0]["cached_tokens"], whole[1], details[1]["reasoning_tokens"])


def streamed_usage(text: str) -> dict[str, Any]:
    events = [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: {")]
    last = events[-1]
    usage: dict[str, Any] = last["usage"] if "usage" in last else last["response"]["usage"]
    return usage


# The endpoint


async def test_a_key_is_needed_where_the_api_needs_one(open_app: Any) -> None:
    async with open_app(final(), api_key=["secret"]) as app:
        assert (await app.client.get("/metrics")).status_code == 401
        scraped = await scrape(app, authorization="Bearer secret")
    assert scraped("gpt_oss_http_errors_total", code="invalid_api_key") == 1
    assert "secret" not in scraped.text


async def test_the_text_is_that_of_prometheus(open_app: Any) -> None:
    async with open_app(final()) as app:
        plain = await app.client.get("/metrics")
        accept = {"accept": "application/openmetrics-text; version=1.0.0"}
        other = await app.client.get("/metrics", headers=accept)
        head = await app.client.head("/metrics")
    assert plain.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert other.headers["content-type"].startswith("application/openmetrics-text")
    assert (head.status_code, head.content) == (200, b"")


async def test_scrapes_share_a_text_for_each_format(
    open_app: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metrics, "FRESH_SECONDS", 3600)
    written: list[threading.Thread] = []
    write = generate_latest

    def noted(registry: Any) -> bytes:
        written.append(threading.current_thread())
        return write(registry)

    monkeypatch.setattr(metrics, "generate_latest", noted)
    async with open_app(final()) as app:
        texts = await asyncio.gather(*(app.client.get("/metrics") for _ in range(3)))
        await app.post(RESPONSES, {"input": "Hi."})
        texts.append(await app.client.get("/metrics"))
        accept = {"accept": "application/openmetrics-text"}
        other = await app.client.get("/metrics", headers=accept)
    assert {each.content for each in texts} == {texts[0].content}
    assert other.content.endswith(b"# EOF\n")
    assert len(written) == 1
    assert written[0] is not threading.main_thread()


async def test_a_part_that_cannot_serve_is_shown(open_app: Any) -> None:
    async with open_app(final()) as app:
        await app.backend.stop()
        scraped = await scrape(app)
    assert scraped("gpt_oss_ready", part="engine") == 0
    assert scraped("gpt_oss_ready", part="store") == 1


async def test_two_applications_count_for_themselves(open_app: Any) -> None:
    async with open_app(final()) as one, open_app(final()) as other:
        await one.post(RESPONSES, {"input": "Hi."})
        assert (await scrape(other)).ended == {}
        assert (await scrape(one)).ended == {"stop": 1}


# Tokens


@pytest.mark.parametrize("stream", [False, True])
async def test_a_response_counts_as_its_usage_says(open_app: Any, stream: bool) -> None:
    async with open_app(THOUGHTFUL) as app:
        made = await app.post(RESPONSES, {"input": "Hi.", "stream": stream})
        usage = streamed_usage(made.text) if stream else made.json()["usage"]
        scraped = await scrape(app)
    assert scraped.tokens == of_usage(usage)
    assert scraped.tokens[3] > 0
    assert scraped.ended == {"stop": 1}
    assert scraped("vllm:time_to_first_token_seconds_count") == 1


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("n", [1, 3])
async def test_a_completion_counts_as_its_usage_says(open_app: Any, stream: bool, n: int) -> None:
    options = {"stream_options": {"include_usage": True}} if stream else {}
    body = {"model": "m", "messages": MESSAGES, "n": n, "stream": stream, **options}
    async with open_app(THOUGHTFUL, served_model_name=["m"]) as app:
        made = await app.post(CHAT, body)
        usage = streamed_usage(made.text) if stream else made.json()["usage"]
        scraped = await scraped_idle(app)
    assert scraped.tokens == of_usage(usage)
    assert scraped.ended == {"stop": n}
    assert scraped("vllm:request_generation_tokens_sum") == scraped.tokens[2]


async def test_raw_completions_count_as_their_usage_says(open_app: Any) -> None:
    body = {"model": "m", "prompt": ["One.", "Two, three."], "n": 2, "max_tokens": 3}
    async with open_app(THOUGHTFUL, served_model_name=["m"]) as app:
        usage = (await app.post("/v1/completions", body)).json()["usage"]
        scraped = await scraped_idle(app)
    assert scraped.tokens[::2] == (usage["prompt_tokens"], usage["completion_tokens"])
    assert scraped.ended == {"length": 4}


async def test_the_turns_after_hosted_calls_count(open_app: Any) -> None:
    async with open_app(*script(call("1"), call("2"), final("Three."))) as app:
        app.use(Tool())
        made = (await app.post(RESPONSES, {"input": "How much?", "tools": [CODE]})).json()
        scraped = await scraped_idle(app)
    assert scraped.tokens == of_usage(made["usage"])
    assert scraped.ended == {"stop": 1}
    assert scraped("gpt_oss_hosted_calls_total", tool="python", outcome="completed") == 2
    assert scraped("gpt_oss_hosted_call_seconds_count", tool="python") == 2


async def test_an_answer_that_is_cut_off_counts_as_its_usage_says(open_app: Any) -> None:
    async with open_app(THOUGHTFUL) as app:
        made = (await app.post(RESPONSES, {"input": "Hi.", "max_output_tokens": 5})).json()
        scraped = await scrape(app)
    assert made["status"] == "incomplete"
    assert scraped.tokens == of_usage(made["usage"])
    assert scraped.ended == {"length": 1}


async def test_an_answer_without_sampling_counts_nothing(open_app: Any) -> None:
    async with open_app(THOUGHTFUL) as app, connect(app) as socket:
        await socket.answer(input="Hi.", generate=False)
        scraped = await scraped_idle(app)
    assert (scraped.tokens, scraped.ended) == ((0, 0, 0, 0), {})


# Ends


@pytest.mark.parametrize("stream", [False, True])
async def test_an_answer_that_fails_has_its_code(
    open_app: Any, monkeypatch: pytest.MonkeyPatch, stream: bool
) -> None:
    async with open_app(THOUGHTFUL) as app:
        generate = app.backend.generate

        async def breaking(request: Any) -> AsyncIterator[Any]:
            async for chunk in generate(request):
                yield chunk
                raise EngineFault("broken")

        monkeypatch.setattr(app.backend, "generate", breaking)
        await app.post(RESPONSES, {"input": "Hi.", "stream": stream})
        scraped = await scraped_idle(app)
    assert scraped.ended == {"error": 1}
    assert scraped("gpt_oss_answer_failures_total", code="server_error") == 1
    assert scraped("gpt_oss_http_errors_total", code="server_error") == (not stream)
    assert scraped.tokens[2] == 1
    assert scraped.tokens[0] > 0
    assert scraped.open == [0] * 5


@pytest.mark.parametrize("stream", [False, True])
async def test_nothing_is_open_after_a_client_has_left(open_app: Any, stream: bool) -> None:
    async with open_app(ENDLESS) as app:
        asked = asyncio.create_task(app.post(RESPONSES, {"input": "Hi.", "stream": stream}))
        await app.backend.until_running(1)
        await until(lambda: app.app.state.context.gateway.tokens.sampled > 0)
        running = await scrape(app)
        assert running("vllm:num_requests_running") == 1
        assert running("vllm:time_to_first_token_seconds_count") == 1
        assert running("vllm:request_queue_time_seconds_count") == 1
        asked.cancel()
        await asyncio.wait([asked])
        scraped = await scraped_idle(app)
    assert scraped.open == [0] * 5
    assert scraped.ended == {"abort": 1}


async def test_nothing_is_open_after_a_background_response_is_cancelled(open_app: Any) -> None:
    async with open_app(ENDLESS) as app:
        made = (await app.post(RESPONSES, {"input": "Hi.", "background": True})).json()
        await app.backend.until_running(1)
        await app.post(f"{RESPONSES}/{made['id']}/cancel", {})
        scraped = await scraped_idle(app)
    assert scraped.open == [0] * 5
    assert scraped.ended == {"abort": 1}


async def test_a_websocket_is_open_while_it_is(open_app: Any) -> None:
    async with open_app(THOUGHTFUL) as app:
        async with connect(app) as socket:
            await socket.error(input="Hi.", model="unknown-to-the-server")
            opened = await scrape(app)
        scraped = await scraped_idle(app)
    assert opened.open == [0, 0, 0, 0, 1]
    assert scraped.open == [0] * 5
    assert scraped("gpt_oss_http_errors_total", code="model_not_found") == 1
    assert scraped("gpt_oss_http_requests_total", method="WS", status="101") == 1


async def test_a_full_queue_is_counted(open_app: Any) -> None:
    async with open_app(ENDLESS, max_running=1, max_waiting=0) as app:
        await app.post(RESPONSES, {"input": "Hi.", "background": True})
        refused = await app.post(RESPONSES, {"input": "Hi."})
        scraped = await scrape(app)
    assert refused.status_code == 429
    assert scraped("gpt_oss_queue_rejections_total", reason="full") == 1
    assert scraped("gpt_oss_http_errors_total", code="rate_limit_exceeded") == 1
    assert scraped("gpt_oss_queue_places") == 1


async def test_an_evicted_answer_is_counted(open_app: Any) -> None:
    async with open_app(ENDLESS, max_running=1, max_waiting=1) as app:
        await app.post(RESPONSES, {"input": "Hi.", "background": True})
        await app.backend.until_running(1)
        late = {"input": "Hi.", "background": True, "priority": 9}
        await app.post(RESPONSES, late)
        admission = app.app.state.context.gateway.admission
        await until(lambda: admission.waiting == 1)
        assert (await scrape(app)).open == [1, 1, 0, 0, 0]
        await app.post(RESPONSES, {**late, "priority": 0})
        await until(lambda: admission.admitted == 2)
        scraped = await scrape(app)
    assert scraped("gpt_oss_queue_rejections_total", reason="evicted") == 1
    assert scraped("gpt_oss_answer_failures_total", code="rate_limit_exceeded") == 1


async def test_repairs_are_counted_by_their_kind(open_app: Any) -> None:
    broken = "<|channel|>final extra words<|message|>Hi.<|return|>"
    async with open_app(broken, constrain="never") as app:
        await app.post(RESPONSES, {"input": "Hi."})
        scraped = await scrape(app)
    assert scraped("gpt_oss_harmony_repairs_total", kind="header_words") == 1
    assert scraped("gpt_oss_harmony_repairs_total") == 1


async def test_the_version_and_the_backend_are_shown(open_app: Any) -> None:
    async with open_app() as app:
        shown = (await app.client.get("/version")).json()
        scraped = await scrape(app)
    labels = {"version": shown["version"], "backend": "scripted"}
    assert scraped("gpt_oss_build_info", **labels) == scraped("gpt_oss_build_info") == 1


async def test_the_memory_of_bodies_is_shown(open_app: Any) -> None:
    async with open_app() as app:
        with Lease(app.app.state.context.body_budget).charged(1000):
            scraped = await scrape(app)
    assert scraped("gpt_oss_body_memory_bytes") == 1000


async def test_the_hosted_tools_are_shown(open_app: Any, tmp_path: Path) -> None:
    sandbox = BareSandbox(tmp_path / "sandbox", "no layers")
    async with open_app(sandbox=sandbox) as app:
        scraped = await scrape(app)
    assert scraped("gpt_oss_hosted_tool_ready", tool="python") == 0
    assert scraped("gpt_oss_hosted_tool_ready", tool="mcp") == 1


async def test_the_python_sessions_of_this_machine_are_shown(open_app: Any, tmp_path: Path) -> None:
    async with open_app(sandbox=ProcessSandbox(tmp_path)) as app:
        scraped = await scrape(app)
    assert scraped("gpt_oss_python_sessions") == 0


# Hosted calls


@pytest.mark.parametrize(("text", "outcome"), [("fail", "failed"), ("crash", "failed")])
async def test_a_call_that_fails_is_counted(open_app: Any, text: str, outcome: str) -> None:
    lines = [{"prompt_contains": "ailed", "completion": final()}, {"completion": call(text)}]
    async with open_app(*lines) as app:
        app.use(Tool())
        await app.post(RESPONSES, {"input": "Hi.", "tools": [CODE]})
        scraped = await scraped_idle(app)
    assert scraped("gpt_oss_hosted_calls_total", outcome=outcome) == 1


async def test_a_call_that_takes_too_long_is_counted(
    open_app: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool = Tool()
    lines = [
        {"prompt_contains": "was stopped", "completion": final()},
        {"completion": call("wait")},
    ]
    async with open_app(*lines, answer_timeout=3600) as app:
        app.use(tool)
        asked = asyncio.create_task(app.post(RESPONSES, {"input": "Hi.", "tools": [CODE]}))
        await tool.was_opened.wait()
        await tool.sessions[0].running.wait()
        pass_time(monkeypatch, 3600)
        await asked
        scraped = await scraped_idle(app)
    assert scraped("gpt_oss_hosted_calls_total", outcome="timeout") == 1


async def test_a_call_over_the_limit_is_refused(open_app: Any) -> None:
    lines = [{"prompt_contains": "limit of 1 tool calls", "completion": "So.<|return|>"}]
    async with open_app(*lines, *script(call("1"), call("2"), final())) as app:
        app.use(Tool())
        await app.post(RESPONSES, {"input": "Hi.", "tools": [CODE], "max_tool_calls": 1})
        scraped = await scraped_idle(app)
    assert scraped("gpt_oss_hosted_calls_total", outcome="completed") == 1
    assert scraped("gpt_oss_hosted_calls_total", outcome="refused") == 1
    assert scraped("gpt_oss_hosted_call_seconds_count") == 1


async def test_a_call_whose_client_leaves_is_cancelled(open_app: Any) -> None:
    tool = Tool()
    async with open_app(call("wait")) as app:
        app.use(tool)
        body = {"input": "Hi.", "tools": [CODE]}
        asked = asyncio.create_task(app.post(RESPONSES, body))
        await tool.was_opened.wait()
        await tool.sessions[0].running.wait()
        assert (await scrape(app)).open == [0, 0, 1, 0, 0]
        asked.cancel()
        await asyncio.wait([asked])
        scraped = await scraped_idle(app)
    assert scraped("gpt_oss_hosted_calls_total", outcome="cancelled") == 1
    assert scraped.open == [0] * 5


async def test_a_tool_is_counted_by_its_kind(open_app: Any) -> None:
    turns = script(call("1", "browser.search"), final())
    async with open_app(*turns) as app:
        app.use(Tool(SEARCH))
        await app.post(RESPONSES, {"input": "Hi.", "tools": [{"type": "web_search"}]})
        scraped = await scraped_idle(app)
    assert scraped("gpt_oss_hosted_calls_total", tool="browser") == 1


async def test_a_retry_that_gets_an_error_again_has_its_code(open_app: Any) -> None:
    async with open_app(THOUGHTFUL) as app:
        for _ in range(2):
            body, key = {"input": "Hi.", "model": "unknown"}, {"idempotency-key": "k"}
            again = await app.client.post(RESPONSES, json=body, headers=key)
        scraped = await scrape(app)
    assert again.headers["idempotent-replayed"] == "true"
    assert scraped("gpt_oss_http_errors_total") == 2
    assert scraped("gpt_oss_http_errors_total", code="model_not_found") == 2


# What clients choose


async def test_nothing_that_a_client_sends_becomes_a_label(open_app: Any) -> None:
    evil = "ev1l"
    async with open_app(THOUGHTFUL) as app:
        await app.client.request(evil.upper(), "/health")
        await app.client.get(f"/{evil}/{evil}")
        await app.client.get(f"/v1/models/{evil}")
        await app.client.get(f"/v1/responses/resp_{evil}", params={evil: evil})
        await app.client.get("/health", headers={"origin": f"http://{evil}.test"})
        await app.post(RESPONSES, {"input": evil, "model": evil})
        await app.post(RESPONSES, {"input": evil, "metadata": {evil: evil}, "user": evil})
        await app.post(RESPONSES, {evil: evil, "tools": [{"type": evil}]})
        body = {"model": evil, "messages": MESSAGES, "temperature": evil}
        await app.client.post(CHAT, json=body, headers={"idempotency-key": evil})
        scraped = await scrape(app)
    assert [value for value in scraped.label_values if evil in value.lower()] == []
    assert scraped("gpt_oss_http_requests_total", route="other", status="404") == 1
    assert scraped("gpt_oss_http_requests_total", method="other") == 1
    assert scraped("gpt_oss_http_requests_total", route="/v1/models/{name}", status="404") == 1


# Readers


async def test_the_playground_can_read_the_metrics(open_app: Any) -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("there is no Node.js")
    async with open_app(THOUGHTFUL) as app:
        usage = (await app.post(RESPONSES, {"input": "Hi."})).json()["usage"]
        scraped = await scrape(app)
    reader = Path(__file__).parents[3] / "server/web/static/metrics.js"
    program = f"""
      import {{ readMetrics }} from "{reader.as_uri()}";
      import {{ readFileSync }} from "node:fs";
      console.log(JSON.stringify(readMetrics(readFileSync(0, "utf8"))));
    """
    process = await asyncio.create_subprocess_exec(
        *(node, "--no-warnings", "--input-type=module", "--eval", program),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    written, _ = await process.communicate(scraped.text.encode())
    load = json.loads(written)
    assert load["sampled"] == usage["output_tokens"]
    assert (load["prompt"], load["cached"]) == (usage["input_tokens"], 0)
    assert (load["running"], load["waiting"]) == (0, 0)
