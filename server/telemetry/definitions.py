"""The metrics of `GET /metrics`: their names, labels and meanings. `docs/metrics.md` is made of it.

Where the meaning is that of a metric of vLLM, the metric has vLLM's name and buckets, so that its
dashboards and autoscalers read this server, too. The others begin with `gpt_oss_`.
Sources: vllm/v1/metrics/loggers.py and buckets.py of vLLM 0.32.
"""

from dataclasses import dataclass
from typing import Literal

LATENCY_BUCKETS = (
    *(0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0),
    *(120.0, 240.0, 480.0, 960.0, 1920.0, 7680.0),
)
"""Seconds of whole answers, and of waiting, as vLLM has them."""

FIRST_TOKEN_BUCKETS = (
    *(0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5),
    *(10.0, 20.0, 40.0, 80.0, 160.0, 640.0, 2560.0),
)
"""Seconds to the first token, as vLLM has them."""

CALL_BUCKETS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0)
"""Seconds of hosted calls, whose usual time limit is a minute."""


def token_buckets(most: int) -> tuple[float, ...]:
    """1, 2, 5, 10, 20, … up to `most` tokens, as vLLM has them for its context length."""
    steps = (step * 10**power for power in range(len(str(most))) for step in (1, 2, 5))
    return tuple(float(value) for value in steps if value <= most)


