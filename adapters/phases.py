"""Sampling phases for engines whose parameters hold for a whole request.

Where a phase begins or ends, the request is cancelled and sent again, with the sampled tokens as
part of its prompt. The prefix cache of the engine makes this cheap.
"""

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import replace

from adapters.base import GenerationChunk, GenerationRequest, SamplingPhase
from adapters.errors import Unsupported

Generate = Callable[[GenerationRequest], AsyncGenerator[GenerationChunk, None]]


async def split_by_phase(
    generate: Generate, request: GenerationRequest, backend: str
) -> AsyncGenerator[GenerationChunk, None]:
    """Sample `request`, whose phases `generate` need not know.

    Differences from an engine that knows phases: penalties count anew when a phase begins again,
    the repetition penalty counts all that was sampled before the phase as prompt, and under a
    grammar a phase holds to the generation's end. Raises Unsupported (naming `backend`) for a
    grammar where a phase does not say what grammar goes on from its beginning.
    """
    if request.grammar is not None and any(phase.grammar is None for phase in request.phases):
        raise Unsupported("a grammar together with sampling that changes on the way", backend)
    cutter = _Cutter(request)
    sampled: tuple[int, ...] = ()
    while True:
        resumed = bool(sampled)
        async with aclosing(generate(_rest(request, sampled, cutter.active))) as chunks:
            async for whole in chunks:
                chunk = cutter.cut(whole)
                if resumed:
                    chunk = replace(chunk, cached_tokens=None)
                sampled += chunk.token_ids
                yield chunk
                if chunk.finish_reason is not None:
                    return
                if cutter.changed and _goes_on(request, sampled):
                    break
            else:
                return


def _goes_on(request: GenerationRequest, sampled: tuple[int, ...]) -> bool:
    return len(sampled) < request.max_tokens and sampled[-1] not in request.stop_token_ids


def _rest(
    request: GenerationRequest, sampled: tuple[int, ...], active: SamplingPhase | None
) -> GenerationRequest:
    """What is left to sample after `sampled`."""
    if not sampled:
        return replace(request, phases=())
    return replace(
        request.after(sampled, max_tokens=request.max_tokens - len(sampled)),
        sampling=request.sampling if active is None else active.params,
        phases=(),
        grammar=request.grammar if active is None else active.grammar,
    )


class _Cutter:
    """Follows the sampled tokens through the phases.

    active: the phase that holds; changed: whether the last chunk ended where that changed.
    """

    def __init__(self, request: GenerationRequest) -> None:
        self.active: SamplingPhase | None = None
        self.changed = False
        self._phases = request.phases
        self._may_end = request.grammar is None
        self._longest = max(len(begin) for phase in request.phases for begin in phase.begin)
        self._recent: tuple[int, ...] = ()

    def cut(self, chunk: GenerationChunk) -> GenerationChunk:
        """The chunk up to the token after which other parameters hold, or all of it."""
        self.changed = False
        for position, token_id in enumerate(chunk.token_ids, start=1):
            before = self.active
            self.active = self._after(token_id)
            if self.active is not before:
                self.changed = True
                return chunk.split(position)[0]
        return chunk

    def _after(self, token_id: int) -> SamplingPhase | None:
        self._recent = (*self._recent, token_id)[-self._longest :]
        for phase in self._phases:
            if any(self._recent[-len(begin) :] == begin for begin in phase.begin):
                return phase
        if self._may_end and self.active is not None and token_id in self.active.end:
            return None
        return self.active
