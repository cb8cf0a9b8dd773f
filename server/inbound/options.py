"""Reads the options of requests: sampling, priority, stop strings, reasoning and verbosity.

Sources: https://platform.openai.com/docs/api-reference/chat/create for ranges,
https://openrouter.ai/docs/use-cases/reasoning-tokens for the `reasoning` object.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal, get_args

from adapters.base import SamplingParams
from harmony.messages import Effort, SystemContent, ToolNamespace
from harmony.vocab import FIRST_SPECIAL, VOCAB_SIZE
from server.schemas.fields import digits, invalid, mapping, optional_boolean, string
from server.schemas.sampling import SamplingFields
from server.summaries.base import Detail

TEMPERATURE = 1.0
TOP_P = 1.0
"""The defaults of the API, which the model card of gpt-oss recommends too."""

MAX_STOPS = 4
MAX_STOP_LENGTH = 4096
"""Characters of a stop string. The end of the text is compared with it after each token."""

ASSUMED_ANSWER_TOKENS = 16_384
"""Tokens of an answer without a limit, to which a reasoning budget is compared."""

MAX_PRIORITY = 1_000
REPETITION_PENALTIES = (0.01, 100.0)
"""The allowed range. No API has an upper bound, but beyond these logits may overflow."""

_TIERS = {"priority": -1, "flex": 1}
SummariesWhen = Literal["never", "requested", "default"]
"""Which answers have summaries of their reasoning: none, those whose requests ask for them, or all
whose requests do not refuse them."""

_VERBOSITY = {
    "low": "Keep the final answer short.",
    "high": "Make the final answer detailed.",
}
_MIN_TOP_P = 1e-9
_SEEDS = 2**64
_MAX_BUDGET = 2**20  # more than any context; grammars count in 32 bits
_EFFORTS: Mapping[str, Effort | None] = {
    "none": None,
    "minimal": Effort.LOW,
    "low": Effort.LOW,
    "medium": Effort.MEDIUM,
    "high": Effort.HIGH,
    "xhigh": Effort.HIGH,
    "max": Effort.HIGH,
}


@dataclass(frozen=True, slots=True)
class Reasoning:
    """The reasoning options of a request.

    effort: None for no reasoning. budget: the most tokens of reasoning, >= 1, None for no limit or
    no reasoning. hidden: the answer leaves the reasoning out. param: the request's field that sets
    the effort.
    """

    effort: Effort | None = Effort.MEDIUM
    budget: int | None = None
    hidden: bool = False
    param: str = field(default="reasoning.effort", compare=False)


def read_sampling(request: SamplingFields) -> SamplingParams:
    """The request's sampling parameters, with defaults. Raises InvalidRequest naming the field."""
    top_p = _between("top_p", request.top_p, 0, 1, TOP_P)
    top_k = 0 if request.top_k is None else request.top_k
    if top_k < -1:
        raise invalid("top_k", "expected at least 1, or 0 or -1 for no limit")
    return SamplingParams(
        temperature=_between("temperature", request.temperature, 0, 2, TEMPERATURE),
        # The API allows 0, for the most likely token only; engines do not.
        top_p=max(top_p, _MIN_TOP_P),
        top_k=max(top_k, 0),
        min_p=_between("min_p", request.min_p, 0, 1, 0.0),
        presence_penalty=_between("presence_penalty", request.presence_penalty, -2, 2, 0.0),
        frequency_penalty=_between("frequency_penalty", request.frequency_penalty, -2, 2, 0.0),
        repetition_penalty=_between(
            "repetition_penalty", request.repetition_penalty, *REPETITION_PENALTIES, 1.0
        ),
        logit_bias=_logit_bias(request.logit_bias or {}),
    )


def biases_control(sampling: SamplingParams) -> bool:
    """Whether `logit_bias` names control tokens of harmony."""
    return any(token >= FIRST_SPECIAL for token in sampling.logit_bias)


def read_priority(priority: int | None, service_tier: str | None = None) -> int:
    """The priority of a request, lower is earlier: `priority`, else that of the tier, else 0.

    Raises InvalidRequest for a `priority` that is out of range.
    """
    if priority is None:
        return _TIERS.get(service_tier or "", 0)
    if abs(priority) > MAX_PRIORITY:
        raise invalid("priority", f"expected an integer from -{MAX_PRIORITY} to {MAX_PRIORITY}")
    return priority


def effective_tier(priority: int | None, service_tier: str | None) -> str:
    """The tier for the answer: `default` if the tier is unknown or `priority` overrides it."""
    return service_tier if priority is None and service_tier in _TIERS else "default"


def read_stop(value: Any) -> tuple[str, ...]:
    """The stop strings, from a string or an array of strings; null is none.

    Raises InvalidRequest for more than four, and for one that is empty or too long.
    """
    if value is None:
        return ()
    if not isinstance(value, str | list):
        raise invalid("stop", "expected a string or an array of strings", "invalid_type")
    stops = [value] if isinstance(value, str) else value
    if len(stops) > MAX_STOPS:
        raise invalid("stop", f"expected at most {MAX_STOPS} stop strings")
    for index, stop in enumerate(stops):
        where = "stop" if isinstance(value, str) else f"stop.{index}"
        if not string(stop, where):
            raise invalid(where, "a stop string must not be empty")
        if len(stop) > MAX_STOP_LENGTH:
            raise invalid(where, f"a stop string has at most {MAX_STOP_LENGTH} characters")
    return tuple(dict.fromkeys(stops))


