"""One turn: render the prompt, sample, read the tokens.

`prepare` raises all errors that can be found before sampling. A turn is one sampling, unless its
reasoning loops: then the server ends that sampling, inserts tokens after the sampled ones, and
starts another sampling from there.

An answer has one turn, and one more after each hosted call (`server.generation.loop`).
"""

from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from adapters.base import (
    Backend,
    BackendInfo,
    FinishReason,
    GenerationChunk,
    GenerationRequest,
    SamplingParams,
    SamplingPhase,
)
from adapters.errors import BackendError, ContextTooLong, Unsupported
from harmony.events import Repair
from harmony.grammar import final_headers
from harmony.messages import DeveloperContent
from harmony.parser import ASSISTANT, NEXT_MESSAGE, Parser
from harmony.render import length, render
from harmony.vocab import CALL, END, MESSAGE, RETURN, START, STOP_TOKENS
from server import threads
from server.errors import APIError, from_backend
from server.generation.affinity import conversation_key
from server.generation.plan import RawPlan, SamplingPlan, TurnPlan
from server.generation.raw_text import RawText
from server.generation.repetition import RepetitionGuard
from server.generation.truncation import render_within
from server.generation.turn_events import (
    MessageClosed,
    TokenParser,
    TurnEvent,
    TurnFinished,
    TurnReader,
    Usage,
)

LEAST_ROOM = 8
"""A truncated prompt leaves at least one part of the context in `LEAST_ROOM` for the answer."""

_AFTER_FINAL = frozenset({END, RETURN, CALL, START})
_ENDS = STOP_TOKENS | {END}


