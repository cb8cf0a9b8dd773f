import math
from typing import Any

import pytest

from adapters.base import (
    LEAST_LOGPROB,
    VOCAB_SIZE,
    GenerationChunk,
    GenerationRequest,
    TokenLogprobs,
)
from adapters.errors import EngineFault
from adapters.http.wire import ChunkCheck, ServerInfo, bounded_logprob


@pytest.mark.parametrize("value", [None, math.nan, -math.inf, 2 * LEAST_LOGPROB])
def test_a_logprob_that_is_none_is_the_least(value: float | None) -> None:
    assert bounded_logprob(value) == LEAST_LOGPROB


def test_a_logprob_stays_as_it_is() -> None:
    assert bounded_logprob(-1.5) == -1.5


@pytest.mark.parametrize(
    "properties", [(None, 10), ("m", None), ("m", "10"), ("m", 0), ("m", True), ("m", 1.5)]
)
def test_properties_of_other_types_are_refused(properties: tuple[Any, Any]) -> None:
    with pytest.raises(ValueError, match="wrong type"):
        ServerInfo(*properties, frozenset())


def test_a_count_of_no_requests_is_refused() -> None:
    with pytest.raises(ValueError, match="wrong type"):
        ServerInfo("m", 10, frozenset(), 0)


def test_a_server_may_compute_one_request_at_a_time() -> None:
    assert ServerInfo("m", 10, frozenset(), 1).max_requests == 1


def test_the_first_and_the_last_id_of_the_vocabulary_are_tokens() -> None:
    check = ChunkCheck(GenerationRequest("r", (1,), 4, frozenset()))
    chunk = GenerationChunk((0, VOCAB_SIZE - 1))
    assert check.checked(chunk) == chunk


@pytest.mark.parametrize("rival", [-1, VOCAB_SIZE, True])
def test_logprobs_of_no_tokens_are_a_fault(rival: int) -> None:
    check = ChunkCheck(GenerationRequest("r", (1,), 4, frozenset()))
    logprobs = (TokenLogprobs(5, -1.0, ((5, -1.0), (rival, -2.0))),)
    with pytest.raises(EngineFault, match="logprobs of no tokens"):
        check.checked(GenerationChunk((5,), logprobs))