@dataclass(frozen=True, slots=True)
class Definition:
    """A metric. name: as Prometheus stores it; a histogram's has no `_bucket`. text: its `HELP`."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    text: str
    labels: tuple[str, ...] = ()


_MODEL = ("model_name",)

RUNNING = Definition("vllm:num_requests_running", "gauge", "Answers that sample now.", _MODEL)
WAITING = Definition(
    "vllm:num_requests_waiting", "gauge", "Answers that wait for a slot now.", _MODEL
)
PROMPT_TOKENS = Definition(
    "vllm:prompt_tokens_total",
    "counter",
    "Tokens of prompts that the engine has read, cached ones included.",
    _MODEL,
)
CACHED_TOKENS = Definition(
    "vllm:prompt_tokens_cached_total",
    "counter",
    "Tokens of prompts that came from the engine's prefix cache.",
    _MODEL,
)
GENERATION_TOKENS = Definition(
    "vllm:generation_tokens_total",
    "counter",
    "Tokens that the engine has sampled, counted as they arrive.",
    _MODEL,
)
ANSWERS = Definition(
    "vllm:request_success_total",
    "counter",
    "Answers that ended: `stop` and `length` are complete or cut off at a limit of tokens; `abort`"
    " lost their client, were cancelled, or stopped with the server; `error` failed.",
    (*_MODEL, "finished_reason"),
)
FIRST_TOKEN = Definition(
    "vllm:time_to_first_token_seconds",
    "histogram",
    "Seconds from the admission of a request to the first token of its answer.",
    _MODEL,
)
LATENCY = Definition(
    "vllm:e2e_request_latency_seconds",
    "histogram",
    "Seconds from the admission of a request to the end of its answer, hosted calls included.",
    _MODEL,
)
QUEUE_TIME = Definition(
    "vllm:request_queue_time_seconds",
    "histogram",
    "Seconds that an answer waited for its first slot, or until it ended without one.",
    _MODEL,
)
ANSWER_PROMPT = Definition(
    "vllm:request_prompt_tokens",
    "histogram",
    "Tokens of the prompts of an answer, over all of its turns.",
    _MODEL,
)
ANSWER_OUTPUT = Definition(
    "vllm:request_generation_tokens",
    "histogram",
    "Tokens that were sampled for an answer, reasoning included.",
    _MODEL,
)
REASONING_TOKENS = Definition(
    "gpt_oss_reasoning_tokens_total",
    "counter",
    "Sampled tokens that were reasoning, counted at the end of a turn.",
    _MODEL,
)
IN_TOOLS = Definition(
    "gpt_oss_answers_in_tools", "gauge", "Answers whose hosted call runs now; they hold no slot."
)
QUEUE_PLACES = Definition(
    "gpt_oss_queue_places", "gauge", "The most answers that sample or wait at once."
)
REJECTIONS = Definition(
    "gpt_oss_queue_rejections_total",
    "counter",
    "Answers that the queue refused with a 429: `full` had no place, `evicted` lost theirs to a"
    " request with a better priority.",
    ("reason",),
)
FAILURES = Definition(
    "gpt_oss_answer_failures_total",
    "counter",
    "Answers that failed after they were admitted, by the code of the error. Mistakes of the"
    " request that are found before it samples do not count.",
    ("code",),
)
REPAIRS = Definition(
    "gpt_oss_harmony_repairs_total",
    "counter",
    "Departures from the harmony format that the parser repaired, by what was wrong; not those in a"
    " message that a stop string ends.",
    ("kind",),
)
CALLS = Definition(
    "gpt_oss_hosted_calls_total",
    "counter",
    "Calls of hosted tools that ended: `completed`, `failed`, `timeout`, `approval` (the client is"
    " asked first), `refused` (by a limit), `cancelled` (the answer ended first).",
    ("tool", "outcome"),
)
CALL_SECONDS = Definition(
    "gpt_oss_hosted_call_seconds",
    "histogram",
    "Seconds that a call of a hosted tool ran, however it ended; not those that were refused, or"
    " wait for an approval.",
    ("tool",),
)
SUMMARIES = Definition(
    "gpt_oss_summary_parts_total",
    "counter",
    "Parts of summaries of reasoning, by how they ended.",
    ("outcome",),
)
HTTP_REQUESTS = Definition(
    "gpt_oss_http_requests_total",
    "counter",
    "Requests that ended, by route, method and status; a stream's status is that of its start.",
    ("route", "method", "status"),
)
HTTP_ERRORS = Definition(
    "gpt_oss_http_errors_total",
    "counter",
    "Requests that were answered with an error, by its code; those on WebSockets, and those that"
    " were refused before they were read, included.",
    ("code",),
)
STREAMS = Definition(
    "gpt_oss_open_streams", "gauge", "Answers as server-sent events that are being sent now."
)
WEBSOCKETS = Definition("gpt_oss_open_websockets", "gauge", "WebSockets that are open now.")
CONNECTIONS = Definition(
    "gpt_oss_open_connections",
    "gauge",
    "Connections that are open now, of at most `--max-connections`.",
)
BODY_MEMORY = Definition(
    "gpt_oss_body_memory_bytes",
    "gauge",
    "Memory that bodies of requests use now, of at most `--max-body-memory`.",
)
PYTHON_SESSIONS = Definition(
    "gpt_oss_python_sessions",
    "gauge",
    "Sessions whose Python process lives on this machine now, of at most `--python-sessions`.",
)
TOOL_READY = Definition(
    "gpt_oss_hosted_tool_ready",
    "gauge",
    "1 if the hosted tool can be used, 0 if it is off or starting.",
    ("tool",),
)
READY = Definition(
    "gpt_oss_ready",
    "gauge",
    "1 if the `engine` or the `store` can serve, 0 if it cannot, as `/ready` says.",
    ("part",),
)
BUILD = Definition(
    "gpt_oss_build_info",
    "gauge",
    "Always 1. The version of the server and the name of the backend.",
    ("version", "backend"),
)

DEFINITIONS = (
    *(RUNNING, WAITING, PROMPT_TOKENS, CACHED_TOKENS, GENERATION_TOKENS, ANSWERS),
    *(FIRST_TOKEN, LATENCY, QUEUE_TIME, ANSWER_PROMPT, ANSWER_OUTPUT, REASONING_TOKENS),
    *(IN_TOOLS, QUEUE_PLACES, REJECTIONS, FAILURES, REPAIRS, CALLS, CALL_SECONDS, SUMMARIES),
    *(HTTP_REQUESTS, HTTP_ERRORS, STREAMS, WEBSOCKETS, CONNECTIONS, BODY_MEMORY),
    *(PYTHON_SESSIONS, TOOL_READY, READY, BUILD),
)
"""In the order of the documentation."""
