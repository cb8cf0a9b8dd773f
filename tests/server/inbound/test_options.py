import re
from typing import Any

import pytest

from adapters.base import SamplingParams
from harmony.messages import Effort
from server.errors import InvalidRequest
from server.inbound.options import (
    MAX_STOP_LENGTH,
    Reasoning,
    SummariesWhen,
    derived_seed,
    effective_tier,
    read_effort,
    read_priority,
    read_reasoning,
    read_sampling,
    read_stop,
    read_summary,
    system_content,
    today,
)
from server.schemas.sampling import SamplingFields
from server.summaries.base import Detail


def sampling(**fields: Any) -> SamplingParams:
    return read_sampling(SamplingFields(**fields))


def test_the_defaults_are_those_of_the_model_card() -> None:
    assert sampling() == SamplingParams(temperature=1.0, top_p=1.0)


def test_every_sampling_field_is_read() -> None:
    read = sampling(
        temperature=0,
        top_p=0.5,
        top_k=3,
        min_p=0.1,
        presence_penalty=-2,
        frequency_penalty=2,
        repetition_penalty=1.5,
        logit_bias={"7": -100, "201087": 1.5},
    )
    assert read == SamplingParams(0.0, 0.5, 3, 0.1, -2.0, 2.0, 1.5, {7: -100.0, 201087: 1.5})


@pytest.mark.parametrize(
    ("priority", "tier", "read"),
    [
        (None, None, 0),
        (None, "auto", 0),
        (None, "priority", -1),
        (None, "flex", 1),
        (5, None, 5),
        (0, "priority", 0),
        (-1000, "flex", -1000),
        (1000, None, 1000),
    ],
)
def test_a_priority_overrides_that_of_the_tier(
    priority: int | None, tier: str | None, read: int
) -> None:
    assert read_priority(priority, tier) == read


@pytest.mark.parametrize(
    ("tier", "effective"),
    [(None, "default"), ("auto", "default"), ("scale", "default")]
    + [(tier, tier) for tier in ("default", "priority", "flex")],
)
def test_the_effective_tier(tier: str | None, effective: str) -> None:
    assert effective_tier(None, tier) == effective


def test_the_effective_tier_with_a_priority_is_default() -> None:
    assert effective_tier(0, "priority") == "default"


@pytest.mark.parametrize("priority", [-1001, 1001])
def test_a_priority_out_of_range_is_refused(priority: int) -> None:
    with pytest.raises(InvalidRequest) as refused:
        read_priority(priority)
    assert refused.value.param == "priority"


def test_a_top_k_of_minus_one_is_off() -> None:
    assert sampling(top_k=-1).top_k == 0


def test_a_top_p_of_zero_keeps_only_the_most_likely_token() -> None:
    assert 0 < sampling(top_p=0).top_p < 1e-6


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("temperature", -0.1),
        ("temperature", 2.1),
        ("temperature", float("nan")),
        ("top_p", -0.1),
        ("top_p", 1.1),
        ("top_k", -2),
        ("min_p", -0.1),
        ("min_p", 1.1),
        ("presence_penalty", -2.1),
        ("presence_penalty", 2.1),
        ("frequency_penalty", -2.1),
        ("frequency_penalty", 2.1),
        ("repetition_penalty", 0),
        ("repetition_penalty", 5e-324),
        ("repetition_penalty", 100.1),
        ("repetition_penalty", 1e308),
    ],
)
def test_a_number_out_of_range_is_refused(field: str, value: float) -> None:
    with pytest.raises(InvalidRequest) as refused:
        sampling(**{field: value})
    assert refused.value.param == field


