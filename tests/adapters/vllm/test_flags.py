"""Engine arguments as words; runs anywhere."""

import pytest

from adapters.vllm.flags import flags


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("true", ["--enforce-eager"]),
        ("True", ["--enforce-eager"]),
        ("false", ["--no-enforce-eager"]),
        ("2", ["--enforce-eager", "2"]),
        ('{"mode": 0}', ["--enforce-eager", '{"mode": 0}']),
    ],
)
def test_an_argument_is_a_switch_or_has_a_value(value: str, words: list[str]) -> None:
    assert flags({"enforce_eager": value}) == words


@pytest.mark.parametrize("value", ["4", "true"])
def test_a_field_of_an_argument_keeps_its_name_and_value(value: str) -> None:
    words = ["--speculative-config.num_tokens", value]
    assert flags({"speculative_config.num_tokens": value}) == words
