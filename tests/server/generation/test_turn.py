import threading
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from adapters.base import GenerationChunk, GenerationRequest, SamplingParams
from adapters.errors import BackendError, BackendFailed, ContextTooLong, Overloaded
from adapters.phases import split_by_phase
from harmony.events import Repair
from harmony.messages import (
    Author,
    Channel,
    Conversation,
    DeveloperContent,
    Message,
    ResponseFormat,
    Role,
)
from harmony.render import render
from harmony.tokenizer import decode, encode_with_control
from harmony.vocab import CALL, END, RETURN, START, STOP_TOKENS
from server.errors import (
    APIError,
    ContextLengthExceeded,
    InvalidRequest,
    RateLimited,
    ServerFailed,
)
from server.generation.plan import Constraint, DeclaredTool, RawPlan, TurnPlan
from server.generation.repetition import EVERY, WINDOW
from server.generation.turn import LEAST_ROOM, prepare, prepare_raw
from server.generation.turn_events import MessageClosed, TextDelta, TurnEvent, TurnFinished, Usage

ANSWER = "<|channel|>final<|message|>One two three<|return|>"
FINAL = ("<|channel|>final<|message|>", "<|channel|>final <|constrain|>json<|message|>")
CONVERSATION = Conversation((Message(Author(Role.USER), "Hello"),))
PLAN = TurnPlan(CONVERSATION)
PROMPT = tuple(render(CONVERSATION))

StartEngine = Callable[..., Awaitable[Any]]


def plan_of(message: Message) -> TurnPlan:
    return TurnPlan(Conversation((message,)))


def ids(text: str) -> tuple[int, ...]:
    return tuple(encode_with_control(text))


async def sample(engine: Any, plan: TurnPlan = PLAN) -> list[TurnEvent]:
    turn = await prepare(plan, engine, "r")
    events: list[TurnEvent] = []
    async with aclosing(turn.chunks()) as chunks:
        async for chunk in chunks:
            events += turn.read(chunk)
            if turn.ended:
                break
    return events + turn.finish()


def text(events: list[TurnEvent]) -> str:
    return "".join(event.text for event in events if isinstance(event, TextDelta))


async def refusal(engine: Any, plan: TurnPlan) -> APIError:
    with pytest.raises(APIError) as raised:
        await prepare(plan, engine, "r")
    return raised.value


# Where the prompt is rendered


LONG = "word " * 1000
FORMAT = ResponseFormat("answer", {"type": "object"})
LONG_FORMAT = ResponseFormat("answer", {"type": "object", "description": LONG})


@pytest.mark.parametrize(
    ("plan", "at_once"),
    [
        (PLAN, True),
        (plan_of(Message(Author(Role.USER), LONG)), False),
        (plan_of(Message(Author(Role.TOOL, LONG), "")), False),
        (plan_of(Message(Author(Role.ASSISTANT), "", Channel.COMMENTARY, LONG)), False),
        (plan_of(Message(Author(Role.DEVELOPER), DeveloperContent("Be brief."))), True),
        (plan_of(Message(Author(Role.DEVELOPER), DeveloperContent(LONG))), False),
        (plan_of(Message(Author(Role.DEVELOPER), DeveloperContent("", (), (FORMAT,)))), True),
        (plan_of(Message(Author(Role.DEVELOPER), DeveloperContent("", (), (LONG_FORMAT,)))), False),
        (replace(PLAN, tools=(DeclaredTool("functions.f", "f"),)), False),
    ],
)
async def test_only_short_prompts_are_rendered_on_the_event_loop(
    start_engine: StartEngine, monkeypatch: pytest.MonkeyPatch, plan: TurnPlan, at_once: bool
) -> None:
    on: list[int] = []

    def rendered(_: Conversation, most: int) -> list[int]:
        on.append(threading.get_ident())
        return [START]

    monkeypatch.setattr("server.generation.turn.render", rendered)
    await prepare(plan, await start_engine(ANSWER), "r")
    assert (on == [threading.get_ident()]) is at_once


# What the engine is asked


