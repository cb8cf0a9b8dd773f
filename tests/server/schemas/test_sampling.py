"""The sampling fields of all APIs."""

import pytest
from pydantic import ValidationError

from server.schemas.sampling import SamplingFields


def test_of_many_biases_that_are_no_numbers_one_is_an_error() -> None:
    biases = {"1": 1, "2": 2.5} | dict.fromkeys(map(str, range(10, 1000)), "x")
    with pytest.raises(ValidationError) as refused:
        SamplingFields.model_validate({"logit_bias": biases})
    assert [error["loc"] for error in refused.value.errors()] == [("logit_bias", "10")]


def test_there_are_no_more_biases_than_an_engine_of_vllm_takes() -> None:
    biases = dict.fromkeys(map(str, range(1024)), 1)
    assert SamplingFields.model_validate({"logit_bias": biases}).logit_bias == biases
    with pytest.raises(ValidationError, match="at most 1024"):
        SamplingFields.model_validate({"logit_bias": biases | {"1024": 1}})


@pytest.mark.parametrize("value", ["1", True, None, [1], {}])
def test_a_bias_is_a_number(value: object) -> None:
    with pytest.raises(ValidationError):
        SamplingFields.model_validate({"logit_bias": {"1": 1, "2": value}})