def read_effort(value: Any, param: str) -> Effort | None:
    """The effort of gpt-oss for that of the API: null is medium, `none` is None.

    Raises InvalidRequest for an unknown effort.
    """
    if value is None:
        return Effort.MEDIUM
    if not isinstance(value, str) or value not in _EFFORTS:
        raise invalid(param, f"expected one of {', '.join(_EFFORTS)}")
    return _EFFORTS[value]


def read_reasoning(
    value: Any, *, effort: Any = None, include: Any = None, max_tokens: int | None = None
) -> Reasoning:
    """Read OpenRouter's `reasoning` object, which overrides `effort` and `include`.

    effort, include: the fields `reasoning_effort` and `include_reasoning`.
    max_tokens: the limit of the whole answer. A budget without an effort sets the effort by its
    share of that limit: the nearest of 0.8 for high, 0.5 for medium and 0.2 for low.

    Raises InvalidRequest naming the field.
    """
    options = {} if value is None else mapping(value, "reasoning")
    enabled = optional_boolean(options.get("enabled"), "reasoning.enabled")
    exclude = optional_boolean(options.get("exclude"), "reasoning.exclude")
    include = optional_boolean(include, "include_reasoning")
    budget = _budget(options.get("max_tokens"))
    level: Effort | None = None
    if enabled is False:
        param = "reasoning.enabled"
    elif budget == 0:
        param = "reasoning.max_tokens"
    elif options.get("effort") is not None:
        level = read_effort(options["effort"], param := "reasoning.effort")
    elif budget is not None:
        param = "reasoning.max_tokens"
        level = _effort_of_share(budget / (max_tokens or ASSUMED_ANSWER_TOKENS))
    else:
        level = read_effort(effort, param := "reasoning_effort")
    hidden = (include is False) if exclude is None else exclude
    limit = None if level is None or budget is None else min(budget, _MAX_BUDGET)
    return Reasoning(level, limit, hidden, param)


def read_summary(
    value: Any, when: SummariesWhen, reasoning: Reasoning, *, is_given: bool
) -> Detail | None:
    """How long the summaries of the answer's reasoning are, None for no summaries.

    value: the request's field, null for no summaries. is_given: whether the request has it.
    reasoning: there are no summaries where the answer has none, or does not show it.
    Raises InvalidRequest for an unknown value.
    """
    if value not in (None, *get_args(Detail)):
        raise invalid("reasoning.summary", f"expected one of {', '.join(get_args(Detail))}")
    if when == "never" or reasoning.hidden or reasoning.effort is None:
        return None
    detail: Detail | None = value
    return detail if is_given or when == "requested" else "auto"


def derived_seed(seed: int | None, index: int) -> int | None:
    """The seed of one of a request's answers, in 64 bits; the first has the request's own seed."""
    if seed is None:
        return None
    return (seed + index + _SEEDS // 2) % _SEEDS - _SEEDS // 2


def verbosity_hint(verbosity: str | None) -> str | None:
    """The instruction for a verbosity, None for medium; harmony has no field for it."""
    return _VERBOSITY.get(verbosity or "medium")


def system_content(
    effort: Effort | None, date: str, tools: tuple[ToolNamespace, ...] = ()
) -> SystemContent:
    """The system message. date: `YYYY-MM-DD`. tools: the built-in namespaces.

    Without reasoning it names the effort low: gpt-oss was not trained with less.
    """
    return SystemContent(start_date=date, effort=effort or Effort.LOW, tools=tools)


def today() -> str:
    """The date in UTC as `YYYY-MM-DD`."""
    return datetime.now(UTC).date().isoformat()


def _between(param: str, value: float | None, least: float, most: float, default: float) -> float:
    if value is None:
        return default
    if not least <= value <= most:
        raise invalid(param, f"expected a number from {least} to {most}")
    return float(value)


def _logit_bias(value: Mapping[str, float]) -> dict[int, float]:
    bias: dict[int, float] = {}
    for token, amount in value.items():
        where = f"logit_bias.{token}"
        token_id = digits(token, VOCAB_SIZE - 1)
        if token_id is None:
            raise invalid(where, f"expected a token id from 0 to {VOCAB_SIZE - 1}")
        bias[token_id] = _between(where, amount, -100, 100, 0.0)
    return bias


def _budget(value: Any) -> int | None:
    if value is not None and (type(value) is not int or value < 0):
        raise invalid("reasoning.max_tokens", "expected an integer of at least 0")
    return value


def _effort_of_share(share: float) -> Effort:
    if share >= (0.8 + 0.5) / 2:
        return Effort.HIGH
    return Effort.MEDIUM if share >= (0.5 + 0.2) / 2 else Effort.LOW
