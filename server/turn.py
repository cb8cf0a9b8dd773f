"""One sampling: render, generate, read.

`prepare` refuses all that can be refused before a token is sampled; `Turn.events` then samples.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace

from harmony.parser import Parser
from harmony.render import render

from adapters.base import Backend, BackendInfo, GenerationRequest, SamplingParams, SamplingPhase
from adapters.errors import BackendError, BackendFailed, Unsupported
from harmony.tokenizer import encode_with_control
from harmony.vocab import CALL, END, MESSAGE, RETURN, START, STOP_TOKENS
from server.completion import CompletionReader, TurnEvent
from server.errors import ContextLengthExceeded, from_backend
from server.plan import TurnPlan

FINAL_HEADERS = tuple(
    tuple(encode_with_control(header))
    for header in (
        "<|channel|>final<|message|>",
        "<|channel|>final <|constrain|>json<|message|>",
        "<|channel|>final json<|message|>",
    )
)
ASSISTANT = tuple(encode_with_control("<|start|>assistant"))


class Turn:
    """A prepared sampling. `events` may be iterated once."""

    def __init__(self, plan: TurnPlan, backend: Backend, request: GenerationRequest) -> None:
        self.request = request
        self._plan = plan
        self._backend = backend

    async def events(self) -> AsyncGenerator[list[TurnEvent], None]:
        """Sample; each list holds what one chunk of tokens completed.

        Closing the generator frees the engine's slot. Raises APIError.
        """
        parser = Parser(
            [tool.recipient for tool in self._plan.tools],
            prefix=(*ASSISTANT, *self._plan.prefill),
        )
        reader = CompletionReader(parser, len(self.request.prompt_token_ids), self._plan.stop)
        try:
            async with aclosing(self._backend.generate(self.request)) as chunks:
                async for chunk in chunks:
                    yield reader.push(chunk)
                    if reason := "stop" if reader.stopped else chunk.finish_reason:
                        yield reader.finish(reason)
                        return
            raise BackendFailed("the engine ended without a finish reason")
        except BackendError as error:
            raise from_backend(error) from error


async def prepare(plan: TurnPlan, backend: Backend, request_id: str) -> Turn:
    """Render the plan's prompt and fit it to the engine.

    Raises ContextLengthExceeded when the prompt leaves no room for a token, InvalidRequest when
    the engine lacks what the plan needs.
    """
    rendered = await asyncio.to_thread(render, plan.conversation)
    prompt = (*rendered, *plan.prefill)
    info = backend.info
    room = info.context_length - len(prompt)
    if room < 1:
        raise ContextLengthExceeded(
            f"This model's maximum context length is {info.context_length} tokens, "
            f"but the input has {len(prompt)}."
        )
    sampling, phases = _scope_to_final(plan)
    request = GenerationRequest(
        request_id=request_id,
        prompt_token_ids=prompt,
        max_tokens=room if plan.max_tokens is None else min(plan.max_tokens, room),
        stop_token_ids=STOP_TOKENS,
        sampling=sampling,
        phases=phases,
        seed=plan.seed,
        logprobs=plan.top_logprobs,
        grammar=plan.grammar,
        affinity=plan.affinity,
    )
    _refuse_unsupported(request, plan.sampling, info)
    return Turn(plan, backend, request)


def _scope_to_final(plan: TurnPlan) -> tuple[SamplingParams, tuple[SamplingPhase, ...]]:
    scoped = plan.sampling
    free = replace(
        scoped,
        presence_penalty=0.0,
        frequency_penalty=0.0,
        repetition_penalty=1.0,
        logit_bias={},
    )
    if scoped == free or MESSAGE in plan.prefill:
        return scoped, ()
    ends = frozenset({END, RETURN, CALL, START})
    return free, (SamplingPhase(begin=FINAL_HEADERS, end=ends, params=scoped),)


def _refuse_unsupported(
    request: GenerationRequest, sampling: SamplingParams, info: BackendInfo
) -> None:
    penalties = (sampling.presence_penalty, sampling.frequency_penalty)
    needs = {
        "grammar": request.grammar is not None,
        "logit_bias": bool(sampling.logit_bias),
        "penalties": any(penalties) or sampling.repetition_penalty != 1.0,
        "phases": bool(request.phases),
        "seed": request.seed is not None,
        "logprobs": request.logprobs is not None,
        "top_k": sampling.top_k > 0,
        "min_p": sampling.min_p > 0,
    }
    for feature, needed in needs.items():
        if needed and feature not in info.features:
            raise from_backend(Unsupported(feature, info.name))
