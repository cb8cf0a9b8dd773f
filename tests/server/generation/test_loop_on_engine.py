"""Ten hosted calls in one answer, with a real engine and its prefix cache."""

from collections.abc import AsyncGenerator
from dataclasses import replace
from pathlib import Path

from adapters.base import BackendConfig, GenerationChunk, GenerationRequest
from adapters.local.backend import LocalBackend
from benchmarks.constrained import write_model
from harmony.grammar import CallableTool, GrammarSpec, RegexText, turn_grammar
from harmony.mask_tokenizer import mask_tokenizer
from harmony.messages import Author, Message, Role
from harmony.tokenizer import decode, encode_with_control
from server.generation.admission import Admission
from server.generation.answer_spec import AnswerSpec
from server.generation.gateway import Gateway
from server.generation.hosted_calls import ToolLimits
from server.generation.plan import Constraint
from tests.server.generation.recorder import Recorder
from tests.server.tools.hosted import Session, plan

CALLS = 10
SPEC = GrammarSpec(
    (CallableTool("python", RegexText(r"1\+1|2\+2")),),
    call_required=True,
    answer=RegexText("yes|no"),
    reasoning=False,
    preambles=False,
)


class Calling(LocalBackend):
    """Samples one turn more than there are calls with the grammar that requires one."""

    turns = 0

    def generate(self, request: GenerationRequest) -> AsyncGenerator[GenerationChunk, None]:
        self.turns += 1
        if self.turns <= CALLS + 1:
            request = replace(request, grammar=turn_grammar(SPEC))
        return super().generate(request)


async def test_ten_calls_find_their_prompts_in_the_cache(tmp_path: Path) -> None:
    write_model(tmp_path)
    options = {"device": "cpu", "batch_tokens": "512"}
    engine = Calling(
        BackendConfig(str(tmp_path), options, encode_with_control, decode, mask_tokenizer)
    )
    asked = plan(
        Message(Author(Role.USER), "How much? " * 500),
        max_tokens=400,
        constraint=Constraint.of(SPEC),
    )
    recorder, session = Recorder(), Session()
    await engine.start()
    try:
        gateway = Gateway(engine, Admission(1, 1), tool_limits=ToolLimits(rounds=CALLS))
        run = await gateway.start(AnswerSpec(asked, recorder, "r", sessions=[session]))
        await run.wait()
    finally:
        await engine.stop()
    assert len(session.calls) == CALLS
    finished = recorder.finished
    assert finished.reason == "stop"
    assert finished.usage.later_cached > 0.95 * finished.usage.later_input
