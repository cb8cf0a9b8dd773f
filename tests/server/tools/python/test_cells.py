"""The sandbox `process`: sessions, their state and files, and what ends them.

All tests share one sandbox. Each has a session of its own.
"""

import asyncio
import threading
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from server.tools.python import frames, live, session_transfers, usage, watch
from server.tools.python.process import RESTARTED, ProcessSandbox
from server.tools.python.sandbox import (
    CellEnd,
    FileTooLarge,
    NoSuchFile,
    NoSuchSession,
    OutputImage,
    OutputText,
    SandboxLimits,
)
from server.tools.python.usage import Usage
from tests.server.tools.python.cells import (
    LIMITS,
    MIB,
    begun,
    cell,
    content,
    reachable_root,
    read,
    started,
    text_of,
)

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared() -> AsyncIterator[ProcessSandbox]:
    with reachable_root() as root:
        sandbox = await started(root)
        yield sandbox
        await sandbox.stop()


@pytest_asyncio.fixture(loop_scope="module")
async def sandbox(shared: ProcessSandbox) -> AsyncIterator[ProcessSandbox]:
    """The sandbox, with a process that waits and a new session `a`.

    All sessions are closed after the test.
    """
    if shared._warming is not None:
        await shared._warming
    if shared._warm is None:
        # The cell that took the last one was cancelled meanwhile.
        await shared._refill()
    await shared.create("a", LIMITS)
    yield shared
    await asyncio.gather(*(shared.close(name) for name in [*shared._sessions]))


async def test_the_last_expression_is_the_result(sandbox: ProcessSandbox) -> None:
    assert await cell(sandbox, "a", "x = 2\nx + 1") == [
        OutputText("result", "3\n"),
        CellEnd("completed"),
    ]
    assert text_of(await cell(sandbox, "a", "_ + x")) == "5\n"
    assert await cell(sandbox, "a", "x;") == [CellEnd("completed")]


async def test_output_has_its_stream_and_stands_before_the_result(sandbox: ProcessSandbox) -> None:
    code = "import sys\nprint('out')\nprint('err', file=sys.stderr)\n!echo shell\n1"
    events = await cell(sandbox, "a", code)
    assert text_of(events, "stdout") == "out\nshell\n"
    assert text_of(events, "stderr") == "err\n"
    assert events[-2:] == [OutputText("result", "1\n"), CellEnd("completed")]


async def test_output_takes_no_memory_of_the_session(sandbox: ProcessSandbox) -> None:
    await cell(sandbox, "a", "import sys\nprint('out')\nprint('err', file=sys.stderr)\n1")
    code = "kept = get_ipython().history_manager\ndict(kept.outputs), kept.output_hist_reprs"
    assert text_of(await cell(sandbox, "a", code)) == "({}, {})\n"


async def test_a_traceback_takes_no_memory_of_the_session(sandbox: ProcessSandbox) -> None:
    await cell(sandbox, "a", "raise ValueError('x' * 10_000)")
    code = "sum(len(str(one)) for one in get_ipython().history_manager.exceptions.values())"
    assert int(text_of(await cell(sandbox, "a", code))) < 100


@pytest.mark.parametrize(
    "code",
    [
        "sys.stdout = sys.stderr = None",
        "class Broken:\n    def flush(self): raise RuntimeError\nsys.stdout = Broken()",
    ],
)
async def test_a_session_without_streams_goes_on(sandbox: ProcessSandbox, code: str) -> None:
    await cell(sandbox, "a", f"import sys\n{code}")
    assert await cell(sandbox, "a", "3") == [OutputText("result", "3\n"), CellEnd("completed")]


async def test_a_cell_that_deletes_its_streams_does_not_end_the_session(
    sandbox: ProcessSandbox,
) -> None:
    await cell(sandbox, "a", "import sys\ndel sys.stdout, sys.stderr")
    # IPython misses them.
    assert (await cell(sandbox, "a", "3"))[-1] == CellEnd("raised")


