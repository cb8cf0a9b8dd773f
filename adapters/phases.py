"""Sampling phases: which one applies after each token, and the split of requests at them.

Engines whose parameters apply to a whole request get a new request where a phase begins or ends.
The sampled tokens are then part of its prompt. The prefix cache of the engine makes this cheap.
"""

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import replace

from adapters.base import GenerationChunk, GenerationRequest, SamplingPhase
from adapters.errors import Unsupported

Generate = Callable[[GenerationRequest], AsyncGenerator[GenerationChunk, None]]


class PhaseTracker:
    """Determines the active phase of a request from its sampled tokens.

    active: the index of the phase that applies to the next token, None for the request's own
    sampling parameters.
    """

    def __init__(self, phases: Sequence[SamplingPhase], *, phases_end: bool = True) -> None:
        """phases_end: whether the tokens of `SamplingPhase.end` end a phase."""
        self.active: int | None = None
        self._phases = phases
        self._phases_end = phases_end
        self._longest = max((len(begin) for phase in phases for begin in phase.begin), default=1)
        self._recent: tuple[int, ...] = ()

    def accept(self, token_id: int) -> int | None:
        """Add a sampled token. Returns `active`."""
        self._recent = (*self._recent, token_id)[-self._longest :]
        for index, phase in enumerate(self._phases):
            if any(self._recent[-len(begin) :] == begin for begin in phase.begin):
                self.active = index
                return index
        if self.active is not None and self._ends(self._phases[self.active], token_id):
            self.active = None
        return self.active

    def _ends(self, phase: SamplingPhase, token_id: int) -> bool:
        return self._phases_end and token_id in phase.end


def split_by_phase(
    generate: Generate, request: GenerationRequest, backend: str
) -> AsyncGenerator[GenerationChunk, None]:
    """Sample `request` with a `generate` that does not support phases.

    Differences from an engine that supports phases: the counts for penalties are reset whenever a
    phase begins, the repetition penalty treats tokens sampled before the phase as prompt, and with
    a grammar a phase lasts until the end of the generation. Raises Unsupported (with the name
    `backend`) for a grammar if a phase has no grammar of its own.
    """
    return _split(generate, request, backend) if request.phases else generate(request)


async def _split(
    generate: Generate, request: GenerationRequest, backend: str
) -> AsyncGenerator[GenerationChunk, None]:
    if request.grammar is not None and any(phase.grammar is None for phase in request.phases):
        raise Unsupported("a grammar together with sampling that changes on the way", backend)
    tracker = PhaseTracker(request.phases, phases_end=request.grammar is None)
    sampled: list[int] = []
    while True:
        active = tracker.active
        resumed = bool(sampled)
        async with aclosing(generate(_remaining(request, sampled, active))) as chunks:
            async for chunk in chunks:
                chunk = _up_to_change(chunk, tracker)
                if resumed:
                    chunk = replace(chunk, cached_tokens=None)
                sampled += chunk.token_ids
                yield chunk
                if chunk.finish_reason is not None:
                    return
                if tracker.active != active and _may_continue(request, sampled):
                    break
            else:
                return


def _up_to_change(chunk: GenerationChunk, tracker: PhaseTracker) -> GenerationChunk:
    """The chunk up to the first token that changes the active phase, or all of it."""
    active = tracker.active
    for position, token_id in enumerate(chunk.token_ids, start=1):
        if tracker.accept(token_id) != active:
            return chunk.split(position)[0]
    return chunk


def _may_continue(request: GenerationRequest, sampled: Sequence[int]) -> bool:
    return len(sampled) < request.max_tokens and sampled[-1] not in request.stop_token_ids


def _remaining(
    request: GenerationRequest, sampled: Sequence[int], active: int | None
) -> GenerationRequest:
    """The request that continues after `sampled`."""
    if not sampled:
        return replace(request, phases=())
    phase = None if active is None else request.phases[active]
    return replace(
        request.after(tuple(sampled), max_tokens=request.max_tokens - len(sampled)),
        sampling=request.sampling if phase is None else phase.params,
        phases=(),
        grammar=request.grammar if phase is None else phase.grammar,
    )
