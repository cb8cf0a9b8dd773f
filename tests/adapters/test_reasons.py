from typing import Any

import pytest

from adapters.errors import BackendFailed, GenerationFailed
from adapters.reasons import finish_reason


@pytest.mark.parametrize("word", ["stop", "length"])
def test_words_of_the_interface_stay_as_they_are(word: str) -> None:
    assert finish_reason(word, "vLLM") == word


def test_a_generation_that_the_engine_gave_up_is_told_from_a_failed_engine() -> None:
    with pytest.raises(GenerationFailed, match="vLLM ended the generation: error"):
        finish_reason("error", "vLLM")


@pytest.mark.parametrize(
    ("word", "quoted"), [("abort", "abort"), ("my prompt", "unknown"), (["stop"], "unknown")]
)
def test_an_unknown_word_of_an_engine_is_not_quoted(word: Any, quoted: str) -> None:
    with pytest.raises(BackendFailed, match=f"vLLM ended the generation: {quoted}$"):
        finish_reason(word, "vLLM")
