"""Chooses among the data-parallel engines of vLLM: a conversation returns to its KV cache."""

from dataclasses import dataclass

from vllm.v1.engine.core_client import DPLBAsyncMPClient, EngineCoreClient

from adapters.base import GenerationRequest
from adapters.pool import choose


@dataclass(frozen=True, slots=True)
class Rank:
    """An engine of vLLM. load: the number of its requests that are not finished."""

    index: int
    load: int

    @property
    def name(self) -> str:
        return str(self.index)


def rank_for(request: GenerationRequest, client: EngineCoreClient) -> int | None:
    """The `data_parallel_rank` of the request; None leaves the choice to vLLM.

    vLLM itself sends each request to the least busy engine, whatever is in its cache.
    """
    if request.affinity is None or not isinstance(client, DPLBAsyncMPClient):
        return None
    loads = map(client.engine_inflight.__getitem__, client.core_engines)
    return choose([Rank(*each) for each in enumerate(loads)], request).index