class Turn:
    """A prepared turn: the engine's request, and the events of its chunks.

    plan: what the turn was prepared from. request: that of the current sampling. ended: the reason,
    once `read` has seen the last chunk; None before. resumes: whether another sampling follows; the
    rest of the current one must be dropped, and `chunks` called again.
    guard: closes reasoning that loops; None disables that.
    """

    def __init__(
        self,
        plan: SamplingPlan,
        parser: TokenParser,
        backend: Backend,
        request: GenerationRequest,
        guard: RepetitionGuard | None = None,
    ) -> None:
        self.request = request
        self.ended: FinishReason | None = None
        self.resumes = False
        self.plan = plan
        self._backend = backend
        self._guard = guard
        self._first = request
        opened = plan.constraint.prefill[-1:] == (MESSAGE,)
        prompt_tokens = len(request.prompt_token_ids)
        self._reader = TurnReader(parser, prompt_tokens, plan.stop, opened=opened)
        self._tokens: list[int] = []
        self._inserted = 0
        self._sampled_before = 0

    def chunks(self) -> AsyncGenerator[GenerationChunk, None]:
        """The chunks of one sampling; called again for the next one if the turn resumes.

        Closing the generator frees the engine's slot. Raises BackendError.
        """
        self.resumes = False
        self._sampled_before = self._reader.sampled
        return self._backend.generate(self.request)

    @property
    def sampled(self) -> int:
        """How many tokens of the current sampling were read."""
        return self._reader.sampled - self._sampled_before

    @property
    def usage(self) -> Usage:
        """The tokens of all samplings so far."""
        return self._reader.usage

    @property
    def repairs(self) -> Sequence[Repair]:
        """The repairs of the messages that have ended."""
        return self._reader.repairs

    @property
    def last(self) -> MessageClosed | None:
        """The last message, if it has ended."""
        return self._reader.last

    @property
    def history(self) -> tuple[int, ...]:
        """The prompt and the tokens after it, up to the end of the last message.

        The last message is a call, which ends with `<|call|>` here whatever ended it. What the
        model sampled after it is left out.
        """
        prompt = self._first.prompt_token_ids
        if not self._tokens:
            return prompt[: len(prompt) - len(ASSISTANT) - len(self.plan.constraint.prefill)]
        assert self.last is not None
        tokens = self._tokens[: self.last.stop]
        if tokens[-1] in _ENDS:
            tokens.pop()
        return (*prompt, *tokens, CALL)

    def room(self, count: int) -> int:
        """How many tokens the context has room for after `count` of them."""
        return self._backend.info.context_length - count

    def following(self, plan: TurnPlan, ids: tuple[int, ...], most: int | None) -> "Turn | None":
        """The answer's next turn; None if there is no room for a token.

        plan: that of the next turn. ids: the history that it continues, which ends with a message.
        most: the tokens that may still be sampled, None for no limit.
        """
        prompt = (*ids, *ASSISTANT, *plan.constraint.prefill)
        room = self.room(len(prompt))
        max_tokens = room if most is None else min(most, room)
        if max_tokens < 1:
            return None
        sampling, phases = _scoped(plan, self._backend.info)
        first = replace(self._first, prompt_token_ids=()).after(prompt, max_tokens=max_tokens)
        grammar = plan.constraint.grammar
        request = replace(first, grammar=grammar, sampling=sampling, phases=phases)
        guard = None if self._guard is None else self._guard.anew()
        return Turn(plan, _parser(plan), self._backend, request, guard)

    def read(self, chunk: GenerationChunk) -> list[TurnEvent]:
        """The events that the next chunk completes."""
        guard = self._guard
        if guard is None or len(self._tokens) + len(chunk.token_ids) < guard.look:
            return self._take(chunk)
        events: list[TurnEvent] = []
        rest: GenerationChunk | None = chunk
        while rest is not None and self.ended is None:
            piece, rest = rest.split(guard.look - len(self._tokens))
            events += self._take(piece)
            if len(self._tokens) == guard.look and guard.closes(self._tokens, self._reader.header):
                events += self._close_reasoning(guard)
                if self.resumes:
                    break
        return events

    def _take(self, chunk: GenerationChunk) -> list[TurnEvent]:
        self._tokens += chunk.token_ids
        if self._inserted and chunk.cached_tokens is not None:
            # Later samplings find the turn's own tokens in the cache, which are not its prompt.
            chunk = replace(chunk, cached_tokens=None)
        events = self._reader.push(chunk)
        self.ended = "stop" if self._reader.stopped else chunk.finish_reason
        return events

    def _close_reasoning(self, guard: RepetitionGuard) -> list[TurnEvent]:
        """End the open message and sample the next one, if there is room and the grammar permits.

        Otherwise change nothing.
        """
        first, grammar = self._first, self.plan.constraint.reasoned_grammar
        tokens = (*self._tokens, *NEXT_MESSAGE)
        room = self.room(len(first.prompt_token_ids) + len(tokens))
        max_tokens = min(first.max_tokens - len(self._tokens) + self._inserted, room)
        if self.ended or max_tokens < 1 or (first.grammar is not None and grammar is None):
            return []
        self.resumes = True
        self.request = replace(first.after(tokens, max_tokens=max_tokens), grammar=grammar)
        self._tokens += NEXT_MESSAGE
        self._inserted += len(NEXT_MESSAGE)
        guard.closed(len(self._tokens))
        return self._reader.insert(NEXT_MESSAGE, Repair.REPETITION)

    def finish(self) -> list[TurnEvent]:
        """The events that the turn's end completes; `TurnFinished` is the last."""
        assert self.ended is not None
        *others, finished = self._reader.finish(self.ended)
        assert isinstance(finished, TurnFinished)
        prompt_ids = self._first.prompt_token_ids
        whole = replace(finished, prompt_token_ids=prompt_ids, token_ids=tuple(self._tokens))
        return [*others, whole]

    def api_error(self, error: BackendError) -> APIError:
        """The client's error for an error of the engine."""
        plan = self.plan
        return from_backend(
            error,
            prompt_param=plan.prompt_param,
            own_grammar=plan.constraint.own_grammar,
            has_sampled=bool(self._tokens),
        )


