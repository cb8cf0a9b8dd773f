"""Answers with hosted calls: turns, limits, and how calls end."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from adapters.base import GenerationChunk, GenerationRequest, SamplingParams
from harmony.events import MessageStarted
from harmony.grammar import (
    CallableTool,
    FreeText,
    GrammarSpec,
    answer_grammar,
    final_headers,
    turn_grammar,
)
from harmony.messages import Author, Channel, Message, Role
from harmony.parser import ASSISTANT
from harmony.render import render, render_message
from harmony.tokenizer import decode, encode_with_control
from server.errors import APIError, RateLimited
from server.generation import hosted_calls, recording
from server.generation.admission import Admission
from server.generation.answer_spec import AnswerSpec
from server.generation.gateway import Gateway
from server.generation.hosted_calls import ToolLimits
from server.generation.plan import Constraint, DeclaredTool, TurnPlan
from server.generation.runs import Run
from server.generation.turn_events import (
    CallEnded,
    CallStarted,
    TextDelta,
)
from server.ids import new_id
from server.tools import closing
from server.tools.base import AnsweredCall, ApprovalRequested, ToolCall, ToolEvent, ToolProgress
from tests.sampled import call, final
from tests.server.generation.recorder import Recorder
from tests.server.generation.test_metering import Observed
from tests.server.tools.hosted import PYTHON, SEARCH, Session, declared, plan, script
from tests.waiting import pass_time, until

QUESTION = Message(Author(Role.USER), "How much?")
THOUGHT = "<|channel|>analysis<|message|>Think.<|end|><|start|>assistant"

StartEngine = Callable[..., Awaitable[Any]]


def gateway(engine: Any, limits: ToolLimits | None = None, **options: Any) -> Gateway:
    return Gateway(engine, Admission(4, 4), tool_limits=limits or ToolLimits(), **options)


async def start(
    gate: Gateway, sessions: Sequence[Session], asked: TurnPlan | None = None, **options: Any
) -> tuple[Run, Recorder]:
    recorder = Recorder()
    run = await gate.start(
        AnswerSpec(asked or plan(QUESTION), recorder, new_id("r"), sessions=sessions, **options)
    )
    return run, recorder


async def play(
    gate: Gateway, *sessions: Session, asked: TurnPlan | None = None, **options: Any
) -> Recorder:
    """Make an answer to its end."""
    run, recorder = await start(gate, sessions, asked, **options)
    await run.wait()
    await asyncio.sleep(0)
    assert gate.admission.admitted == 0
    assert [session.closed for session in sessions] == [1] * len(sessions)
    assert [session.ended for session in sessions] == [len(each.calls) for each in sessions]
    return recorder


async def test_the_record_has_each_sampling_and_call(start_engine: StartEngine) -> None:
    engine = await start_engine(*script(THOUGHT + call("1"), final()))
    finished = (await play(gateway(engine), Session(), recorder=recording.Recorder())).finished
    assert finished.record is not None
    first, second = finished.record.samplings
    tokens = finished.token_ids
    assert decode(tokens[first.start : first.end]) == THOUGHT + call("1")
    assert decode(tokens[second.start : second.end]) == final()
    assert second.prompt_tokens == len(engine.requests[1].prompt_token_ids)
    (recorded,) = finished.record.calls
    assert recorded.recipient == "python"
    assert first.ended_ms <= recorded.started_ms <= recorded.ended_ms <= second.started_ms


@pytest.mark.parametrize("end", ["", "<|return|>"])
async def test_others_run_while_the_events_of_a_long_text_are_made(
    start_engine: StartEngine, end: str
) -> None:
    """A text without a header comes at once, with the logprobs of all its tokens."""
    engine = await start_engine({"completion": " word" * 5_000 + end, "tokens_per_chunk": 10_000})
    run, recorder = await start(gateway(engine), [])
    seen = set()
    while not run.done:
        seen.add(len(recorder.of(TextDelta)))
        await asyncio.sleep(0)
    assert len(recorder.of(TextDelta)) > 50
    assert len(seen) > 3


async def test_a_call_runs_and_its_result_begins_the_next_turn(
    start_engine: StartEngine, caplog: pytest.LogCaptureFixture
) -> None:
    engine = await start_engine(*script(THOUGHT + call("1"), final()))
    session = Session()
    recorder = await play(gateway(engine), session)
    assert [type(event).__name__ for event in recorder.events if type(event) is not TextDelta] == [
        "MessageStarted",
        "MessageClosed",
        "MessageStarted",
        "MessageClosed",
        "CallStarted",
        "CallEnded",
        "MessageStarted",
        "MessageClosed",
        "TurnFinished",
    ]
    assert [(each.recipient, each.channel, each.content) for each in session.calls] == [
        ("python", Channel.ANALYSIS, "1")
    ]
    assert recorder.text == "Done."
    assert caplog.records == []


async def test_only_the_first_wait_for_a_slot_is_reported(start_engine: StartEngine) -> None:
    observed = Observed()
    engine = await start_engine(*script(call("1"), final()))
    await play(gateway(engine, observer=observed), Session())
    assert len(observed.waits) == 1


async def test_the_next_prompt_is_the_tokens_so_far_and_the_result(
    start_engine: StartEngine,
) -> None:
    engine = await start_engine(*script(call("1"), call("2"), final()))
    recorder = await play(gateway(engine), Session())
    first, *later = [list(request.prompt_token_ids) for request in engine.requests]
    assert first == render(plan(QUESTION).conversation)
    for number, prompt in enumerate(later, start=1):
        first += encode_with_control(call(str(number)))
        result = Message(
            Author(Role.TOOL, "python"), f"RESULT {number}", Channel.ANALYSIS, "assistant"
        )
        first += [*render_message(result), *ASSISTANT]
        assert prompt == first
    finished = recorder.finished
    whole = [*finished.prompt_token_ids, *finished.token_ids]
    assert whole == first + encode_with_control(final())


async def test_a_result_repeats_the_channel_of_its_call(start_engine: StartEngine) -> None:
    made = "<|channel|>commentary to=python code<|message|>1<|call|>"
    engine = await start_engine(*script(made, final()))
    await play(gateway(engine), Session())
    prompt = decode(engine.requests[-1].prompt_token_ids)
    assert "<|start|>python to=assistant<|channel|>commentary<|message|>RESULT 1<|end|>" in prompt


async def test_usage_counts_the_prompt_of_each_turn(start_engine: StartEngine) -> None:
    engine = await start_engine(*script(THOUGHT + call("1"), THOUGHT + final()))
    usage = (await play(gateway(engine), Session())).finished.usage
    first, second = [len(request.prompt_token_ids) for request in engine.requests]
    assert (usage.input, usage.later_input) == (first + second, second)
    assert usage.reasoning == 2 * len(encode_with_control("Think."))
    sampled = encode_with_control(THOUGHT + call("1") + THOUGHT + final())
    assert usage.output == len(sampled)


async def test_the_seed_of_each_turn_differs(start_engine: StartEngine) -> None:
    engine = await start_engine(*script(call("1"), final()))
    await play(gateway(engine), Session(), asked=plan(QUESTION, seed=7))
    one, other = [request.seed for request in engine.requests]
    assert one == 7
    assert other not in (None, 7)


async def test_stop_strings_apply_after_a_call(start_engine: StartEngine) -> None:
    engine = await start_engine(*script(call("1"), final("One stop two")))
    recorder = await play(gateway(engine), Session(), asked=plan(QUESTION, stop=(" stop",)))
    assert recorder.text == "One"


async def test_reasoning_that_loops_is_closed_after_a_call(start_engine: StartEngine) -> None:
    loop = "<|channel|>analysis<|message|>" + " no" * 900
    lines = [{"prompt_contains": " no no no<|end|>", "completion": final()}]
    engine = await start_engine(*lines, *script(call("1"), loop))
    gate = gateway(engine)
    assert (await play(gate, Session())).text == "Done."
    assert gate.loops == {"analysis": 1}


async def test_calls_of_several_tools_run_in_one_answer(start_engine: StartEngine) -> None:
    engine = await start_engine(*script(call("1"), call("2", "browser.search"), final()))
    python, browser = Session(), Session(SEARCH)
    asked = plan(QUESTION, tools=declared(PYTHON, SEARCH))
    await play(gateway(engine), python, browser, asked=asked)
    assert [each.content for each in python.calls] == ["1"]
    assert [each.content for each in browser.calls] == ["2"]


async def test_a_function_of_the_client_ends_the_answer(start_engine: StartEngine) -> None:
    function = "<|channel|>commentary to=functions.f <|constrain|>json<|message|>{}<|call|>"
    engine = await start_engine(*script(call("1"), function))
    tools = (*declared(PYTHON), DeclaredTool("functions.f", "f"))
    recorder = await play(gateway(engine), Session(), asked=plan(QUESTION, tools=tools))
    assert [each.header.recipient for each in recorder.of(MessageStarted)] == [
        "python",
        "functions.f",
    ]
    assert recorder.finished.reason == "stop"


async def test_a_call_ends_the_sampling_although_calls_are_parallel(
    start_engine: StartEngine,
) -> None:
    engine = await start_engine(*script(call("1"), final()))
    asked = plan(QUESTION, constraint=Constraint(parallel_calls=True))
    assert (await play(gateway(engine), Session(), asked=asked)).text == "Done."


async def test_a_call_that_ends_with_another_stop_token_runs(start_engine: StartEngine) -> None:
    made = call("1").replace("<|call|>", "<|return|>")
    engine = await start_engine(*script(made, final()))
    await play(gateway(engine), Session())
    assert "code<|message|>1<|call|><|start|>python" in decode(engine.requests[-1].prompt_token_ids)


async def test_a_call_runs_whose_finish_reason_comes_in_a_chunk_of_its_own(
    start_engine: StartEngine,
) -> None:
    engine = await start_engine(*script(call("1"), final()))
    generate = engine.generate

    async def generate_with_reason_apart(request: GenerationRequest) -> Any:
        async with aclosing(generate(request)) as chunks:
            async for chunk in chunks:
                yield replace(chunk, finish_reason=None)
                if chunk.finish_reason is not None:
                    yield GenerationChunk((), finish_reason=chunk.finish_reason)

    engine.generate = generate_with_reason_apart
    session = Session()
    assert (await play(gateway(engine), session)).text == "Done."
    assert [each.content for each in session.calls] == ["1"]


async def test_a_call_before_another_message_does_not_run(start_engine: StartEngine) -> None:
    engine = await start_engine(
        call("1").replace("<|call|>", "<|end|><|start|>assistant") + final()
    )
    session = Session()
    assert (await play(gateway(engine), session)).text == "Done."
    assert session.calls == []


# Limits


@pytest.mark.parametrize("tokens", [6, 8])
async def test_a_call_that_the_token_limit_cuts_off_does_not_run(
    start_engine: StartEngine, tokens: int
) -> None:
    engine = await start_engine(call("1 + 2 + 3 + 4"))
    session = Session()
    recorder = await play(gateway(engine), session, asked=plan(QUESTION, max_tokens=tokens))
    assert recorder.finished.reason == "length"
    assert session.calls == []


async def test_the_token_limit_holds_for_the_whole_answer(start_engine: StartEngine) -> None:
    engine = await start_engine(*script(call("1"), final("a b c d e f")))
    sampled = len(encode_with_control(call("1")))
    recorder = await play(gateway(engine), Session(), asked=plan(QUESTION, max_tokens=sampled + 6))
    assert recorder.finished.reason == "length"
    assert [request.max_tokens for request in engine.requests] == [sampled + 6, 6]
    assert recorder.finished.usage.output == sampled + 6


async def test_a_call_whose_result_could_not_be_read_does_not_run(
    start_engine: StartEngine,
) -> None:
    engine = await start_engine(call("1"))
    sampled, session = len(encode_with_control(call("1"))), Session()
    recorder = await play(gateway(engine), session, asked=plan(QUESTION, max_tokens=sampled))
    assert recorder.finished.reason == "length"
    assert session.calls == []


async def test_a_result_that_is_too_long_is_cut_in_the_middle(start_engine: StartEngine) -> None:
    code = "1 " + "a b c d " * 400
    engine = await start_engine(*script(call(code), final()))
    engine.changes["context_length"] = 4000
    recorder = await play(gateway(engine), Session())
    (ended,) = recorder.of(CallEnded)
    assert ended.message.content.startswith("RESULT 1 a b c d")
    assert "Its middle is left out" in ended.message.content
    assert ended.message.content.endswith("a b c d ")
    assert recorder.text == "Done."
    used = len(engine.requests[-1].prompt_token_ids)
    assert used < 4000 - len(encode_with_control(final()))


async def test_a_context_that_is_full_ends_the_answer(start_engine: StartEngine) -> None:
    engine = await start_engine(*script(call("1"), final()))
    sampled = len(encode_with_control(call("1")))
    engine.changes["context_length"] = len(render(plan(QUESTION).conversation)) + sampled + 3
    recorder = await play(gateway(engine), Session())
    assert recorder.finished.reason == "length"


def refused(recorder: Recorder) -> list[bool]:
    return [not each.ran for each in recorder.of(CallEnded)]


@pytest.mark.parametrize(
    ("limits", "fields"),
    [(ToolLimits(rounds=1), {}), (ToolLimits(), {"max_tool_calls": 1})],
)
async def test_a_call_beyond_the_limit_is_refused_and_the_answer_follows(
    start_engine: StartEngine, limits: ToolLimits, fields: dict[str, Any]
) -> None:
    lines = [{"prompt_contains": "limit of 1 tool calls", "completion": "Nothing more.<|return|>"}]
    engine = await start_engine(*lines, *script(call("1"), call("2")))
    session = Session()
    recorder = await play(gateway(engine, limits), session, asked=plan(QUESTION, **fields))
    assert [each.content for each in session.calls] == ["1"]
    assert refused(recorder) == [False, True]
    assert recorder.text == "Nothing more."
    prompt = decode(engine.requests[-1].prompt_token_ids)
    assert prompt.endswith("<|start|>assistant<|channel|>final<|message|>")


async def test_an_answer_that_goes_on_calling_ends(start_engine: StartEngine) -> None:
    line = {
        "prompt_contains": "limit of 1 tool calls",
        "completion": "So.<|end|><|start|>assistant" + call("3"),
    }
    engine = await start_engine(line, *script(call("1"), call("2")))
    session = Session()
    recorder = await play(gateway(engine, ToolLimits(rounds=1)), session)
    assert len(session.calls) == 1
    assert len(engine.requests) == 3
    assert (recorder.text, recorder.finished.reason) == ("So.", "stop")


async def test_after_the_time_for_calls_none_runs(start_engine: StartEngine) -> None:
    lines = [{"prompt_contains": "time for tool calls", "completion": "Late.<|return|>"}]
    engine = await start_engine(*lines, call("1"))
    session = Session()
    recorder = await play(gateway(engine, ToolLimits(answer=0)), session)
    assert (session.calls, recorder.text) == ([], "Late.")


async def test_a_call_is_stopped_when_the_time_for_calls_ends(
    start_engine: StartEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = [{"prompt_contains": "was stopped: the time", "completion": final("Late.")}]
    engine = await start_engine(*lines, call("wait"))
    session = Session()
    limits = ToolLimits(timeouts={"python": 7200}, answer=3600)
    run, recorder = await start(gateway(engine, limits), [session])
    await session.running.wait()
    pass_time(monkeypatch, 3600)
    await run.wait()
    assert (session.ended, recorder.text) == (1, "Late.")


async def test_a_call_that_takes_too_long_is_stopped(
    start_engine: StartEngine, caplog: pytest.LogCaptureFixture
) -> None:
    lines = [{"prompt_contains": "more than 0.01 seconds", "completion": final("Late.")}]
    engine = await start_engine(*lines, call("wait"))
    limits = ToolLimits(timeouts={"python": 0.01}, grace=0.01)
    recorder = await play(gateway(engine, limits), Session())
    (ended,) = recorder.of(CallEnded)
    assert (ended.ran, ended.result.failed, recorder.text) == (True, True, "Late.")
    assert "python took too long" in caplog.text


async def test_a_tool_that_ignores_its_end_blocks_no_answer(
    start_engine: StartEngine, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(hosted_calls, "STOP_SECONDS", 0.01)
    lines = [{"prompt_contains": "was stopped", "completion": final("Late.")}]
    engine = await start_engine(*lines, call("deaf"))
    session = Session()
    limits = ToolLimits(timeouts={"python": 0.01}, grace=0)
    run, recorder = await start(gateway(engine, limits), [session])
    await run.wait()
    assert recorder.text == "Late."
    assert "a call of python does not end" in caplog.text
    session.release.set()


async def test_a_stopped_call_that_does_not_end_is_cut_off(
    start_engine: StartEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Lingering(Session):
        """Its calls do not end when they are stopped."""

        cut_off = False

        async def run(self, call: ToolCall) -> AsyncGenerator[ToolEvent, None]:
            try:
                async for event in super().run(call):
                    yield event
            finally:
                try:
                    await asyncio.Event().wait()
                except asyncio.CancelledError:
                    self.cut_off = True

    monkeypatch.setattr(hosted_calls, "STOP_SECONDS", 0.01)
    session = Lingering()
    limits = ToolLimits(timeouts={"python": 0.01}, grace=0)
    lines = [{"prompt_contains": "was stopped", "completion": final("Late.")}]
    engine = await start_engine(*lines, call("wait"))
    recorder = await play(gateway(engine, limits), session)
    assert (recorder.text, session.cut_off) == ("Late.", True)


async def test_the_next_turn_begins_when_the_call_has_ended(start_engine: StartEngine) -> None:
    class Tidying(Session):
        """Its calls go on for a while after their result."""

        tidied = False

        async def run(self, call: ToolCall) -> AsyncGenerator[ToolEvent, None]:
            try:
                async with aclosing(super().run(call)) as events:
                    async for event in events:
                        yield event
            finally:
                for _ in range(100):
                    await asyncio.sleep(0)
                self.tidied = True

    engine = await start_engine(*script(call("1"), final()))
    session = Tidying()
    generate = engine.generate
    tidied: list[bool] = []

    def generate_noting(request: GenerationRequest) -> AsyncGenerator[GenerationChunk, None]:
        tidied.append(session.tidied)
        chunks: AsyncGenerator[GenerationChunk, None] = generate(request)
        return chunks

    engine.generate = generate_noting
    await play(gateway(engine), session)
    assert tidied == [False, True]


# Failures


@pytest.mark.parametrize(("text", "kind"), [("crash", "ValueError"), ("silent", "RuntimeError")])
async def test_a_tool_that_fails_is_a_result_for_the_model(
    start_engine: StartEngine, caplog: pytest.LogCaptureFixture, text: str, kind: str
) -> None:
    lines = [{"prompt_contains": f"The tool failed: {kind}.", "completion": final("Sorry.")}]
    engine = await start_engine(*lines, call(f"{text} xyzzy"))
    with caplog.at_level(logging.DEBUG):
        recorder = await play(gateway(engine), Session())
    assert recorder.text == "Sorry."
    assert recorder.of(CallEnded)[0].result.failed
    assert f"python failed with {kind}" in caplog.text
    assert "xyzzy" not in caplog.text


async def test_progress_is_passed_on(start_engine: StartEngine) -> None:
    engine = await start_engine(
        {"prompt_contains": "RuntimeError", "completion": final()}, call("silent")
    )
    recorder = await play(gateway(engine), Session())
    assert recorder.of(ToolProgress) == [ToolProgress({"outputs": []})]


async def test_a_request_for_approval_ends_the_answer(start_engine: StartEngine) -> None:
    engine = await start_engine(THOUGHT + call("ask"))
    recorder = await play(gateway(engine), Session())
    assert len(recorder.of(ApprovalRequested)) == 1
    finished = recorder.finished
    assert finished.reason == "stop"
    assert finished.usage.output == len(encode_with_control(THOUGHT + call("ask")))
    assert finished.token_ids == tuple(encode_with_control(THOUGHT + call("ask")))


@pytest.mark.parametrize(
    "rest",
    ["<|end|><|return|>", "<|end|><|start|>assistant<|return|>", "<|start|>assistant<|return|>"],
)
@pytest.mark.parametrize("size", [1, 50])
async def test_a_call_with_another_end_runs_at_the_end_of_the_turn(
    start_engine: StartEngine, rest: str, size: int
) -> None:
    sampled = THOUGHT + call("1").removesuffix("<|call|>") + rest
    first = {"completion": sampled, "tokens_per_chunk": size}
    engine = await start_engine({"prompt_contains": "RESULT", "completion": final()}, first)
    session = Session()
    recorder = await play(gateway(engine), session)
    assert (len(session.calls), recorder.text) == (1, "Done.")
    asked, after = (decode(request.prompt_token_ids) for request in engine.requests)
    assert after.startswith(f"{asked}{THOUGHT}{call('1')}<|start|>python to=assistant")


async def test_a_call_with_another_end_and_a_message_after_it_does_not_run(
    start_engine: StartEngine,
) -> None:
    ended = call("1").removesuffix("<|call|>") + "<|end|>"
    engine = await start_engine(f"{ended}<|start|>assistant{final()}")
    session = Session()
    assert (await play(gateway(engine), session)).text == "Done."
    assert not session.calls


PENDING = ToolCall("mcp_1", "python", Channel.ANALYSIS, "1")
PARAM = "input.0.approval_request_id"


class ApprovingSession(Session):
    """A session that records refusals."""

    def __init__(self) -> None:
        super().__init__()
        self.refused: list[ToolCall] = []

    async def check(self, call: ToolCall, param: str) -> None:
        """Accept any."""

    async def refuse(self, call: ToolCall, param: str) -> None:
        self.refused.append(call)


def approved(session: ApprovingSession) -> AnsweredCall:
    return AnsweredCall(PENDING, session, approved=True, param=PARAM)


async def test_a_pending_call_runs_before_the_first_turn(start_engine: StartEngine) -> None:
    engine = await start_engine(final())
    session = ApprovingSession()
    recorder = await play(gateway(engine), session, answered=[approved(session)])
    assert session.calls == [PENDING]
    history = render(plan(QUESTION).conversation)[: -len(ASSISTANT)]
    (request,) = engine.requests
    assert list(request.prompt_token_ids[: len(history)]) == history
    assert decode(request.prompt_token_ids[len(history) :]) == (
        "<|start|>python to=assistant<|channel|>analysis<|message|>RESULT 1<|end|>"
        "<|start|>assistant"
    )
    usage = recorder.finished.usage
    assert (usage.input, usage.later_input) == (len(request.prompt_token_ids), 0)


@pytest.mark.parametrize("spec", [None, GrammarSpec(reasoning=False)])
async def test_a_header_that_the_answer_begins_with_follows_an_approved_call(
    start_engine: StartEngine, spec: GrammarSpec | None
) -> None:
    engine = await start_engine("Done.<|return|>")
    session = ApprovingSession()
    grammar = None if spec is None else answer_grammar(spec)
    constraint = Constraint(grammar, prefill=final_headers()[0], spec=spec)
    asked = plan(QUESTION, constraint=constraint)
    recorder = await play(gateway(engine), session, asked=asked, answered=[approved(session)])
    (request,) = engine.requests
    assert decode(request.prompt_token_ids).endswith(
        "RESULT 1<|end|><|start|>assistant<|channel|>final<|message|>"
    )
    assert request.grammar == grammar
    assert recorder.text == "Done."


async def test_approved_calls_run_in_order_before_the_first_turn(
    start_engine: StartEngine,
) -> None:
    engine = await start_engine(final())
    session = ApprovingSession()
    second = replace(PENDING, item_id="mcp_2", content="2")
    calls = [approved(session), replace(approved(session), call=second)]
    await play(gateway(engine), session, answered=calls)
    assert session.calls == [PENDING, second]
    (request,) = engine.requests
    text = decode(request.prompt_token_ids)
    assert text.index("RESULT 1") < text.index("RESULT 2")


async def test_a_refused_call_is_recorded_and_does_not_run(start_engine: StartEngine) -> None:
    engine = await start_engine(final())
    session = ApprovingSession()
    refused = AnsweredCall(PENDING, session, approved=False, param=PARAM)
    await play(gateway(engine), session, answered=[refused])
    assert session.calls == []
    assert session.refused == [PENDING]


async def test_an_approved_call_runs_although_its_tool_is_gone(start_engine: StartEngine) -> None:
    engine = await start_engine(final())
    session = ApprovingSession()
    lost = replace(PENDING, recipient="functions.srv__lost")
    recorder = await play(
        gateway(engine), session, answered=[AnsweredCall(lost, session, approved=True, param=PARAM)]
    )
    assert session.calls == [lost]
    assert recorder.finished.reason == "stop"


async def test_an_approved_call_may_ask_again(start_engine: StartEngine) -> None:
    engine = await start_engine(final())
    session = ApprovingSession()
    asking = ToolCall("mcp_1", "python", Channel.ANALYSIS, "ask")
    answered = [AnsweredCall(asking, session, approved=True, param=PARAM)]
    recorder = await play(gateway(engine), session, answered=answered)
    assert engine.requests == []
    assert recorder.finished.usage.input == 0


# Slots and sessions


async def test_a_hundred_answers_that_wait_for_tools_hold_no_slot(
    start_engine: StartEngine,
) -> None:
    engine = await start_engine({"prompt_contains": "plain", "completion": final()}, call("wait"))
    gate = Gateway(engine, Admission(1, 99))
    sessions = [Session() for _ in range(100)]
    for session in sessions:
        await start(gate, [session])
    for session in sessions:
        await session.running.wait()
    assert (engine.open, gate.admission.queued, gate.admission.admitted) == (0, 0, 100)
    with pytest.raises(RateLimited):
        await start(gate, [Session()])
    recorder = Recorder()
    plain = TurnPlan(plan(Message(Author(Role.USER), "plain")).conversation)
    run = await gate.start(AnswerSpec(plain, recorder, "plain"))
    await run.wait()
    assert recorder.text == "Done."
    await gate.runs.close()
    assert [session.ended for session in sessions] == [1] * 100
    await asyncio.sleep(0)
    assert (gate.admission.queued, gate.admission.admitted) == (0, 0)


async def test_an_answer_returns_from_its_tool_before_those_that_wait(
    start_engine: StartEngine,
) -> None:
    engine = await start_engine(
        {"prompt_contains": "plain", "completion": final("Plain.")},
        {"prompt_contains": "RESULT deaf", "completion": final()},
        {"completion": call("deaf")},
    )
    gate, session = Gateway(engine, Admission(1, 2)), Session()
    plain = TurnPlan(plan(Message(Author(Role.USER), "plain")).conversation)
    hosted, _ = await start(gate, [session])
    await session.running.wait()
    taken = gate.admission.enter()
    async with taken.slot():
        waiting = [(await start(gate, [], plain))[0] for _ in range(2)]
        # The queue is full, but an answer that returns from a tool does not ask for a place.
        session.release.set()
        await until(lambda: gate.admission.queued == 4)
    taken.leave()
    for run in (hosted, *waiting):
        await run.wait()
    prompts = [decode(request.prompt_token_ids) for request in engine.requests[1:]]
    assert ["plain" in prompt for prompt in prompts] == [False, True, True]


async def test_an_approved_call_that_ran_is_not_lost_to_other_requests(
    start_engine: StartEngine,
) -> None:
    engine = await start_engine({"prompt_contains": "to=assistant", "completion": final()})
    gate = Gateway(engine, Admission(1, 1))
    session: Any = Session()
    approved = ToolCall("mcp_1", "python", Channel.ANALYSIS, "1")
    answered = [AnsweredCall(approved, session, approved=True, param=PARAM)]
    taken = gate.admission.enter()
    async with taken.slot():
        run, recorder = await start(gate, [session], answered=answered)
        await until(lambda: bool(recorder.of(CallEnded)) and gate.admission.queued == 2)
        with pytest.raises(RateLimited):
            gate.admission.enter(-1)
    taken.leave()
    await run.wait()
    assert recorder.text == "Done."


async def test_an_answer_that_is_cancelled_ends_its_call(start_engine: StartEngine) -> None:
    gate = gateway(await start_engine(call("wait")))
    session = Session()
    run, _ = await start(gate, [session])
    await session.running.wait()
    run.cancel()
    await run.wait()
    assert (session.ended, session.closed) == (1, 1)
    assert run.events[-1] == {"type": "cancelled"}


async def test_a_call_of_a_cancelled_answer_may_end_its_work(start_engine: StartEngine) -> None:
    class Tidy(Session):
        is_tidy = False

        async def _event(self, text: str) -> ToolEvent:
            try:
                return await super()._event(text)
            finally:
                for _ in range(100):
                    await asyncio.sleep(0)
                self.is_tidy = True

    gate, session = gateway(await start_engine(call("wait"))), Tidy()
    run, _ = await start(gate, [session])
    await session.running.wait()
    run.cancel()
    await run.wait()
    assert session.is_tidy


async def test_a_reader_that_leaves_after_the_answer_does_not_stop_the_closing(
    start_engine: StartEngine,
) -> None:
    class Slow(Session):
        async def close(self) -> None:
            await self.release.wait()
            await super().close()

    gate, session = gateway(await start_engine(final())), Slow()
    run, _ = await start(gate, [session])
    async for batch in run.follow():
        if batch[-1]["type"] == "TurnFinished":
            break
    run.cancel()
    await asyncio.sleep(0)
    session.release.set()
    await run.wait()
    assert session.closed == 1


async def test_sessions_are_closed_when_the_answer_is_refused(start_engine: StartEngine) -> None:
    gate, session = Gateway(await start_engine(final()), Admission(1, 0)), Session()
    gate.admission.enter()
    with pytest.raises(APIError):
        await start(gate, [session])
    assert session.closed == 1


async def test_a_session_that_cannot_be_closed_is_logged(
    start_engine: StartEngine, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken(Session):
        async def close(self) -> None:
            raise ValueError("a secret")

    class Stuck(Session):
        async def close(self) -> None:
            await asyncio.Event().wait()

    monkeypatch.setattr(closing, "STOP_SECONDS", 0.01)
    gate = gateway(await start_engine(final()))
    run, recorder = await start(gate, [Broken(), Stuck(SEARCH)])
    await run.wait()
    assert (recorder.text, run.error) == ("Done.", None)
    assert "closing python failed with ValueError" in caplog.text
    assert "the session of browser.search does not close" in caplog.text
    assert "a secret" not in caplog.text


# Grammars

SPEC = GrammarSpec(
    tools=(CallableTool("python", FreeText()),), call_required=True, reasoning_budget=10
)


def constrained(spec: GrammarSpec) -> TurnPlan:
    return plan(QUESTION, constraint=Constraint.of(spec))


async def test_a_required_call_and_the_reasoning_budget_are_used_up(
    start_engine: StartEngine,
) -> None:
    engine = await start_engine(*script(THOUGHT + call("1"), call("2"), final()))
    await play(gateway(engine), Session(), asked=constrained(SPEC))
    later = GrammarSpec(SPEC.tools, reasoning_budget=10 - len(encode_with_control("Think.")))
    assert [request.grammar for request in engine.requests] == [
        turn_grammar(SPEC),
        turn_grammar(later),
        turn_grammar(later),
    ]


async def test_a_grammar_that_stays_is_not_written_again(start_engine: StartEngine) -> None:
    engine = await start_engine(*script(call("1"), final()))
    spec = GrammarSpec(SPEC.tools)
    await play(gateway(engine), Session(), asked=constrained(spec))
    one, other = [request.grammar for request in engine.requests]
    assert one is other


async def test_at_a_limit_the_grammar_is_that_of_the_answer(start_engine: StartEngine) -> None:
    lines = [{"prompt_contains": "limit of 1", "completion": "So.<|return|>"}]
    engine = await start_engine(*lines, *script(call("1"), call("2")))
    asked = constrained(GrammarSpec(SPEC.tools))
    await play(gateway(engine, ToolLimits(rounds=1)), Session(), asked=asked)
    assert engine.requests[-1].grammar == asked.constraint.answer_grammar


async def test_parameters_of_the_answer_apply_in_a_later_turn(start_engine: StartEngine) -> None:
    engine = await start_engine(*script(call("1"), final()))
    asked = plan(QUESTION, sampling=SamplingParams(logit_bias={7: 1.0}))
    await play(gateway(engine), Session(), asked=asked)
    one, other = [request.phases for request in engine.requests]
    assert one == other != ()


async def test_ten_calls_share_their_prompts(start_engine: StartEngine) -> None:
    turns = [THOUGHT + call(str(number)) for number in range(1, 11)]
    long = Message(Author(Role.USER), "word " * 500)
    engine = await start_engine(*script(*turns, final()))
    await play(gateway(engine), Session(), asked=plan(long))
    prompts = [request.prompt_token_ids for request in engine.requests]
    assert len(prompts) == 11
    for earlier, later in pairwise(prompts):
        assert later[: len(earlier)] == earlier
    shared = sum(map(len, prompts[:-1])) / sum(map(len, prompts[1:]))
    assert shared > 0.95


async def test_the_start_of_a_call_names_its_tool(start_engine: StartEngine) -> None:
    engine = await start_engine(*script(call("1"), final()))
    recorder = await play(gateway(engine), Session())
    (started,) = recorder.of(CallStarted)
    assert started.tool.hosted is PYTHON
    assert started.call.item_id.startswith("call_")
