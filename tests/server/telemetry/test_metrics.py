"""The registry of one application: what is counted, and how it is written."""

import asyncio
import sys
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import REGISTRY
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_open
from prometheus_client.parser import text_string_to_metric_families as parse

from harmony.events import Repair
from server.generation.admission import Admission
from server.generation.gateway import Gateway
from server.generation.metering import AnswerMeasured, CallMeasured, CallOutcome, TurnMeasured
from server.http.traffic import RequestEnded, Traffic
from server.telemetry import definitions
from server.telemetry.definitions import DEFINITIONS, Definition, token_buckets
from server.telemetry.metrics import Metrics

FINE = {"engine": None, "store": None}
ENDED = AnswerMeasured("stop", None, True, 7, 5, 2.0)


@pytest.fixture
def metrics() -> Metrics:
    made = Metrics("m", 1000, ["python", "mcp"], "1.0", "scripted")
    backend: Any = None
    made.watch(Gateway(backend, Admission(2, 1)), Traffic(made))
    for gauge in (definitions.CONNECTIONS, definitions.BODY_MEMORY, definitions.PYTHON_SESSIONS):
        made.show(gauge, lambda: {(): 3})
    made.show(definitions.TOOL_READY, lambda: {("python",): 1, ("mcp",): 0})
    return made


@pytest.fixture(autouse=True)
def no_text_is_used_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("server.telemetry.metrics.FRESH_SECONDS", 0.0)