@dataclass(frozen=True, slots=True)
class _Prompt:
    """A rendered prompt. key: its affinity."""

    ids: tuple[int, ...]
    key: str | None


class SharedPrompt:
    """The prompt of several turns, which is rendered for the first of them only.

    Their plans have the same conversation, prefill and limits.
    """

    def __init__(self) -> None:
        self._prompt: _Prompt | None = None

    async def of(self, plan: TurnPlan, context_length: int) -> _Prompt:
        """The prompt of the plan. The first call renders it, on a thread if it may be long."""

        def work() -> _Prompt:
            ids = _fitting_prompt(plan, context_length)
            return _Prompt(ids, plan.affinity or conversation_key(ids))

        if self._prompt is None:
            size = threads.size_of(_rendered(plan))
            if plan.tools:
                size = max(size, threads.Size.MEDIUM)
            self._prompt = await threads.run(work, size)
        return self._prompt


async def prepare(
    plan: TurnPlan,
    backend: Backend,
    request_id: str,
    report_loop: Callable[[str], None] | None = None,
    shared: SharedPrompt | None = None,
) -> Turn:
    """Render the plan's prompt and make the engine's request.

    report_loop: as in `RepetitionGuard`; None disables the guard. shared: the prompt, if other
    turns have it, too.
    Raises ContextLengthExceeded if the prompt leaves no room for a token, InvalidRequest if the
    engine lacks a feature that the plan needs.
    """
    sampling, phases = _scoped(plan, backend.info)
    rendered = await (shared or SharedPrompt()).of(plan, backend.info.context_length)
    request = _fit(plan, rendered.ids, backend.info, request_id, phases)
    stops = STOP_TOKENS if _ends_with_calls(plan) else STOP_TOKENS - {CALL}
    request = replace(request, sampling=sampling, stop_token_ids=stops, affinity=rendered.key)
    guard = None if report_loop is None else RepetitionGuard(report_loop)
    return Turn(plan, _parser(plan), backend, request, guard)


async def prepare_raw(plan: RawPlan, backend: Backend, request_id: str) -> Turn:
    """Make the engine's request from the plan's ids. Raises the errors of `prepare`."""
    request = _fit(plan, plan.prompt, backend.info, request_id)
    return Turn(plan, RawText(), backend, request)


def prompt(plan: TurnPlan) -> tuple[int, ...]:
    """The plan's prompt as token ids, whatever its length."""
    return (*render(plan.conversation), *plan.constraint.prefill)


def prompt_length(plan: TurnPlan, context_length: int) -> int:
    """The number of tokens in the prompt that `prepare` makes for an engine with that context.

    If it exceeds the context, so that `prepare` would refuse it, no turns are left out.
    """
    if plan.truncate and (fitting := len(_fitting_prompt(plan, context_length))) <= context_length:
        return fitting
    return length(plan.conversation) + len(plan.constraint.prefill)


def _parser(plan: TurnPlan) -> Parser:
    recipients = [tool.recipient for tool in plan.tools]
    return Parser(recipients, prefix=(*ASSISTANT, *plan.constraint.prefill))


def _ends_with_calls(plan: TurnPlan) -> bool:
    """Whether the first call ends the sampling; a hosted one has to, as its result comes next."""
    is_hosted = any(tool.kind == "hosted" for tool in plan.tools)
    return is_hosted or not plan.constraint.parallel_calls


def _rendered(plan: TurnPlan) -> list[Any]:
    """The values that the prompt contains, without the declarations of tools."""
    rendered: list[Any] = []
    for message in plan.conversation.messages:
        rendered += (message.author.name, message.recipient)
        match message.content:
            case str() as text:
                rendered.append(text)
            case DeveloperContent(instructions, _, formats):
                rendered.append(instructions)
                for form in formats:
                    rendered += (form.name, form.description, form.schema)
    return rendered


