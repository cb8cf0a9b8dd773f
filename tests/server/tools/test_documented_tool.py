"""The hosted tool of docs/tools.md, run in an answer."""

from collections.abc import Awaitable, Callable
from types import ModuleType
from typing import Any

from server.generation.admission import Admission
from server.generation.answer_spec import AnswerSpec
from server.generation.gateway import Gateway
from server.outbound.responses.events import ResponsesOutbound
from server.outbound.responses.fold import fold
from server.store.responses.memory import MemoryStore
from server.tools.base import ToolContext
from server.tools.registry import ToolSetup
from tests.documentation import ROOT, blocks
from tests.sampled import final
from tests.server.outbound.responses.test_events import CREATED
from tests.server.tools.hosted import declared, plan


def documented() -> Any:
    """The example as a module."""
    *_, code = blocks(ROOT / "docs" / "tools.md", "python")
    module = ModuleType("example")
    exec(compile(code, "docs/tools.md", "exec"), module.__dict__)
    return module


async def test_the_documented_tool_runs(start_engine: Callable[..., Awaitable[Any]]) -> None:
    header = "<|channel|>commentary to=functions.add <|constrain|>json<|message|>"
    engine = await start_engine(
        {"prompt_contains": "<|message|>Invalid arguments", "completion": final("Sorry.")},
        {"prompt_contains": "<|message|>3<", "completion": header + '{"n": 1}<|call|>'},
        header + '{"numbers": [1, 2]}<|call|>',
    )
    tool = documented().open_adder(ToolSetup(MemoryStore()))
    session = await tool.open({"type": "adder"}, ToolContext("a", "resp_1", "tools.0", 60))
    outbound = ResponsesOutbound(CREATED, asked := plan(tools=declared(session.declaration)))
    gateway = Gateway(engine, Admission(1, 0))
    run = await gateway.start(AnswerSpec(asked, outbound, "resp_1", sessions=[session]))
    await run.wait()
    good, bad, message = fold(run.events)["output"]
    assert (good["name"], good["output"], good["status"]) == ("functions.add", "3", "completed")
    assert bad["status"] == "failed"
    assert message["content"][0]["text"] == "Sorry."
