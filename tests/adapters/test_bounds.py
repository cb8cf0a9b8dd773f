import pytest

from adapters.base import GenerationRequest, SamplingParams, SamplingPhase
from adapters.bounds import bounded, check_length
from adapters.errors import ContextTooLong


def ask(params: SamplingParams, *phases: SamplingPhase) -> GenerationRequest:
    return GenerationRequest("r", (1,), 1, frozenset(), params, phases)


def test_prompt_and_max_tokens_may_fill_the_context_but_not_exceed_it() -> None:
    request = ask(SamplingParams())
    check_length(request, 2)
    with pytest.raises(ContextTooLong):
        check_length(request, 1)


@pytest.mark.parametrize(
    ("top_k", "result"), [(0, 0), (1, 1), (999, 999), (1000, 0), (2**31, 0), (2**63, 0), (2**80, 0)]
)
def test_a_top_k_that_keeps_the_whole_vocabulary_is_off(top_k: int, result: int) -> None:
    assert bounded(ask(SamplingParams(top_k=top_k)), 1000).sampling.top_k == result


@pytest.mark.parametrize(
    ("temperature", "result"), [(0.0, 0.0), (5e-324, 0.0), (1e-30, 0.0), (1e-5, 1e-5), (2.0, 2.0)]
)
def test_a_temperature_that_logits_cannot_be_divided_by_is_greedy(
    temperature: float, result: float
) -> None:
    assert bounded(ask(SamplingParams(temperature)), 1000).sampling.temperature == result


def test_phases_are_bounded_too() -> None:
    phase = SamplingPhase(((1,),), frozenset(), SamplingParams(top_k=2**63))
    (after,) = bounded(ask(SamplingParams(), phase), 1000).phases
    assert after == SamplingPhase(((1,),), frozenset(), SamplingParams())


def test_a_request_within_bounds_is_left_as_it_is() -> None:
    phase = SamplingPhase(((1,),), frozenset(), SamplingParams(top_k=5))
    request = ask(SamplingParams(temperature=0), phase)
    assert bounded(request, 1000) is request
