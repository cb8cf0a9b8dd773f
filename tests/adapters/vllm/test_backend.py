"""How the backend reads vLLM's outputs; runs where vLLM is installed (`make test-vllm`)."""

import pytest

pytest.importorskip("vllm", reason="vLLM is not installed")

from vllm.v1.engine import EngineCoreOutput, FinishReason

from adapters.base import GenerationChunk, GenerationRequest
from adapters.errors import GenerationFailed
from adapters.vllm.backend import _chunks

ASKED = GenerationRequest("r", (1,), 8, frozenset())


def test_outputs_that_come_at_once_are_one_chunk() -> None:
    outputs = [
        EngineCoreOutput("r", [5]),
        EngineCoreOutput("r", [6, 7], finish_reason=FinishReason.STOP),
    ]
    assert [*_chunks(outputs, ASKED)] == [GenerationChunk((5, 6, 7), finish_reason="stop")]


def test_the_tokens_of_a_generation_that_failed_come_before_its_error() -> None:
    chunks = _chunks([EngineCoreOutput("r", [5], finish_reason=FinishReason.ERROR)], ASKED)
    assert next(chunks) == GenerationChunk((5,))
    with pytest.raises(GenerationFailed):
        next(chunks)
