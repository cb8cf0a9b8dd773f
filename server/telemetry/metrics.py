"""Counts what the metrics of `server.telemetry.definitions` say, and writes them for Prometheus.

What ends is counted when it ends. What others count or hold is read when somebody asks.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial, wraps
from typing import Any, TypeVar, cast, get_args

from prometheus_client import CollectorRegistry, Counter, Histogram, ProcessCollector
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.openmetrics import exposition as openmetrics
from prometheus_client.registry import Collector

from harmony.events import Repair
from server.errors import (
    APIError,
    BodyMemoryExhausted,
    Busy,
    EngineDown,
    RateLimited,
    ServerFailed,
)
from server.generation.gateway import Gateway
from server.generation.metering import (
    AnswerMeasured,
    CallMeasured,
    CallOutcome,
    Observer,
    TurnMeasured,
)
from server.http.answers.answer import CLIENT_CLOSED_REQUEST
from server.http.shared_task import SharedTask
from server.http.traffic import RequestEnded, Traffic, TrafficObserver
from server.store.errors import StoreUnavailable
from server.telemetry import definitions as d
from server.telemetry import labels

logger = logging.getLogger(__name__)

FRESH_SECONDS = 1.0
"""How long a text is used again. Scrapes cost time, and no limit of requests holds for them."""

NOT_RUN: tuple[CallOutcome, ...] = ("refused", "approval")
"""How calls end that did not run, and so took no time."""

FAILURES: frozenset[type[APIError]] = frozenset({ServerFailed, EngineDown, StoreUnavailable})
"""Errors of admitted answers that are no mistakes of their requests."""

REFUSALS: frozenset[type[APIError]] = frozenset({Busy, BodyMemoryExhausted, RateLimited})
"""The same before requests are admitted."""

_Values = Mapping[tuple[str, ...], float]
"""The values of a metric, by those of its labels."""

_Count = TypeVar("_Count", bound=Callable[..., None])


def _never_raises(count: _Count) -> _Count:
    """A defect of the counting is logged: it must not end an answer."""

    @wraps(count)
    def counted(*args: Any) -> None:
        try:
            count(*args)
        except Exception:
            logger.exception("a metric cannot be counted")

    return cast(_Count, counted)


class Metrics(Observer, TrafficObserver):
    """The metrics of one application, in a registry of their own.

    model: the served name; other names of the model count under it. context_length: the most tokens
    of a prompt. tools: the names of the hosted tools. version: that of the server. backend: its
    name.
    """

    def __init__(
        self, model: str, context_length: int, tools: Iterable[str], version: str, backend: str
    ) -> None:
        self._registry = CollectorRegistry()
        self._model = model
        self._tools = frozenset(tools)
        self._build = (version, backend)
        self._codes = labels.Values()
        tokens = d.token_buckets(context_length)
        self._answers = self._counter(d.ANSWERS)
        self._first_tokens = self._histogram(d.FIRST_TOKEN, d.FIRST_TOKEN_BUCKETS)
        self._latency = self._histogram(d.LATENCY, d.LATENCY_BUCKETS)
        self._queue_time = self._histogram(d.QUEUE_TIME, d.LATENCY_BUCKETS)
        self._prompt = self._histogram(d.ANSWER_PROMPT, tokens)
        self._output = self._histogram(d.ANSWER_OUTPUT, tokens)
        self._reasoning = self._counter(d.REASONING_TOKENS)
        self._failures = self._counter(d.FAILURES)
        self._repairs = self._counter(d.REPAIRS)
        self._calls = self._counter(d.CALLS)
        self._call_seconds = self._histogram(d.CALL_SECONDS, d.CALL_BUCKETS)
        self._requests = self._counter(d.HTTP_REQUESTS)
        self._errors = self._counter(d.HTTP_ERRORS)
        self._shown: list[tuple[d.Definition, Callable[[], _Values]]] = []
        ProcessCollector(registry=self._registry)
        self._texts = {
            as_openmetrics: SharedTask[tuple[bytes, str]](FRESH_SECONDS)
            for as_openmetrics in (False, True)
        }
        self._show_zeros()

    def _counter(self, definition: d.Definition) -> Counter:
        return Counter(definition.name, definition.text, definition.labels, registry=self._registry)

    def _histogram(self, definition: d.Definition, buckets: tuple[float, ...]) -> Histogram:
        return Histogram(
            definition.name,
            definition.text,
            definition.labels,
            registry=self._registry,
            buckets=buckets,
        )

    def _show_zeros(self) -> None:
        """Series that begin with 0 rather than with their first event, which no rate would show."""
        for reason in ("stop", "length", "abort", "error"):
            self._answers.labels(self._model, reason)
        for histogram in (
            self._first_tokens,
            self._latency,
            self._queue_time,
            self._prompt,
            self._output,
        ):
            histogram.labels(self._model)
        self._reasoning.labels(self._model)
        for kind in Repair:
            self._repairs.labels(kind.value)
        for counter, errors in ((self._failures, FAILURES), (self._errors, FAILURES | REFUSALS)):
            for error in errors:
                counter.labels(self._codes.of(error.default_code))
        for tool in self._tools:
            self._call_seconds.labels(tool)
            for outcome in get_args(CallOutcome):
                self._calls.labels(tool, outcome)

    def watch(self, gateway: Gateway, traffic: Traffic) -> None:
        """Show, from now on, what these count and hold. Call it once."""
        model, none = (self._model,), ()
        admission, tokens, summaries = gateway.admission, gateway.tokens, gateway.summaries
        self.show(d.RUNNING, lambda: {model: admission.running})
        self.show(d.WAITING, lambda: {model: admission.waiting})
        self.show(d.PROMPT_TOKENS, lambda: {model: tokens.prompt})
        self.show(d.CACHED_TOKENS, lambda: {model: tokens.cached})
        self.show(d.GENERATION_TOKENS, lambda: {model: tokens.sampled})
        self.show(d.IN_TOOLS, lambda: {none: admission.admitted - admission.queued})
        self.show(d.QUEUE_PLACES, lambda: {none: admission.limit})
        self.show(
            d.REJECTIONS,
            lambda: {("full",): admission.refused, ("evicted",): admission.evicted},
        )
        self.show(d.SUMMARIES, lambda: {(outcome,): n for outcome, n in summaries.items()})
        self.show(d.STREAMS, lambda: {none: traffic.streams})
        self.show(d.WEBSOCKETS, lambda: {none: traffic.sockets})

    def show(self, definition: d.Definition, read: Callable[[], _Values]) -> None:
        """Show a gauge or a counter, from now on.

        read: its values, by those of its labels; called on the event loop.
        """
        self._shown.append((definition, read))

    @_never_raises
    def queue_left(self, seconds: float) -> None:
        """See `Observer`."""
        self._queue_time.labels(self._model).observe(seconds)

    @_never_raises
    def first_token(self, seconds: float) -> None:
        """See `Observer`."""
        self._first_tokens.labels(self._model).observe(seconds)

    @_never_raises
    def turn_ended(self, turn: TurnMeasured) -> None:
        """See `Observer`."""
        self._reasoning.labels(self._model).inc(turn.reasoning)
        for kind, count in turn.repairs.items():
            self._repairs.labels(kind.value).inc(count)

    @_never_raises
    def answer_ended(self, answer: AnswerMeasured) -> None:
        """See `Observer`."""
        model = self._model
        self._answers.labels(model, answer.reason).inc()
        if answer.reason == "error":
            self._failures.labels(self._codes.of(answer.error)).inc()
        self._latency.labels(model).observe(answer.whole)
        if answer.sampled:
            self._prompt.labels(model).observe(answer.input)
            self._output.labels(model).observe(answer.output)

    @_never_raises
    def call_ended(self, call: CallMeasured) -> None:
        """See `Observer`."""
        tool = labels.tool(call.tool, self._tools)
        self._calls.labels(tool, call.outcome).inc()
        if call.outcome not in NOT_RUN:
            self._call_seconds.labels(tool).observe(call.seconds)

    @_never_raises
    def request_ended(self, request: RequestEnded) -> None:
        """See `TrafficObserver`."""
        route, method = labels.route(request.route), labels.method(request.method)
        status = request.status
        self._requests.labels(route, method, labels.status(status)).inc()
        if status is not None and status >= 400 and status != CLIENT_CLOSED_REQUEST:
            self.refused(request.error)

    @_never_raises
    def refused(self, code: str | None) -> None:
        """See `TrafficObserver`."""
        self._errors.labels(self._codes.of(code)).inc()

    async def text(self, accept: str, problems: Mapping[str, str | None]) -> tuple[bytes, str]:
        """The metrics, and their media type: the text format, or OpenMetrics by `Accept`.

        A text is used again for `FRESH_SECONDS`. problems: why a part of the server cannot serve,
        None where it can.
        """
        as_openmetrics = _prefers_openmetrics(accept)
        written = self._texts[as_openmetrics].get(
            partial(self._written, problems, as_openmetrics=as_openmetrics)
        )
        return await asyncio.shield(written)

    async def _written(
        self, problems: Mapping[str, str | None], *, as_openmetrics: bool
    ) -> tuple[bytes, str]:
        state = self._state(problems)
        return await asyncio.to_thread(_write, self._registry, state, as_openmetrics=as_openmetrics)

    def _state(self, problems: Mapping[str, str | None]) -> list[Metric]:
        parts: _Values = {(part,): problem is None for part, problem in problems.items()}
        shown = (_metric(definition, read()) for definition, read in self._shown)
        return [*shown, _metric(d.READY, parts), _metric(d.BUILD, {self._build: 1.0})]


class _Shown(Collector):
    """The metrics of a registry and `more`, without the times at which the series began.

    The times would be a series for each series, which nothing reads.
    """

    def __init__(self, registry: CollectorRegistry, more: Iterable[Metric]) -> None:
        self._registry = registry
        self._more = more

    def collect(self) -> Iterator[Metric]:
        """See `Collector`."""
        for metric in (*self._registry.collect(), *self._more):
            metric.samples = [
                sample for sample in metric.samples if not sample.name.endswith("_created")
            ]
            yield metric


def _write(
    registry: CollectorRegistry, more: Iterable[Metric], *, as_openmetrics: bool
) -> tuple[bytes, str]:
    """The metrics and their media type. It takes milliseconds, and may run on any thread."""
    shown = _Shown(registry, more)
    if as_openmetrics:
        return openmetrics.generate_latest(shown), openmetrics.CONTENT_TYPE_LATEST
    return generate_latest(shown), CONTENT_TYPE_PLAIN_0_0_4


def _prefers_openmetrics(accept: str) -> bool:
    """Whether OpenMetrics comes before plain text. The versions have the same names and numbers.

    The library's own choice copies a version from the header into the answer's, and fails for some.
    """
    types = [each.partition(";")[0].strip().lower() for each in accept.split(",")]
    known = [each for each in types if each in ("application/openmetrics-text", "text/plain")]
    return known[:1] == ["application/openmetrics-text"]


def _metric(definition: d.Definition, values: _Values) -> Metric:
    """A gauge or a counter with these values."""
    kind = GaugeMetricFamily if definition.kind == "gauge" else CounterMetricFamily
    metric = kind(definition.name, definition.text, labels=definition.labels)
    for each, value in values.items():
        metric.add_metric(each, value)
    return metric
