"""The hosted tool `python`: cells of a real child process, through the tool's own interface."""

import asyncio
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from harmony.grammar import CallableTool, FreeText
from harmony.messages import Channel
from harmony.tools import PYTHON
from server.errors import InvalidRequest, NotFound
from server.schemas.hosted_tools import OUTPUTS
from server.store.responses.memory import MemoryStore
from server.tools.base import HostedTool, ToolCall, ToolContext, ToolProgress, ToolResult
from server.tools.python import tool
from server.tools.python.containers import ContainerLimits, ContainerService
from server.tools.python.output import LEFT_OUT, NO_OUTPUT
from server.tools.python.sandbox import SandboxUnavailable
from server.tools.python.tool import CONTAINERS, PythonSession, PythonTool, open_python
from server.tools.registry import ToolSetup
from tests.containers import World
from tests.sandboxes import BareSandbox

AUTO: dict[str, Any] = {"type": "code_interpreter", "container": {"type": "auto"}}
LONG = 60.0


def context(**fields: Any) -> ToolContext:
    values: dict[str, Any] = {"include": frozenset({OUTPUTS}), "timeout": LONG} | fields
    return ToolContext("a", "resp_1", "tools.0", **values)


async def opened(world: World, config: dict[str, Any] = AUTO, **fields: Any) -> PythonSession:
    return await PythonTool(world.service).open(config, context(**fields))


def call(code: str) -> ToolCall:
    return ToolCall("ci_1", "python", Channel.ANALYSIS, code)


async def result(session: PythonSession, code: str) -> ToolResult:
    async with aclosing(session.run(call(code))) as events:
        made = [event async for event in events]
    assert isinstance(made[-1], ToolResult)
    assert all(isinstance(event, ToolProgress) for event in made[:-1])
    return made[-1]


async def test_it_is_a_hosted_tool(world: World) -> None:
    tool: HostedTool = PythonTool(world.service)
    assert (tool.name, {*tool.types}, tool.problem) == ("python", {"code_interpreter"}, None)
    declaration = (await tool.open(AUTO, context())).declaration
    assert declaration.calls == (CallableTool("python", FreeText()),)
    assert (declaration.item, declaration.namespace) == ("code_interpreter_call", PYTHON)
    assert declaration.fields["container_id"].startswith("cntr_")


async def test_the_factory_takes_the_containers_of_the_server(world: World) -> None:
    tool = open_python(ToolSetup(MemoryStore(), parts={CONTAINERS: world.service}))
    assert tool.problem is None


async def test_the_tool_is_echoed_as_it_was_given_without_unknown_fields(world: World) -> None:
    container = {"type": "auto", "memory_limit": "4g", "file_ids": None, "x": 1}
    session = await opened(world, {"type": "code_interpreter", "container": container})
    assert session.declaration.echo == {
        "type": "code_interpreter",
        "container": {"type": "auto", "memory_limit": "4g"},
    }


async def test_nothing_is_made_before_the_first_call(world: World) -> None:
    session = await opened(world)
    assert (session.state, world.sandbox.sessions) == (None, {})
    await session.close()
    await session.close()


async def test_a_cell_returns_its_output_and_the_value_of_its_last_expression(
    world: World,
) -> None:
    session = await opened(world)
    done = await result(session, "print('one')\n1 + 1")
    assert (done.text, done.failed, done.files) == ("one\n2", False, ())
    assert done.fields["outputs"] == [{"type": "logs", "logs": "one\n2"}]
    assert session.state == {"container_id": session.declaration.fields["container_id"]}


async def test_state_lasts_between_cells_and_turns(world: World) -> None:
    first = await opened(world)
    await result(first, "x = 20")
    assert (await result(first, "x + 1")).text == "21"
    await first.close()
    second = await opened(world, state=first.state)
    assert second.declaration.fields == first.declaration.fields
    assert (await result(second, "x + 2")).text == "22"


def shown(session: PythonSession) -> dict[str, Any]:
    """The item of a call of the session."""
    return {"type": "code_interpreter_call", "id": "ci_1", **session.declaration.fields}


