"""The way of sampled ids from vLLM's engine process to the generators that wait for them.

vLLM's own processor detokenizes and, for each step of each request, makes anew what its APIs tell
of the whole request; here ids are handed on as they come.
"""

from typing import Any

from vllm.v1.engine import EngineCoreOutput
from vllm.v1.engine.exceptions import EngineDeadError
from vllm.v1.engine.output_processor import OutputProcessor, OutputProcessorOutput
from vllm.v1.metrics.stats import IterationStats

from adapters.errors import BackendError, EngineFault
from adapters.inbox import Inbox


class OutputInbox(Inbox[Any]):
    """One request's outputs, and what ends it: an error, or vLLM's word that it was aborted."""

    async def take(self) -> list[EngineCoreOutput]:
        """All that has piled up, at least one. Raises what was put as an error."""
        items = await super().take()
        for item in items:
            if isinstance(item, BackendError | EngineDeadError):
                raise item
            if not isinstance(item, EngineCoreOutput):
                raise EngineFault(f"vLLM ended the request: {item}")
        return items


class TokenOutputs(OutputProcessor):  # type: ignore[misc]  # vLLM is installed elsewhere
    """Takes the place of AsyncLLM's output processor; the requests' queues are `OutputInbox`es."""

    @classmethod
    def instead_of(cls, other: OutputProcessor) -> "TokenOutputs":
        """For the same engine. No request is known to either yet."""
        return cls(
            None,
            log_stats=other.log_stats,
            tracing_enabled=other.tracing_enabled,
            admission_stats=other.admission_stats,
        )

    def process_outputs(
        self,
        engine_core_outputs: list[EngineCoreOutput],
        engine_core_timestamp: float | None = None,
        iteration_stats: IterationStats | None = None,
        weight_version: str | None = None,
    ) -> OutputProcessorOutput:
        """Hand each output to its request; keep the statistics where vLLM logs them."""
        for output in engine_core_outputs:
            state = self.request_states.get(output.request_id)
            if state is None:  # it was aborted
                continue
            self._update_stats_from_output(state, output, engine_core_timestamp, iteration_stats)
            state.is_prefilling = False
            if output.prefill_stats is not None:
                state.num_cached_tokens = output.prefill_stats.num_cached_tokens
            state.queue.put(output)
            if output.finish_reason is not None:
                self._finish_request(state)
                self._update_stats_from_finished(state, output.finish_reason, iteration_stats)
                if self.tracing_enabled:
                    self.do_tracing(output, state, iteration_stats)
        return OutputProcessorOutput(request_outputs=[], reqs_to_abort=[])