@pytest.mark.parametrize("token", ["x", "-1", "201088", "1.0", "²", "", "1" * 5_000])
def test_a_bias_needs_a_token_id(token: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        sampling(logit_bias={token: 1})
    assert f"logit_bias.{token}".startswith((refused.value.param or "no").rstrip("…"))


@pytest.mark.parametrize("bias", [-101, 101])
def test_a_bias_out_of_range_is_refused(bias: int) -> None:
    with pytest.raises(InvalidRequest) as refused:
        sampling(logit_bias={"1": bias})
    assert refused.value.param == "logit_bias.1"


@pytest.mark.parametrize(
    ("value", "stops"),
    [(None, ()), ([], ()), ("a", ("a",)), (["a", "b", "a"], ("a", "b"))],
)
def test_stop_is_a_string_or_an_array(value: Any, stops: tuple[str, ...]) -> None:
    assert read_stop(value) == stops


@pytest.mark.parametrize(
    ("value", "param"),
    [
        ("", "stop"),
        (["a", ""], "stop.1"),
        ([1], "stop.0"),
        (1, "stop"),
        (["a", "b", "c", "d", "e"], "stop"),
    ],
)
def test_an_error_names_the_bad_stop_string(value: Any, param: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        read_stop(value)
    assert refused.value.param == param


@pytest.mark.parametrize(
    ("value", "effort"),
    [
        (None, Effort.MEDIUM),
        ("none", None),
        ("minimal", Effort.LOW),
        ("low", Effort.LOW),
        ("medium", Effort.MEDIUM),
        ("high", Effort.HIGH),
        ("xhigh", Effort.HIGH),
        ("max", Effort.HIGH),
    ],
)
def test_efforts_of_the_api_become_those_of_gpt_oss(value: Any, effort: Effort | None) -> None:
    assert read_effort(value, "reasoning_effort") is effort


@pytest.mark.parametrize("value", ["huge", 3, ["low"], ""])
def test_an_unknown_effort_is_refused(value: Any) -> None:
    with pytest.raises(InvalidRequest) as refused:
        read_effort(value, "reasoning.effort")
    assert refused.value.param == "reasoning.effort"


@pytest.mark.parametrize(
    ("value", "reasoning"),
    [
        (None, Reasoning()),
        ({}, Reasoning()),
        ({"enabled": True}, Reasoning(Effort.MEDIUM)),
        ({"enabled": False}, Reasoning(None)),
        ({"effort": "high"}, Reasoning(Effort.HIGH)),
        ({"effort": "none"}, Reasoning(None)),
        ({"exclude": True}, Reasoning(hidden=True)),
        ({"max_tokens": 0}, Reasoning(None)),
        ({"max_tokens": 660}, Reasoning(Effort.HIGH, 660)),
        ({"max_tokens": 640}, Reasoning(Effort.MEDIUM, 640)),
        ({"max_tokens": 360}, Reasoning(Effort.MEDIUM, 360)),
        ({"max_tokens": 340}, Reasoning(Effort.LOW, 340)),
        ({"max_tokens": 100, "effort": "high"}, Reasoning(Effort.HIGH, 100)),
        ({"max_tokens": 100, "effort": "none"}, Reasoning(None)),
        ({"max_tokens": 100, "enabled": False}, Reasoning(None)),
    ],
)
def test_openrouters_reasoning_object(value: Any, reasoning: Reasoning) -> None:
    assert read_reasoning(value, max_tokens=1000) == reasoning


def test_a_budget_without_max_tokens_is_compared_to_a_usual_length() -> None:
    assert read_reasoning({"max_tokens": 1000}).effort is Effort.LOW
    assert read_reasoning({"max_tokens": 16000}).effort is Effort.HIGH


def test_the_reasoning_object_overrides_other_fields() -> None:
    assert read_reasoning({"effort": "high"}, effort="low").effort is Effort.HIGH
    assert read_reasoning({}, effort="low").effort is Effort.LOW
    assert read_reasoning({"exclude": False}, include=False).hidden is False
    assert read_reasoning(None, include=False).hidden is True
    assert read_reasoning(None, include=True).hidden is False


@pytest.mark.parametrize(
    ("value", "param"),
    [
        ("high", "reasoning"),
        ({"enabled": 1}, "reasoning.enabled"),
        ({"exclude": "yes"}, "reasoning.exclude"),
        ({"max_tokens": -1}, "reasoning.max_tokens"),
        ({"max_tokens": True}, "reasoning.max_tokens"),
        ({"effort": "huge"}, "reasoning.effort"),
    ],
)
def test_an_error_names_the_bad_reasoning_field(value: Any, param: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        read_reasoning(value)
    assert refused.value.param == param


def test_an_error_names_the_bad_include_reasoning() -> None:
    with pytest.raises(InvalidRequest) as refused:
        read_reasoning(None, include="no")
    assert refused.value.param == "include_reasoning"


@pytest.mark.parametrize(
    ("value", "is_given", "when", "detail"),
    [
        ("concise", True, "requested", "concise"),
        ("detailed", True, "default", "detailed"),
        (None, False, "requested", None),
        (None, False, "default", "auto"),
        (None, True, "default", None),
        ("auto", True, "never", None),
    ],
)
def test_the_server_decides_which_answers_have_summaries(
    value: Any, is_given: bool, when: SummariesWhen, detail: Detail | None
) -> None:
    assert read_summary(value, when, Reasoning(), is_given=is_given) == detail


@pytest.mark.parametrize("reasoning", [Reasoning(None), Reasoning(hidden=True)])
def test_without_visible_reasoning_there_is_no_summary(reasoning: Reasoning) -> None:
    assert read_summary("auto", "requested", reasoning, is_given=True) is None


@pytest.mark.parametrize("value", ["", "long", True, ["auto"]])
@pytest.mark.parametrize("when", ["never", "requested"])
def test_an_unknown_kind_of_summary_is_refused(value: Any, when: SummariesWhen) -> None:
    with pytest.raises(InvalidRequest) as refused:
        read_summary(value, when, Reasoning(), is_given=True)
    assert refused.value.param == "reasoning.summary"


def test_without_reasoning_the_system_message_has_low_effort() -> None:
    assert system_content(None, "2026-01-02").effort is Effort.LOW
    assert system_content(Effort.HIGH, "2026-01-02").effort is Effort.HIGH
    assert system_content(None, "2026-01-02").start_date == "2026-01-02"


def test_today_is_a_date() -> None:
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", today())


@pytest.mark.parametrize("budget", [2**20, 2**32, 2**64 - 1])
def test_a_budget_is_at_most_what_grammars_can_count(budget: int) -> None:
    assert read_reasoning({"max_tokens": budget}).budget == 2**20


@pytest.mark.parametrize("top_k", [2**31, 2**63, 2**64 - 1])
def test_top_k_has_no_upper_limit(top_k: int) -> None:
    assert sampling(top_k=top_k).top_k == top_k


def test_the_length_of_a_stop_string_is_limited() -> None:
    assert read_stop("x" * MAX_STOP_LENGTH) == ("x" * MAX_STOP_LENGTH,)
    with pytest.raises(InvalidRequest) as refused:
        read_stop(["a", "x" * (MAX_STOP_LENGTH + 1)])
    assert refused.value.param == "stop.1"


def test_a_seed_after_the_highest_is_the_lowest() -> None:
    assert derived_seed(2**63 - 1, 1) == -(2**63)
