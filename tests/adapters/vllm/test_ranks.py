"""The choice among data-parallel engines; runs where vLLM is installed (`make test-vllm`)."""

from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("vllm", reason="vLLM is not installed")

from vllm.v1.engine.core_client import DPLBAsyncMPClient

from adapters.base import GenerationRequest
from adapters.vllm.ranks import rank_for

RANKS = 4


@pytest.fixture
def client() -> Any:
    """vLLM's client of several engines, without the engines."""
    client = object.__new__(DPLBAsyncMPClient)
    client.core_engines = [rank.to_bytes(2, "little") for rank in range(RANKS)]
    client.engine_inflight = Counter()
    client._finalizer = lambda: None
    return client


def ask(affinity: str | None, request_id: str = "r") -> GenerationRequest:
    return GenerationRequest(request_id, (1,), 1, frozenset(), affinity=affinity)


def test_the_turns_of_a_conversation_have_one_rank(client: Any) -> None:
    ranks = {rank_for(ask("a", str(turn)), client) for turn in range(8)}
    assert len(ranks) == 1
    assert ranks <= {*range(RANKS)}


def test_conversations_are_spread_over_the_ranks(client: Any) -> None:
    assert {rank_for(ask(str(number)), client) for number in range(64)} == {*range(RANKS)}


def test_a_rank_far_busier_than_the_others_loses_its_conversations(client: Any) -> None:
    rank = rank_for(ask("a"), client)
    assert rank is not None
    client.engine_inflight[client.core_engines[rank]] = 100
    assert rank_for(ask("a"), client) != rank


def test_requests_without_affinity_and_single_engines_are_left_to_vllm(client: Any) -> None:
    assert rank_for(ask(None), client) is None
    single: Any = SimpleNamespace()
    assert rank_for(ask("a"), single) is None