async def test_the_engine_gets_the_rendered_prompt_and_the_plan(start_engine: StartEngine) -> None:
    sampling = SamplingParams(temperature=0.5, top_p=0.9, top_k=5, min_p=0.1)
    plan = TurnPlan(
        CONVERSATION,
        sampling=sampling,
        max_tokens=7,
        seed=3,
        top_logprobs=2,
        constraint=Constraint("start: /x/"),
        affinity="a",
        cache_salt="s",
        priority=-4,
    )
    request = (await prepare(plan, await start_engine(ANSWER), "resp_1")).request
    assert request.request_id == "resp_1"
    assert request.prompt_token_ids == PROMPT
    assert request.max_tokens == 7
    assert request.stop_token_ids == STOP_TOKENS
    assert (request.sampling, request.phases) == (sampling, ())
    assert (request.seed, request.logprobs) == (3, 2)
    assert (request.grammar, request.affinity) == ("start: /x/", "a")
    assert request.cache_salt == "s"
    assert request.priority == -4


async def test_a_prefill_follows_the_prompt_and_opens_the_message(
    start_engine: StartEngine,
) -> None:
    engine = await start_engine("Hi<|return|>")
    plan = replace(PLAN, constraint=Constraint(prefill=ids("<|channel|>final<|message|>")))
    events = await sample(engine, plan)
    assert engine.requests[0].prompt_token_ids == (*PROMPT, *plan.constraint.prefill)
    assert text(events) == "Hi"
    (closed,) = [event for event in events if isinstance(event, MessageClosed)]
    assert decode(closed.message.tokens or ()) == (
        "<|start|>assistant<|channel|>final<|message|>Hi<|return|>"
    )


@pytest.mark.parametrize("opened", FINAL)
async def test_a_message_that_the_prompt_opened_is_left_out_without_text(
    start_engine: StartEngine, opened: str
) -> None:
    engine = await start_engine(f"<|end|><|start|>assistant{ANSWER}")
    events = await sample(engine, replace(PLAN, constraint=Constraint(prefill=ids(opened))))
    (closed,) = [event for event in events if isinstance(event, MessageClosed)]
    assert closed.message.content == "One two three"


@pytest.mark.parametrize("limit", [None, 1000])
@pytest.mark.parametrize("room", [1, 5])
async def test_the_answer_may_fill_the_context_and_no_more(
    start_engine: StartEngine, limit: int | None, room: int
) -> None:
    engine = await start_engine(ANSWER)
    engine.changes["context_length"] = len(PROMPT) + room
    turn = await prepare(replace(PLAN, max_tokens=limit), engine, "r")
    assert turn.request.max_tokens == room


async def test_a_prompt_that_leaves_no_room_is_refused_by_its_field(
    start_engine: StartEngine,
) -> None:
    engine = await start_engine(ANSWER)
    engine.changes["context_length"] = len(PROMPT)
    error = await refusal(engine, replace(PLAN, prompt_param="messages"))
    assert isinstance(error, ContextLengthExceeded)
    assert (error.param, error.code) == ("messages", "context_length_exceeded")
    assert str(len(PROMPT)) in error.message
    assert engine.requests == []