async def test_output_comes_while_the_cell_runs(sandbox: ProcessSandbox) -> None:
    code = (
        "import os, time\nprint('first')\n"
        "while not os.path.exists('/mnt/data/go'): time.sleep(0.01)"
    )
    events = sandbox.run("a", code, 60)
    assert await anext(events) == OutputText("stdout", "first\n")
    await sandbox.write("a", "go", content(b""))
    assert [event async for event in events] == [CellEnd("completed")]


async def test_a_traceback_is_ipythons(sandbox: ProcessSandbox) -> None:
    events = await cell(sandbox, "a", "def f():\n    1 / 0\nf()")
    assert events[-1] == CellEnd("raised")
    text = text_of(events, "error")
    assert "Cell In[1], line 2" in text
    assert text.endswith("ZeroDivisionError: division by zero")
    assert "\x1b" not in text
    assert text_of(await cell(sandbox, "a", "1 +"), "error").endswith("invalid syntax\n")


async def test_figures_are_images(sandbox: ProcessSandbox) -> None:
    events = await cell(sandbox, "a", "import matplotlib.pyplot as plt\nplt.plot([1, 2]);")
    (image,) = [event for event in events if isinstance(event, OutputImage)]
    assert image.media_type == "image/png"
    assert image.data.startswith(b"\x89PNG")
    assert "<Figure size" in text_of(events, "result")


async def test_magics_and_top_level_await_work(sandbox: ProcessSandbox) -> None:
    code = "%time 1\nimport asyncio\nawait asyncio.sleep(0)\nfiles = !echo a b\nfiles"
    assert "['a b']" in text_of(await cell(sandbox, "a", code))
    assert text_of(await cell(sandbox, "a", "%%bash\necho $((1 + 1))")).strip() == "2"


async def test_programs_and_libraries_have_a_home_beside_the_files(sandbox: ProcessSandbox) -> None:
    code = (
        "import os, sys, tempfile\nfrom pathlib import Path\n"
        "found = !command -v python\n"
        "folder = tempfile.gettempdir()\n"
        "caches = [os.environ[name] for name in ('IPYTHONDIR', 'MPLCONFIGDIR')]\n"
        "assert Path.home() == Path(folder)\n"
        "assert all(Path(each).is_relative_to(folder) for each in caches)\n"
        "assert found == [sys.prefix + '/bin/python']\n"
        "assert os.listdir('/mnt/data') == []"
    )
    assert await cell(sandbox, "a", code) == [CellEnd("completed")]


async def test_libraries_use_the_one_core_of_a_session(sandbox: ProcessSandbox) -> None:
    code = "import os\n{value for name, value in os.environ.items() if name.endswith('_THREADS')}"
    assert text_of(await cell(sandbox, "a", code)) == "{'1'}\n"
    assert text_of(await cell(sandbox, "a", "len(os.sched_getaffinity(0))")) == "1\n"


async def test_nobody_answers_input(sandbox: ProcessSandbox) -> None:
    events = await cell(sandbox, "a", "input('name? ')")
    assert events[-1] == CellEnd("raised")
    assert "nobody can type an answer" in text_of(events)


@pytest.mark.usefixtures("patience")
async def test_an_interrupted_cell_leaves_the_state(sandbox: ProcessSandbox) -> None:
    events = await cell(sandbox, "a", "x = 1\nimport time\nwhile True: time.sleep(0.01)", 2)
    assert "KeyboardInterrupt" in text_of(events)
    assert events[-1] == CellEnd("timeout")
    assert text_of(await cell(sandbox, "a", "x")) == "1\n"


@pytest.mark.usefixtures("patience")
async def test_a_cell_whose_time_is_over_at_once_leaves_the_state(sandbox: ProcessSandbox) -> None:
    """The interrupt comes right after the cell, which may not have begun."""
    await cell(sandbox, "a", "x = 1")
    for _ in range(20):
        assert (await cell(sandbox, "a", "while True: pass", 0))[-1] == CellEnd("timeout")
    assert text_of(await cell(sandbox, "a", "x")) == "1\n"


@pytest.mark.usefixtures("patience")
async def test_a_program_of_a_cell_is_interrupted(sandbox: ProcessSandbox) -> None:
    assert (await cell(sandbox, "a", "!sleep 1000", 0.3))[-1] == CellEnd("timeout")
    assert text_of(await cell(sandbox, "a", "1")) == "1\n"