def written(metrics: Metrics, accept: str, problems: Any) -> tuple[bytes, str]:
    """The text, made in a loop of its own, since some of the tests run in one."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, metrics.text(accept, problems)).result()


def values(metrics: Metrics, problems: Any = FINE) -> dict[str, float]:
    """The samples, as `name{label="value"}` with the labels in order."""
    content, _ = written(metrics, "", problems)
    return {
        each.name + "".join(f"|{each.labels[label]}" for label in sorted(each.labels)): each.value
        for family in parse(content.decode())
        for each in family.samples
    }


def shown(metrics: Metrics) -> Iterator[tuple[str, str, str]]:
    content, _ = written(metrics, "", FINE)
    for family in parse(content.decode()):
        name = f"{family.name}_total" if family.type == "counter" else family.name
        yield name, family.type, family.documentation


def test_all_metrics_are_defined_and_shown(metrics: Metrics) -> None:
    defined = [(each.name, each.kind, each.text) for each in DEFINITIONS]
    own = [each for each in shown(metrics) if not each[0].startswith("process_")]
    assert sorted(own) == sorted(defined)


def test_the_labels_are_those_of_the_definitions(metrics: Metrics) -> None:
    metrics.answer_ended(AnswerMeasured("error", "server_error", False, 0, 0, 1.0))
    metrics.call_ended(CallMeasured("python", "completed", 1.0))
    metrics.request_ended(RequestEnded("/health", "GET", 400, "x"))
    content, _ = written(metrics, "", FINE)
    labels: dict[str, set[str]] = {}
    for family in parse(content.decode()):
        for sample in family.samples:
            named = set(sample.labels) - {"le"}
            assert labels.setdefault(family.name, named) == named
    for each in DEFINITIONS:
        if each.name != "gpt_oss_summary_parts_total":
            assert labels[each.name.removesuffix("_total")] == set(each.labels)


def test_every_definition_is_listed() -> None:
    made = [each for each in vars(definitions).values() if isinstance(each, Definition)]
    assert len(DEFINITIONS) == len({each.name for each in DEFINITIONS}) == len(made)


def test_a_gauge_is_read_when_it_is_written(metrics: Metrics) -> None:
    found = values(metrics)
    assert found["gpt_oss_open_connections"] == 3
    assert (found["gpt_oss_hosted_tool_ready|python"], found["gpt_oss_hosted_tool_ready|mcp"]) == (
        *(1, 0),
    )


@pytest.mark.skipif(sys.platform != "linux", reason="the library reads /proc")
def test_the_process_is_measured(metrics: Metrics) -> None:
    assert {"process_resident_memory_bytes", "process_open_fds"} <= values(metrics).keys()


def test_what_alerts_are_for_is_0_before_it_happens(metrics: Metrics) -> None:
    found = values(metrics)
    for code in ("server_error", "engine_unavailable", "store_unavailable"):
        assert found[f"gpt_oss_answer_failures_total|{code}"] == 0
    for code in ("server_error", "server_overloaded", "rate_limit_exceeded"):
        assert found[f"gpt_oss_http_errors_total|{code}"] == 0
    for tool in ("python", "mcp"):
        for outcome in ("completed", "failed", "timeout", "approval", "refused", "cancelled"):
            assert found[f"gpt_oss_hosted_calls_total|{outcome}|{tool}"] == 0
        assert found[f"gpt_oss_hosted_call_seconds_count|{tool}"] == 0


def test_an_answer_is_counted_with_its_times_and_tokens(metrics: Metrics) -> None:
    metrics.answer_ended(ENDED)
    found = values(metrics)
    assert found["vllm:request_success_total|stop|m"] == 1
    assert found["vllm:request_success_total|error|m"] == 0
    assert found["vllm:e2e_request_latency_seconds_sum|m"] == 2.0
    assert found["vllm:request_prompt_tokens_sum|m"] == 7
    assert found["vllm:request_generation_tokens_sum|m"] == 5


def test_the_wait_and_the_first_token_do_not_wait_for_the_end(metrics: Metrics) -> None:
    metrics.queue_left(0.25)
    metrics.first_token(0.5)
    found = values(metrics)
    assert found["vllm:request_queue_time_seconds_sum|m"] == 0.25
    assert found["vllm:time_to_first_token_seconds_sum|m"] == 0.5
    assert found["vllm:e2e_request_latency_seconds_count|m"] == 0


def test_an_answer_without_a_token_has_no_first_one(metrics: Metrics) -> None:
    metrics.answer_ended(AnswerMeasured("error", "server_error", False, 0, 0, 1.0))
    found = values(metrics)
    assert found["vllm:time_to_first_token_seconds_count|m"] == 0
    assert found["vllm:request_prompt_tokens_count|m"] == 0
    assert found["gpt_oss_answer_failures_total|server_error"] == 1


async def test_an_answer_runs_once_it_has_its_slot() -> None:
    metrics, admission = Metrics("m", 1000, [], "1.0", "scripted"), Admission(2, 1)
    backend: Any = None
    metrics.watch(Gateway(backend, admission), Traffic(metrics))
    ticket = admission.enter()
    assert values(metrics)["vllm:num_requests_running|m"] == 0
    async with ticket.slot():
        assert values(metrics)["vllm:num_requests_running|m"] == 1


def test_a_turn_adds_its_reasoning_and_repairs(metrics: Metrics) -> None:
    metrics.turn_ended(TurnMeasured(3, Counter([Repair.HEADER_WORDS, Repair.HEADER_WORDS])))
    found = values(metrics)
    assert found["gpt_oss_reasoning_tokens_total|m"] == 3
    assert found["gpt_oss_harmony_repairs_total|header_words"] == 2
    assert found["gpt_oss_harmony_repairs_total|repetition"] == 0


@pytest.mark.parametrize("outcome", ["refused", "approval"])
def test_a_call_that_did_not_run_took_no_time(metrics: Metrics, outcome: CallOutcome) -> None:
    metrics.call_ended(CallMeasured("python", outcome))
    metrics.call_ended(CallMeasured("python", "failed", 2.0))
    found = values(metrics)
    assert found[f"gpt_oss_hosted_calls_total|{outcome}|python"] == 1
    assert found["gpt_oss_hosted_calls_total|failed|python"] == 1
    assert found["gpt_oss_hosted_call_seconds_count|python"] == 1


def test_hostile_names_are_no_labels(metrics: Metrics) -> None:
    for name in ("secret", "x" * 10_000, 'a"}\n1'):
        metrics.call_ended(CallMeasured(f"mcp.{name}", "completed", 1.0))
        metrics.call_ended(CallMeasured(name, "completed", 1.0))
        metrics.request_ended(RequestEnded(None, name, 404, name))
        metrics.refused(name.upper())
    content, _ = written(metrics, "", FINE)
    assert b"xxx" not in content
    assert b'a"' not in content
    assert b'a\\"' not in content
    found = values(metrics)
    assert found["gpt_oss_hosted_calls_total|completed|mcp"] == 3
    assert found["gpt_oss_hosted_calls_total|completed|other"] == 3
    assert found["gpt_oss_http_requests_total|other|other|404"] == 3


@pytest.mark.parametrize(
    ("status", "errors"), [(200, 0), (101, 0), (400, 1), (503, 1), (499, 0), (None, 0)]
)
def test_an_error_is_counted_by_its_code(metrics: Metrics, status: int | None, errors: int) -> None:
    metrics.request_ended(RequestEnded("/health", "GET", status, "engine_unavailable"))
    assert values(metrics).get("gpt_oss_http_errors_total|engine_unavailable", 0) == errors


def test_a_defect_of_the_counting_ends_no_answer(
    metrics: Metrics, caplog: pytest.LogCaptureFixture
) -> None:
    broken: Any = "no measure"
    metrics.queue_left(broken)
    metrics.first_token(broken)
    metrics.answer_ended(broken)
    metrics.turn_ended(broken)
    metrics.call_ended(broken)
    metrics.request_ended(broken)
    assert caplog.text.count("a metric cannot be counted") == 6


def test_a_part_that_cannot_serve_is_0(metrics: Metrics) -> None:
    found = values(metrics, {"engine": None, "store": "away"})
    assert (found["gpt_oss_ready|engine"], found["gpt_oss_ready|store"]) == (1, 0)


def test_two_applications_do_not_share_their_counts(metrics: Metrics) -> None:
    other = Metrics("m", 1000, [], "1.0", "scripted")
    other.answer_ended(ENDED)
    assert values(metrics)["vllm:request_success_total|stop|m"] == 0
    assert [each for each in REGISTRY.collect() if each.name.startswith(("vllm", "gpt_oss"))] == []


@pytest.mark.parametrize("version", ["", "; version=1.0.0", "; version=x.y", "; version=9.9.9é"])
def test_a_scraper_may_ask_for_openmetrics(metrics: Metrics, version: str) -> None:
    accept = f"application/openmetrics-text{version};q=0.5,text/plain;version=0.0.4;q=0.2"
    content, media_type = written(metrics, accept, FINE)
    assert media_type == "application/openmetrics-text; version=1.0.0; charset=utf-8"
    families = {family.name for family in parse_open(content.decode())}
    assert "vllm:generation_tokens" in families


@pytest.mark.parametrize(
    "accept",
    [
        "",
        "*/*",
        "text/html",
        "text/plain; version=0.0.4, application/openmetrics-text; version=1.0.0",
        "text/plain; version=1.é",
    ],
)
def test_any_other_accept_gets_text(metrics: Metrics, accept: str) -> None:
    content, media_type = written(metrics, accept, FINE)
    assert media_type == "text/plain; version=0.0.4; charset=utf-8"
    assert not content.endswith(b"# EOF\n")


def test_the_times_at_which_series_began_are_left_out(metrics: Metrics) -> None:
    for accept in ("", "application/openmetrics-text"):
        assert b"_created" not in written(metrics, accept, FINE)[0]


def test_the_buckets_of_tokens_end_with_the_context() -> None:
    assert token_buckets(100) == (1, 2, 5, 10, 20, 50, 100)
    assert token_buckets(131_072)[-1] == 100_000


def vllm_folder() -> Path | None:
    """That of vLLM's metrics, where `make test-vllm` has installed it."""
    spec = find_spec("vllm")
    if spec is not None and spec.origin is not None:
        return Path(spec.origin).parent / "v1/metrics"
    root = Path(__file__).parents[3] / ".venv-vllm/lib"
    return next(root.glob("python3*/site-packages/vllm/v1/metrics"), None)


def test_names_and_buckets_are_those_of_vllm(monkeypatch: pytest.MonkeyPatch) -> None:
    folder = vllm_folder()
    if folder is None:
        pytest.skip("vLLM is not installed")
    loggers = (folder / "loggers.py").read_text(encoding="utf-8")
    for each in DEFINITIONS:
        if each.name.startswith("vllm:"):
            assert f'name="{each.name.removesuffix("_total")}"' in loggers
    source = (folder / "buckets.py").read_text(encoding="utf-8")
    buckets: dict[str, Any] = {"__name__": "buckets"}
    monkeypatch.setitem(sys.modules, "buckets", sys)
    exec(compile(source, "buckets.py", "exec"), buckets)
    assert buckets["REQUEST_LATENCY_BUCKETS"] == definitions.LATENCY_BUCKETS
    assert buckets["TIME_TO_FIRST_TOKEN_BUCKETS"] == definitions.FIRST_TOKEN_BUCKETS
    assert tuple(buckets["build_1_2_5_buckets"](131_072)) == token_buckets(131_072)