async def test_auto_takes_the_container_of_the_last_call_that_comes_back(world: World) -> None:
    first, second = await opened(world), await opened(world)
    for session in (first, second):
        await result(session, "1")
    others = ({"type": "web_search_call"}, {"type": "code_interpreter_call", "container_id": 1})
    history = (others[1], shown(first), shown(second), others[0])
    assert (await opened(world, history=history)).declaration.fields == second.declaration.fields
    made = await opened(world, history=history, state=first.state)
    assert made.declaration.fields == first.declaration.fields
    made = await opened(world, history=(shown(first), others[1]))
    assert made.declaration.fields != first.declaration.fields


async def test_auto_takes_no_container_of_another_owner(world: World) -> None:
    first = await opened(world)
    await result(first, "1")
    context = ToolContext("b", "resp_2", "tools.0", LONG, history=(shown(first),))
    made = await PythonTool(world.service).open(AUTO, context)
    assert made.declaration.fields != first.declaration.fields


async def test_auto_makes_a_new_container_where_the_previous_one_has_expired(
    world: World,
) -> None:
    first = await opened(world)
    await result(first, "x = 20")
    await first.close()
    world.time += 20 * 60
    second = await opened(world, state=first.state)
    assert second.declaration.fields != first.declaration.fields
    assert "NameError" in (await result(second, "x")).text


async def test_auto_makes_a_new_container_where_the_sandbox_has_lost_the_previous_one(
    world: World,
) -> None:
    container = {"type": "auto", "file_ids": [await world.upload(b"one")]}
    first = await opened(world, AUTO | {"container": container})
    await result(first, "open('y', 'w').close()")
    await first.close()
    (lost,) = world.sandbox.sessions
    await world.sandbox.close(lost)
    second = await opened(world, AUTO | {"container": container}, state=first.state)
    assert (await result(second, "import os\nos.listdir()")).text == "['x.csv']"
    assert len(await world.service.files("a", lost)) == 2


async def test_a_container_in_use_does_not_expire(world: World) -> None:
    session = await opened(world)
    await result(session, "x = 20")
    for _ in range(3):
        world.time += 19 * 60
        await world.service.sweep()
    assert (await result(session, "x")).text == "20"


async def test_an_exception_of_the_code_is_a_completed_call(world: World) -> None:
    done = await result(await opened(world), "print('one')\n1 / 0")
    assert not done.failed
    assert done.text.startswith("one\nTraceback")
    assert done.text.endswith("ZeroDivisionError: division by zero")


async def test_the_cells_of_an_answer_share_the_room_for_outputs(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tool, "MOST_OUTPUTS", 100)
    session = await opened(world)
    outputs = [(await result(session, "'x' * 60")).fields["outputs"] for _ in range(3)]
    note = [{"type": "logs", "logs": LEFT_OUT}]
    assert outputs == [[{"type": "logs", "logs": repr("x" * 60)}], note, note]


async def test_without_include_there_are_no_outputs(world: World) -> None:
    done = await result(await opened(world, include=frozenset()), "1")
    assert done.fields["outputs"] is None


async def test_a_cell_without_output_says_so(world: World) -> None:
    done = await result(await opened(world), "x = 1")
    assert (done.text, done.fields["outputs"]) == (NO_OUTPUT, [])


async def test_an_image_is_an_output_and_a_note_for_the_model(world: World) -> None:
    done = await result(await opened(world), "print('one')\ndisplay_png(b'123')\nprint('two')")
    assert done.text == "one\n[image: image/png]\ntwo"
    assert done.fields["outputs"] == [
        {"type": "logs", "logs": "one\n"},
        {"type": "image", "url": "data:image/png;base64,MTIz"},
        {"type": "logs", "logs": "two\n"},
    ]


async def test_output_that_is_no_utf8_is_escaped(world: World) -> None:
    done = await result(await opened(world), "print('a\\udcffb\\ud800')")
    assert done.text == "a\\xffb\\ud800"


async def test_a_cell_that_takes_too_long_failed_and_says_so(world: World) -> None:
    session = await opened(world, timeout=3.0)
    done = await result(session, "import time\nprint('one')\ntime.sleep(600)")
    assert done.failed
    assert done.text == "one\n[The cell was interrupted after 3 seconds.]"