def _fitting_prompt(plan: TurnPlan, context_length: int) -> tuple[int, ...]:
    """The prompt's ids; if the plan truncates, without the oldest exchanges that do not fit.

    Rendering ends soon after the context is exceeded.
    """
    prefill = plan.constraint.prefill
    if not plan.truncate:
        return (*render(plan.conversation, context_length), *prefill)
    max_tokens = context_length if plan.max_tokens is None else plan.max_tokens
    limit = context_length - min(max_tokens, context_length // LEAST_ROOM) - len(prefill)
    return (*render_within(plan.conversation, limit, context_length), *prefill)


def _fit(
    plan: SamplingPlan,
    ids: tuple[int, ...],
    info: BackendInfo,
    request_id: str,
    phases: tuple[SamplingPhase, ...] = (),
) -> GenerationRequest:
    room = info.context_length - len(ids)
    try:
        _refuse_unsupported(plan, info, scoped=bool(phases))
        if room < 1:
            raise ContextTooLong(len(ids), info.context_length)
    except BackendError as error:
        raise from_backend(error, prompt_param=plan.prompt_param) from error
    return GenerationRequest(
        request_id=request_id,
        prompt_token_ids=ids,
        max_tokens=room if plan.max_tokens is None else min(plan.max_tokens, room),
        stop_token_ids=STOP_TOKENS,
        sampling=plan.sampling,
        phases=phases,
        seed=plan.seed,
        logprobs=plan.top_logprobs,
        grammar=plan.constraint.grammar,
        affinity=plan.affinity,
        cache_salt=plan.cache_salt,
        priority=plan.priority,
    )


def _scoped(plan: TurnPlan, info: BackendInfo) -> tuple[SamplingParams, tuple[SamplingPhase, ...]]:
    """The parameters for every token, and the phases in which the plan's own parameters apply."""
    answer_grammar = plan.constraint.answer_grammar
    leaky = answer_grammar is not None and "structure" not in info.features
    split = leaky and "phases" in info.features
    scoped = plan.sampling
    unscoped = replace(
        scoped,
        presence_penalty=0.0,
        frequency_penalty=0.0,
        repetition_penalty=1.0,
        logit_bias={},
    )
    prefill, headers = plan.constraint.prefill, final_headers()
    if (scoped == unscoped and not split) or any(
        prefill[-len(header) :] == header for header in headers
    ):
        return scoped, ()
    # The prefill may end inside a header: only the rest of that header is sampled.
    begin = tuple(
        header[prefilled:]
        for header in headers
        for prefilled in range(len(header))
        if prefill[len(prefill) - prefilled :] == header[:prefilled]
    )
    return unscoped, (SamplingPhase(begin, _AFTER_FINAL, scoped, answer_grammar),)


def _refuse_unsupported(plan: SamplingPlan, info: BackendInfo, *, scoped: bool) -> None:
    """Raises Unsupported with the name of an option that the engine does not support.

    scoped: penalties and logit bias apply to a phase only.
    """
    sampling = plan.sampling
    phases = {"phases"} if scoped else set()
    options: tuple[tuple[str, bool, set[str]], ...] = (
        ("logit_bias", bool(sampling.logit_bias), {"logit_bias", *phases}),
        ("presence_penalty", sampling.presence_penalty != 0, {"penalties", *phases}),
        ("frequency_penalty", sampling.frequency_penalty != 0, {"penalties", *phases}),
        ("repetition_penalty", sampling.repetition_penalty != 1, {"penalties", *phases}),
        ("top_k", sampling.top_k > 0, {"top_k"}),
        ("min_p", sampling.min_p > 0, {"min_p"}),
        ("seed", plan.seed is not None, {"seed"}),
        (plan.logprobs_param, plan.top_logprobs is not None, {"logprobs"}),
        ("grammar", plan.constraint.grammar is not None, {"grammar"}),
    )
    for option, used, features in options:
        if used and not features <= info.features:
            raise Unsupported(option, info.name)