@pytest.mark.usefixtures("patience")
async def test_closing_the_generator_interrupts_the_cell(sandbox: ProcessSandbox) -> None:
    events = sandbox.run("a", "x = 1\nprint('on')\nwhile True: pass", 60)
    await anext(events)
    await events.aclose()
    assert text_of(await cell(sandbox, "a", "x")) == "1\n"


async def test_closing_the_generator_kills_what_goes_on(sandbox: ProcessSandbox) -> None:
    code = "import signal\nsignal.signal(2, signal.SIG_IGN)\nprint('on')\nwhile True: pass"
    events = sandbox.run("a", code, 60)
    await anext(events)
    await events.aclose()
    assert sandbox._sessions["a"].live is None


async def test_a_cancelled_task_ends_its_cell(sandbox: ProcessSandbox) -> None:
    running = asyncio.create_task(cell(sandbox, "a", "while True: pass"))
    await begun(sandbox)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert text_of(await cell(sandbox, "a", "1")) == "1\n"


async def test_a_cancelled_cell_gets_its_process_whole_or_not_at_all(
    sandbox: ProcessSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cancellation comes while the waiting process gets the session's folder."""
    moving, go_on = asyncio.Event(), threading.Event()
    move, loop = session_transfers.move, asyncio.get_running_loop()

    def slow_move(*arguments: Any) -> None:
        loop.call_soon_threadsafe(moving.set)
        go_on.wait(30)
        move(*arguments)

    monkeypatch.setattr(session_transfers, "move", slow_move)
    running = asyncio.create_task(cell(sandbox, "a", "x = 1"))
    await moving.wait()
    running.cancel()
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert text_of(await cell(sandbox, "a", "2")) == "2\n"


async def test_cells_of_a_session_run_one_after_another(sandbox: ProcessSandbox) -> None:
    code = "n = globals().get('n', 0) + 1\nimport time\ntime.sleep(0.05)\nn"
    done = await asyncio.gather(*(cell(sandbox, "a", code) for _ in range(3)))
    assert [text_of(events) for events in done] == ["1\n", "2\n", "3\n"]


async def test_a_long_cell_is_sent_whole(sandbox: ProcessSandbox) -> None:
    code = f"x = {'a' * (1 << 20)!r}\nlen(x)"
    assert text_of(await cell(sandbox, "a", code)) == f"{1 << 20}\n"


async def test_files_go_up_and_down(sandbox: ProcessSandbox) -> None:
    file = await sandbox.write("a", "in/x.csv", content(b"1,", b"2\n"))
    assert (file.path, file.size) == ("in/x.csv", 4)
    events = await cell(sandbox, "a", "open('/mnt/data/in/x.csv').read()")
    assert text_of(events) == "'1,2\\n'\n"
    await cell(sandbox, "a", "open('/mnt/data/out', 'wb').write(bytes(1 << 20))")
    assert await read(sandbox, "a", "out") == bytes(1 << 20)
    assert [file.path for file in await sandbox.files("a")] == ["in/x.csv", "out"]
    await sandbox.delete("a", "out")
    with pytest.raises(NoSuchFile):
        await read(sandbox, "a", "out")


async def test_an_upload_counts_for_the_disk(sandbox: ProcessSandbox) -> None:
    await sandbox.create("small", SandboxLimits(disk=MIB))
    with pytest.raises(FileTooLarge):
        await sandbox.write("small", "x", content(bytes(MIB)))
    assert await sandbox.files("small") == []


async def test_uploads_at_once_share_the_disk(sandbox: ProcessSandbox) -> None:
    await sandbox.create("small", SandboxLimits(disk=MIB))
    all_are_open = asyncio.Barrier(3)

    async def part() -> AsyncIterator[bytes]:
        await all_are_open.wait()
        yield bytes(MIB // 2 + 1)

    uploads = (sandbox.write("small", name, part()) for name in "xyz")
    done = await asyncio.gather(*uploads, return_exceptions=True)
    assert [type(each) for each in done].count(FileTooLarge) == 2
    assert len(await sandbox.files("small")) == 1


async def test_an_upload_that_fails_leaves_its_part_of_the_disk_to_others(
    sandbox: ProcessSandbox,
) -> None:
    await sandbox.create("small", SandboxLimits(disk=MIB))
    both_are_open = asyncio.Barrier(2)

    async def broken() -> AsyncIterator[bytes]:
        await both_are_open.wait()
        yield bytes(MIB // 2 + 1)
        raise ConnectionError

    failing = asyncio.ensure_future(sandbox.write("small", "x", broken()))

    async def later() -> AsyncIterator[bytes]:
        await both_are_open.wait()
        await asyncio.wait([failing])
        yield bytes(MIB // 2 + 1)

    await sandbox.write("small", "y", later())
    with pytest.raises(ConnectionError):
        await failing
    assert [file.path for file in await sandbox.files("small")] == ["y"]


async def test_sessions_are_created_once(sandbox: ProcessSandbox) -> None:
    folder = sandbox._sessions["a"].folder
    await sandbox.create("a", SandboxLimits(memory=1))
    assert (sandbox._sessions["a"].folder, sandbox._sessions["a"].limits) == (folder, LIMITS)
    with pytest.raises(ValueError, match="no session id"):
        await sandbox.create("../a", LIMITS)


async def test_unknown_sessions_are_errors(sandbox: ProcessSandbox) -> None:
    for work in (cell(sandbox, "b", "1"), sandbox.files("b"), sandbox.delete("b", "x")):
        with pytest.raises(NoSuchSession):
            await work
    await sandbox.close("b")
    await sandbox.close("../b")


async def test_a_closed_session_leaves_nothing(sandbox: ProcessSandbox) -> None:
    await cell(sandbox, "a", "open('/mnt/data/x', 'w')")
    folder = sandbox._sessions["a"].folder
    running = asyncio.create_task(cell(sandbox, "a", "while True: pass"))
    await begun(sandbox)
    await sandbox.close("a")
    assert (await running)[-1] == CellEnd("died", "the session was closed")
    assert not folder.exists()
    with pytest.raises(NoSuchSession):
        await cell(sandbox, "a", "1")


async def test_a_session_restarts_after_its_process_died(sandbox: ProcessSandbox) -> None:
    await cell(sandbox, "a", "x = open('/mnt/data/x', 'w').write('kept')")
    events = await cell(sandbox, "a", "import os; os.abort()")
    assert events[-1] == CellEnd("died", "it aborted")
    events = await cell(sandbox, "a", "print('x' in globals(), open('/mnt/data/x').read())")
    assert text_of(events) == "False kept\n"


async def test_many_sessions_at_once_stay_apart(sandbox: ProcessSandbox) -> None:
    async def session(number: int) -> str:
        name = f"s{number}"
        await sandbox.create(name, LIMITS)
        await cell(sandbox, name, f"x = {number}; open('/mnt/data/x', 'w').write('{number}');")
        events = await cell(sandbox, name, "print(x, open('/mnt/data/x').read())")
        return text_of(events)

    numbers = range(12)
    found = await asyncio.gather(*map(session, numbers))
    assert found == [f"{number} {number}\n" for number in numbers]


async def test_large_frames_beyond_the_limit_are_not_decoded(
    sandbox: ProcessSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An image that does not fit would be decoded without end: it leaves the limit as it is."""
    sizes: list[int] = []

    def noted_parse(frame: bytes) -> Any:
        sizes.append(len(frame))
        return frames.parse(frame)

    monkeypatch.setattr(live, "parse", noted_parse)
    await sandbox.create("small", SandboxLimits(output=MIB))
    code = (
        "channel = get_ipython().channel\n"
        "for _ in range(9): channel.send('image', media_type='image/png', data='A' * (4 << 20))\n1"
    )
    events = await cell(sandbox, "small", code)
    assert events == [OutputText("result", "1\n"), CellEnd("completed")]
    assert [size >> 20 for size in sizes if size > MIB] == [4]
    assert text_of(await cell(sandbox, "small", "channel.cell is not None")) == "True\n"


async def test_a_forged_frame_ends_the_session(sandbox: ProcessSandbox) -> None:
    events = await cell(sandbox, "a", "import os, time\nos.write(4, bytes(4))\ntime.sleep(60)")
    assert events == [CellEnd("died", "its protocol was violated: a frame of 0 bytes")]
    assert text_of(await cell(sandbox, "a", "1")) == "1\n"


async def test_an_idle_process_that_ended_is_replaced(sandbox: ProcessSandbox) -> None:
    code = "import os, threading\nthreading.Timer(0.05, os._exit, (0,)).start()"
    await cell(sandbox, "a", code)
    live = sandbox._sessions["a"].live
    assert live is not None
    await live._ended
    assert text_of(await cell(sandbox, "a", "1")) == f"{RESTARTED}1\n"


async def test_the_limits_of_a_session_end_it(sandbox: ProcessSandbox) -> None:
    await sandbox.create("small", SandboxLimits(disk=8 * MIB))
    code = (
        "import os, time\n"
        "f = open('/mnt/data/gone', 'wb'); os.unlink('/mnt/data/gone'); f.write(bytes(4 << 20))\n"
        "for i in range(4): open(f'/mnt/data/{i}', 'wb').write(bytes(2 << 20))\ntime.sleep(60)"
    )
    events = await cell(sandbox, "small", code)
    reason = "its files took more than 8 MiB; the last ones were deleted"
    assert events == [CellEnd("died", reason)]
    assert sum(file.size for file in await sandbox.files("small")) <= 8 * MIB


async def test_limits_are_checked_again_after_an_error(
    sandbox: ProcessSandbox, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    failed = threading.Event()
    step = watch.FileCount.step

    def fail_once(count: watch.FileCount) -> bool:
        if failed.is_set():
            return step(count)
        failed.set()
        raise OSError("too many open files")

    monkeypatch.setattr(watch.FileCount, "step", fail_once)
    await sandbox.create("small", SandboxLimits(disk=MIB))
    code = "f = open('/mnt/data/x', 'wb'); f.write(bytes(1 << 20)); f.flush()\n"
    events = await cell(sandbox, "small", f"{code}import time\ntime.sleep(60)")
    reason = "its files took more than 1 MiB; the last ones were deleted"
    assert events == [CellEnd("died", reason)]
    assert failed.is_set()
    assert "cannot be checked: too many open files" in caplog.text


async def test_memory_that_processes_share_counts_once(
    sandbox: ProcessSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured, loop = asyncio.Event(), asyncio.get_running_loop()

    def noted_measure(pid: int, memory: int, processes: int) -> Usage:
        has_both = memory == 400 * MIB and len(usage.processes_below(pid)) >= alone + 2
        used = usage.measure(pid, memory, processes)
        if has_both:
            loop.call_soon_threadsafe(measured.set)
        return used

    await sandbox.create("small", SandboxLimits(memory=400 * MIB))
    share = "import os, time\nx = b'x' * (150 << 20)\n"
    await cell(sandbox, "small", share)
    small = sandbox._sessions["small"].live
    assert small is not None
    alone = len(usage.processes_below(small.pid))
    monkeypatch.setattr(watch, "measure", noted_measure)
    forks = "pids = [os.fork() for _ in range(2)]\nif 0 in pids: time.sleep(60)\n"
    wait = "while not os.path.exists('/mnt/data/go'): time.sleep(0.01)\n1"
    running = asyncio.create_task(cell(sandbox, "small", forks + wait))
    await asyncio.wait(
        {running, asyncio.create_task(measured.wait())}, return_when="FIRST_COMPLETED"
    )
    await sandbox.write("small", "go", content(b""))
    assert await running == [OutputText("result", "1\n"), CellEnd("completed")]
    child = "    if os.fork() == 0:\n        y = b'y' * (150 << 20); time.sleep(60)\n"
    more = f"for _ in range(2):\n{child}time.sleep(60)"
    events = await cell(sandbox, "small", more)
    assert events == [CellEnd("died", "it used more memory than 400 MiB")]