async def test_a_truncated_prompt_leaves_room_for_the_answer_after_a_prefill(
    start_engine: StartEngine,
) -> None:
    engine = await start_engine(ANSWER)
    conversation = Conversation(CONVERSATION.messages * 20)
    plan = TurnPlan(conversation, constraint=Constraint(prefill=ids(FINAL[1])), truncate=True)
    whole = len(render(conversation))
    for context_length in range(whole // 2, whole):
        engine.changes["context_length"] = context_length
        request = (await prepare(plan, engine, "r")).request
        assert request.max_tokens >= context_length // LEAST_ROOM


async def test_a_prompt_is_truncated_only_where_the_answer_needs_the_room(
    start_engine: StartEngine,
) -> None:
    engine = await start_engine(ANSWER)
    conversation = Conversation(CONVERSATION.messages * 20)
    whole = tuple(render(conversation))
    engine.changes["context_length"] = len(whole) + 5
    plan = TurnPlan(conversation, max_tokens=5, truncate=True)
    assert (await prepare(plan, engine, "r")).request.prompt_token_ids == whole
    longer = (await prepare(replace(plan, max_tokens=6), engine, "r")).request
    assert (len(longer.prompt_token_ids) < len(whole), longer.max_tokens) == (True, 6)


@pytest.mark.parametrize(
    ("plan", "feature", "param"),
    [
        (replace(PLAN, seed=1), "seed", "seed"),
        (replace(PLAN, top_logprobs=0), "logprobs", "top_logprobs"),
        (replace(PLAN, top_logprobs=0, logprobs_param="include"), "logprobs", "include"),
        (replace(PLAN, constraint=Constraint("start: /x/")), "grammar", "grammar"),
        (replace(PLAN, sampling=SamplingParams(top_k=1)), "top_k", "top_k"),
        (replace(PLAN, sampling=SamplingParams(min_p=0.1)), "min_p", "min_p"),
        (replace(PLAN, sampling=SamplingParams(logit_bias={1: 1})), "logit_bias", "logit_bias"),
        (replace(PLAN, sampling=SamplingParams(logit_bias={1: 1})), "phases", "logit_bias"),
        *(
            (replace(PLAN, sampling=sampling), feature, name)
            for name, sampling in (
                ("presence_penalty", SamplingParams(presence_penalty=1.5)),
                ("frequency_penalty", SamplingParams(frequency_penalty=1.5)),
                ("repetition_penalty", SamplingParams(repetition_penalty=1.5)),
            )
            for feature in ("penalties", "phases")
        ),
    ],
)
async def test_what_the_engine_lacks_is_refused_by_the_options_name(
    start_engine: StartEngine, plan: TurnPlan, feature: str, param: str
) -> None:
    engine = await start_engine(ANSWER)
    await prepare(plan, engine, "r")
    engine.changes["features"] = engine.info.features - {feature}
    error = await refusal(engine, plan)
    assert isinstance(error, InvalidRequest)
    assert (error.param, error.code) == (param, "unsupported_parameter")
    assert param in error.message


@pytest.mark.parametrize("affinity", [None, "a"])
async def test_a_raw_prompt_is_no_conversation_whatever_it_holds(
    start_engine: StartEngine, affinity: str | None
) -> None:
    engine = await start_engine(ANSWER)
    assert (await prepare(PLAN, engine, "r")).request.affinity is not None
    turn = await prepare_raw(RawPlan(PROMPT, affinity=affinity), engine, "r")
    assert turn.request.affinity == affinity


async def test_an_engine_without_features_serves_a_plain_plan(start_engine: StartEngine) -> None:
    engine = await start_engine(ANSWER)
    engine.changes["features"] = frozenset()
    assert text(await sample(engine)) == "One two three"


# Penalties and bias hold in the answer alone


SCOPED = SamplingParams(
    temperature=0.5,
    presence_penalty=1.0,
    frequency_penalty=0.5,
    repetition_penalty=1.1,
    logit_bias={5: -100.0},
)


async def test_penalties_and_bias_wait_for_the_final_channel(start_engine: StartEngine) -> None:
    plan = replace(PLAN, sampling=SCOPED)
    request = (await prepare(plan, await start_engine(ANSWER), "r")).request
    assert request.sampling == SamplingParams(temperature=0.5)
    (phase,) = request.phases
    assert phase.params == SCOPED
    assert phase.end == {END, RETURN, CALL, START}
    assert {ids(header) for header in FINAL} <= set(phase.begin)


@pytest.mark.parametrize("header", FINAL)
async def test_they_hold_at_once_where_the_prompt_opens_the_answer(
    start_engine: StartEngine, header: str
) -> None:
    plan = replace(PLAN, sampling=SCOPED, constraint=Constraint(prefill=ids(header)))
    request = (await prepare(plan, await start_engine(ANSWER), "r")).request
    assert (request.sampling, request.phases) == (SCOPED, ())


async def test_they_wait_where_the_prompt_opens_a_call(start_engine: StartEngine) -> None:
    header = "<|channel|>commentary to=functions.f <|constrain|>json<|message|>"
    plan = replace(PLAN, sampling=SCOPED, constraint=Constraint(prefill=ids(header)))
    request = (await prepare(plan, await start_engine(ANSWER), "r")).request
    assert request.sampling == SamplingParams(temperature=0.5)
    assert {ids(header) for header in FINAL} <= set(request.phases[0].begin)


async def test_where_text_may_hold_structural_tokens_the_answer_has_a_grammar_of_its_own(
    start_engine: StartEngine,
) -> None:
    plan = replace(PLAN, constraint=Constraint("start: /x/ /y/", "start: /y/"))
    engine = await start_engine(ANSWER)
    assert (await prepare(plan, engine, "r")).request.phases == ()
    engine.changes["features"] = engine.info.features - {"structure"}
    request = (await prepare(plan, engine, "r")).request
    (phase,) = request.phases
    assert request.grammar == "start: /x/ /y/"
    assert phase.grammar == "start: /y/"
    assert phase.params == request.sampling


async def test_they_begin_where_a_header_ends_that_the_prompt_began(
    start_engine: StartEngine,
) -> None:
    plan = replace(PLAN, sampling=SCOPED, constraint=Constraint(prefill=ids("<|channel|>")))
    request = (await prepare(plan, await start_engine(ANSWER), "r")).request
    assert ids("final<|message|>") in request.phases[0].begin
    assert () not in request.phases[0].begin


# Reading


async def test_a_turn_ends_with_its_usage(start_engine: StartEngine) -> None:
    events = await sample(await start_engine(ANSWER))
    assert text(events) == "One two three"
    assert isinstance(events[-1], TurnFinished)
    assert events[-1].reason == "stop"
    assert (events[-1].usage.input, events[-1].usage.output) == (len(PROMPT), len(ids(ANSWER)))


async def test_the_token_budget_ends_a_turn(start_engine: StartEngine) -> None:
    events = await sample(await start_engine(ANSWER), replace(PLAN, max_tokens=4))
    assert text(events) == "One"
    assert isinstance(events[-1], TurnFinished)
    assert events[-1].reason == "length"


async def test_a_stop_string_ends_the_generation(start_engine: StartEngine) -> None:
    engine = await start_engine(ANSWER)
    events = await sample(engine, replace(PLAN, stop=("two",)))
    assert text(events) == "One "
    assert isinstance(events[-1], TurnFinished)
    assert events[-1].usage.output < len(ids(ANSWER)) - 1


async def test_calls_are_read_by_the_declared_names(start_engine: StartEngine) -> None:
    engine = await start_engine("<|channel|>commentary to=functions.fjson<|message|>{}<|call|>")
    plan = replace(PLAN, tools=(DeclaredTool("functions.f", "f"),))
    (closed,) = [e for e in await sample(engine, plan) if isinstance(e, MessageClosed)]
    assert closed.message.recipient == "functions.f"


async def test_leaving_a_turn_closes_the_generation(start_engine: StartEngine) -> None:
    engine = await start_engine({"completion": ANSWER, "tokens_per_chunk": 4})
    chunks = (await prepare(PLAN, engine, "r")).chunks()
    await anext(chunks)
    assert engine.open == 1
    await chunks.aclose()
    assert engine.open == 0


@pytest.mark.parametrize(
    ("broken", "expected"),
    [
        (BackendFailed("out of memory"), ServerFailed),
        (Overloaded("full", 2), RateLimited),
        (ContextTooLong(9, 8), ContextLengthExceeded),
    ],
)
async def test_an_error_of_the_engine_is_sent_to_the_client(
    start_engine: StartEngine, broken: BackendError, expected: type[APIError]
) -> None:
    error = (await prepare(PLAN, await start_engine(ANSWER), "r")).api_error(broken)
    assert type(error) is expected
    assert str(broken) in error.message
    assert error.param == ("input" if expected is ContextLengthExceeded else None)


ANALYSIS = "<|channel|>analysis<|message|>"
LOOPING = ANALYSIS + " again" * 1_000
AFTER_LOOP = " again<|end|><|start|>assistant"
WORDS = WINDOW + EVERY - len(ids(ANALYSIS))
"""So many are sampled before the look that finds nothing else."""
NEXT_MESSAGE = (END, *ids("<|start|>assistant"))


def loops(
    *, after: str = ANSWER, first: str = LOOPING, tokens_per_chunk: int = 1
) -> list[dict[str, Any]]:
    """The script of a model that answers only once its reasoning was closed."""
    return [
        {"prompt_contains": AFTER_LOOP, "completion": after},
        {"completion": first, "tokens_per_chunk": tokens_per_chunk},
    ]


async def guarded(
    engine: Any, plan: TurnPlan = PLAN, reported: list[str] | None = None
) -> list[TurnEvent]:
    reported = [] if reported is None else reported
    turn = await prepare(plan, engine, "r", reported.append)
    events: list[TurnEvent] = []
    while not turn.ended:
        async with aclosing(turn.chunks()) as chunks:
            async for chunk in chunks:
                events += turn.read(chunk)
                if turn.resumes or turn.ended:
                    break
    assert engine.open == 0
    return events + turn.finish()


def closed(events: list[TurnEvent]) -> list[MessageClosed]:
    return [event for event in events if isinstance(event, MessageClosed)]


@pytest.mark.parametrize("tokens_per_chunk", [1, 7, 64, 5_000])
async def test_reasoning_that_loops_is_closed_and_the_answer_follows(
    start_engine: StartEngine, tokens_per_chunk: int
) -> None:
    engine = await start_engine(*loops(tokens_per_chunk=tokens_per_chunk))
    reported: list[str] = []
    events = await guarded(engine, reported=reported)
    reasoning, answer = closed(events)
    assert reasoning.repairs == (Repair.REPETITION,)
    assert (reasoning.complete, reasoning.message.tokens) == (True, None)
    assert reasoning.message.content == " again" * WORDS
    assert (answer.message.content, answer.repairs) == ("One two three", ())
    assert reported == ["analysis"]
    finished = events[-1]
    assert isinstance(finished, TurnFinished)
    assert finished.reason == "stop"
    # What the server put in was not sampled; it is of the tokens that followed the prompt.
    sampled = (*ids(ANALYSIS), *ids(" again") * WORDS)
    assert finished.token_ids == (*sampled, *NEXT_MESSAGE, *ids(ANSWER))
    assert finished.usage == Usage(
        len(PROMPT), 0, len(sampled) + len(ids(ANSWER)), reasoning=len(ids(" again") * WORDS)
    )


async def test_the_next_sampling_goes_on_from_all_there_is(start_engine: StartEngine) -> None:
    engine = await start_engine(*loops())
    plan = replace(
        PLAN,
        max_tokens=2_000,
        seed=2**63 - 1,
        priority=3,
        sampling=SamplingParams(temperature=0.5, presence_penalty=1.0),
    )
    await guarded(engine, plan)
    first, second = engine.requests
    sampled = (*ids(ANALYSIS), *ids(" again") * WORDS)
    assert second.prompt_token_ids == (*PROMPT, *sampled, *NEXT_MESSAGE)
    assert second.max_tokens == first.max_tokens - len(sampled)
    assert second.seed == len(sampled) + len(NEXT_MESSAGE) - 1
    assert second.request_id != first.request_id
    for field in ("sampling", "phases", "stop_token_ids", "affinity", "priority", "logprobs"):
        assert getattr(first, field) == getattr(second, field)


async def test_the_next_sampling_has_a_grammar_without_reasoning(
    start_engine: StartEngine,
) -> None:
    engine = await start_engine(*loops())
    await guarded(engine, replace(PLAN, constraint=Constraint("whole", None, "rest")))
    assert [request.grammar for request in engine.requests] == ["whole", "rest"]


async def test_reasoning_stays_open_where_no_grammar_goes_on_from_it(
    start_engine: StartEngine,
) -> None:
    engine = await start_engine(*loops())
    (reasoning,) = closed(await guarded(engine, replace(PLAN, constraint=Constraint("whole"))))
    assert not reasoning.complete
    assert len(engine.requests) == 1


async def test_the_token_limit_holds_for_all_samplings_together(
    start_engine: StartEngine,
) -> None:
    engine = await start_engine(*loops())
    events = await guarded(engine, replace(PLAN, max_tokens=len(ids(ANALYSIS)) + WORDS + 4))
    finished = events[-1]
    assert isinstance(finished, TurnFinished)
    assert (finished.reason, finished.usage.output) == ("length", len(ids(ANALYSIS)) + WORDS + 4)
    assert closed(events)[-1].message.content == "One"


@pytest.mark.parametrize("room", [0, 3])
async def test_reasoning_that_nothing_can_follow_stays_open(
    start_engine: StartEngine, room: int
) -> None:
    """Neither where the token limit is reached, nor where the context is full."""
    engine = await start_engine(*loops())
    tokens = len(ids(ANALYSIS)) + WORDS
    if room:
        engine.changes["context_length"] = len(PROMPT) + tokens + room
    plan = replace(PLAN, max_tokens=None if room else tokens)
    (reasoning,) = closed(await guarded(engine, plan))
    assert (reasoning.complete, reasoning.repairs) == (False, ())
    assert len(engine.requests) == 1


async def test_logprobs_stay_with_their_tokens_across_samplings(
    start_engine: StartEngine,
) -> None:
    engine = await start_engine(*loops())
    events = await guarded(engine, replace(PLAN, top_logprobs=1))
    answer = [event for event in events if isinstance(event, TextDelta) and event.index == 1]
    found = [entry.token_id for event in answer for entry in event.logprobs]
    assert found == [*ids("One two three")]


async def test_stop_strings_and_calls_work_in_the_next_sampling(
    start_engine: StartEngine,
) -> None:
    engine = await start_engine(*loops())
    answer = closed(await guarded(engine, replace(PLAN, stop=(" three",))))[-1]
    assert answer.message.content == "One two"


async def test_reasoning_that_loops_again_is_closed_again(start_engine: StartEngine) -> None:
    after = [
        {"prompt_contains": " twice<|end|><|start|>assistant", "completion": ANSWER},
        *loops(after=ANALYSIS + " twice" * 1_000),
    ]
    engine = await start_engine(*after)
    reported: list[str] = []
    first, second, answer = closed(await guarded(engine, reported=reported))
    assert {first.repairs, second.repairs} == {(Repair.REPETITION,)}
    assert answer.message.content == "One two three"
    assert reported == ["analysis", "analysis"]
    ends = [request.prompt_token_ids for request in engine.requests]
    assert all(later[: len(earlier)] == earlier for earlier, later in pairwise(ends))
    limits = {len(r.prompt_token_ids) + r.max_tokens for r in engine.requests}
    assert limits == {131_072}  # the context's length, exactly


async def test_what_the_server_inserts_does_not_count_against_the_token_limit(
    start_engine: StartEngine,
) -> None:
    after = [
        {"prompt_contains": " twice<|end|><|start|>assistant", "completion": LOOPING},
        *loops(after=ANALYSIS + " twice" * 1_000),
    ]
    engine = await start_engine(*after)
    finished = (await guarded(engine, replace(PLAN, max_tokens=1_300)))[-1]
    assert isinstance(finished, TurnFinished)
    assert len(engine.requests) == 3
    assert (finished.reason, finished.usage.output) == ("length", 1_300)


async def test_the_cached_tokens_are_those_of_the_first_sampling(start_engine: StartEngine) -> None:
    engine = await start_engine(*loops())
    generate = engine.generate

    async def generate_cached(request: GenerationRequest) -> AsyncGenerator[GenerationChunk, None]:
        cached: int | None = len(request.prompt_token_ids) - 1
        async with aclosing(generate(request)) as chunks:
            async for chunk in chunks:
                yield replace(chunk, cached_tokens=cached)
                cached = None

    engine.generate = generate_cached
    finished = (await guarded(engine))[-1]
    assert isinstance(finished, TurnFinished)
    assert len(engine.requests) == 2
    assert finished.usage.cached == len(PROMPT) - 1


@pytest.mark.parametrize(
    ("first", "place"),
    [
        ("<|channel|>final<|message|>" + "0," * 3_000 + "<|return|>", "final"),
        ('<|channel|>commentary to=functions.f<|message|>{"a":"' + "0" * 9_000, "call"),
        ("<|channel|>commentary<|message|>" + " again" * 3_000, "commentary"),
        (" again" * 3_000, "header"),
    ],
)
async def test_loops_elsewhere_are_reported_and_not_cut(
    start_engine: StartEngine, first: str, place: str
) -> None:
    engine = await start_engine({"completion": first, "tokens_per_chunk": 50})
    reported: list[str] = []
    events = await guarded(engine, reported=reported)
    assert reported == [place]
    assert len(engine.requests) == 1
    finished = events[-1]
    assert isinstance(finished, TurnFinished)
    assert finished.token_ids == ids(first)


async def test_a_split_engine_closes_loops_too(start_engine: StartEngine) -> None:
    """Where an engine knows no phases, the answer's own sampling is one more request."""
    engine = await start_engine(
        {"prompt_contains": "<|channel|>final<|message|>", "completion": "One two three<|return|>"},
        *loops(),
    )
    whole = engine.generate
    engine.generate = lambda request: split_by_phase(whole, request, "split")
    plan = replace(PLAN, sampling=SamplingParams(presence_penalty=1.0))
    events = await guarded(engine, plan)
    assert [event.message.content for event in closed(events)] == [
        " again" * WORDS,
        "One two three",
    ]
    penalties = [request.sampling.presence_penalty for request in engine.requests]
    assert penalties == [0.0, 0.0, 1.0]
    finished = events[-1]
    assert isinstance(finished, TurnFinished)
    assert finished.token_ids[-len(ids(ANSWER)) :] == ids(ANSWER)