async def test_a_process_that_ends_failed_and_the_next_cell_works(world: World) -> None:
    session = await opened(world)
    done = await result(session, "import os\nopen('kept', 'w').close()\nos._exit(1)")
    assert done.failed
    assert "The Python process ended: it exited." in done.text
    assert (await result(session, "import os\nos.listdir()")).text == "['kept']"


async def test_a_sandbox_that_cannot_be_reached_is_a_failed_result(world: World) -> None:
    session = await opened(world)
    world.sandbox.failure = SandboxUnavailable("http://inner:1234 refused")
    done = await result(session, "1")
    assert done.failed
    assert "inner" not in done.text
    assert session.state is None
    world.sandbox.failure = None
    assert (await result(session, "1")).text == "1"
    world.sandbox.run_failure = SandboxUnavailable("http://inner:1234 refused")
    done = await result(session, "1")
    assert done.failed
    assert "inner" not in done.text


async def test_files_that_a_cell_writes_are_listed_and_cited(world: World) -> None:
    session = await opened(world)
    code = "import os\nos.mkdir('out')\nopen('out/a.txt', 'w').write('hi')\nopen('.x', 'w').close()"
    done = await result(session, code)
    (file,) = done.files
    assert session.cite(0) is None
    assert (file.filename, file.path) == ("a.txt", "/mnt/data/out/a.txt")
    assert file.container_id == session.declaration.fields["container_id"]
    assert (await result(session, "1")).files == ()
    changed = await result(session, "open('out/a.txt', 'w').write('longer')")
    assert [each.file_id for each in changed.files] == [file.file_id]
    await result(session, "os.remove('out/a.txt')")
    assert await world.service.files("a", file.container_id) == ()


async def test_files_of_the_request_are_copied_in_once(world: World) -> None:
    names = [await world.upload(b"one", "x.csv"), await world.upload(b"two", "../x.csv")]
    container = {"type": "auto", "file_ids": [*names, names[0]]}
    session = await opened(world, AUTO | {"container": container})
    read = "[open(name).read() for name in ('x.csv', 'x-1.csv')]"
    done = await result(session, f"import os\nsorted(os.listdir()), {read}")
    assert done.text == "(['x-1.csv', 'x.csv'], ['one', 'two'])"
    assert done.files == ()
    await result(session, "open('x.csv', 'w').write('three')")
    again = await opened(world, AUTO | {"container": container}, state=session.state)
    assert (await result(again, read)).text == "['three', 'two']"


async def test_an_unknown_file_is_refused_at_once(world: World) -> None:
    others = await world.upload(b"one", owner="b")
    for name in ("file-1", others):
        with pytest.raises(NotFound) as caught:
            await opened(world, AUTO | {"container": {"type": "auto", "file_ids": [name]}})
        assert caught.value.param == "tools.0.container.file_ids.0"


async def test_a_container_that_the_request_names_is_used(world: World) -> None:
    first = await opened(world)
    await result(first, "x = 20")
    name = first.declaration.fields["container_id"]
    second = await opened(world, AUTO | {"container": name})
    assert second.declaration.echo == {"type": "code_interpreter", "container": name}
    assert second.state == {"container_id": name}
    assert (await result(second, "x")).text == "20"


async def test_an_expired_container_has_a_code_of_its_own(world: World) -> None:
    session = await opened(world)
    await result(session, "1")
    await session.close()
    world.time += 20 * 60
    with pytest.raises(NotFound) as caught:
        await opened(world, AUTO | {"container": session.declaration.fields["container_id"]})
    assert (caught.value.param, caught.value.code) == ("tools.0.container", "container_expired")


async def test_a_named_container_whose_session_is_lost_has_expired(world: World) -> None:
    first = await opened(world)
    await result(first, "1")
    name = first.declaration.fields["container_id"]
    await world.sandbox.close(name)
    with pytest.raises(NotFound) as caught:
        await opened(world, AUTO | {"container": name})
    assert (caught.value.param, caught.value.code) == ("tools.0.container", "container_expired")


async def test_a_container_that_is_deleted_meanwhile_is_made_anew(world: World) -> None:
    session = await opened(world)
    await result(session, "x = 20")
    await world.service.delete("a", session.declaration.fields["container_id"])
    assert "NameError" in (await result(session, "x")).text


async def test_a_named_container_that_is_deleted_meanwhile_is_a_failed_result(
    world: World,
) -> None:
    first = await opened(world)
    await result(first, "1")
    name = first.declaration.fields["container_id"]
    second = await opened(world, AUTO | {"container": name})
    await world.service.delete("a", name)
    done = await result(second, "1")
    assert done.failed
    assert "not found" in done.text


@pytest.mark.parametrize(
    ("container", "param"),
    [
        (None, "tools.0.container"),
        ({"type": "other"}, "tools.0.container"),
        ({"type": "auto", "memory_limit": "64g"}, "tools.0.container.memory_limit"),
        ({"type": "auto", "file_ids": "x"}, "tools.0.container.file_ids"),
        ({"type": "auto", "file_ids": [1]}, "tools.0.container.file_ids.0"),
        ({"type": "auto", "network_policy": 1}, "tools.0.container.network_policy"),
    ],
)
async def test_an_invalid_container_is_refused(world: World, container: Any, param: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        await opened(world, AUTO | {"container": container})
    assert caught.value.param == param


async def test_a_missing_container_is_said_to_be_missing(world: World) -> None:
    with pytest.raises(InvalidRequest) as caught:
        await opened(world, {"type": "code_interpreter"})
    missing = ("tools.0.container", "missing_required_parameter")
    assert (caught.value.param, caught.value.code) == missing


async def test_without_a_sandbox_the_reason_is_given(world: World, tmp_path: Path) -> None:
    sandbox = BareSandbox(tmp_path / "other", "no layer works")
    for each, reason in ((sandbox, "no layer works"), (None, "it has no sandbox")):
        service = ContainerService(world.store, world.library, each, ContainerLimits())
        tool = PythonTool(service)
        await tool.start()
        with pytest.raises(InvalidRequest, match=reason) as caught:
            await tool.open(AUTO, context())
        assert (caught.value.param, caught.value.code) == ("tools.0", "tool_unavailable")
        with pytest.raises(InvalidRequest) as of_containers:
            service.sandbox  # noqa: B018 - a property that raises
        # Requests for containers and those with the tool read the same.
        expected = "The tool 'python' cannot be used on this server: "
        assert caught.value.message == of_containers.value.message
        assert caught.value.message.startswith(expected)
        assert of_containers.value.code == "tool_unavailable"
        await tool.stop()


async def test_many_answers_have_sessions_of_their_own(world: World) -> None:
    async def answer(number: int) -> str:
        session = await opened(world)
        await result(session, f"x = {number}")
        return (await result(session, "x")).text

    assert await asyncio.gather(*map(answer, range(8))) == [str(n) for n in range(8)]


async def test_answers_that_share_a_container_run_one_after_another(world: World) -> None:
    first = await opened(world)
    await result(first, "log = []")
    name = first.declaration.fields["container_id"]

    async def answer(number: int) -> ToolResult:
        session = await opened(world, AUTO | {"container": name})
        code = f"log.append({number}); open('f{number}', 'w').close(); log.append({number})"
        return await result(session, code)

    done = await asyncio.gather(*map(answer, range(4)))
    # Each answer has the files of its own cell.
    assert [[file.filename for file in each.files] for each in done] == [
        [f"f{number}"] for number in range(4)
    ]
    assert (await result(first, "log[::2] == log[1::2]")).text == "True"


async def test_output_comes_while_the_cell_runs(world: World) -> None:
    session = await opened(world)
    async with aclosing(session.run(call("print('one')\nimport time\ntime.sleep(600)"))) as events:
        async for event in events:
            assert isinstance(event, ToolProgress)
            if outputs := event.fields["outputs"]:
                break
    assert outputs == [{"type": "logs", "logs": "one"}]
    # Closing the events has ended the process.
    (own,) = world.sandbox.sessions.values()
    assert own.process is None


async def test_too_many_containers_are_a_failed_result(tmp_path: Path) -> None:
    world = World(tmp_path, containers=1)
    await world.service.start()
    await result(await opened(world), "1")
    done = await result(await opened(world), "1")
    await world.service.stop()
    assert done.failed
    assert "limit" in done.text
