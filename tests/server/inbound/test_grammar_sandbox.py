"""Grammars that do not compile, take too long or crash the compiler."""

import errno
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection, Pipe
from typing import Any

import pytest

from harmony.grammar import GrammarSpec, RegexText, SchemaJson, answer_grammar
from server.errors import RateLimited, Unavailable
from server.inbound import grammar_compiler, grammar_sandbox
from server.inbound.grammar_sandbox import GrammarSandbox

VALID = answer_grammar(GrammarSpec(answer=RegexText("a+")))
SLOW = answer_grammar(
    GrammarSpec(
        answer=SchemaJson(
            {"type": "object", "patternProperties": {f"^a{n}b": {} for n in range(1_000)}}
        )
    )
)
DEEP = "\n".join(
    ["%llguidance {}", "start: r0", *(f'r{n}: "a" r{n + 1}' for n in range(9_000)), 'r9000: "b"']
)


@pytest.fixture(scope="module")
def sandbox() -> Iterator[GrammarSandbox]:
    started = GrammarSandbox(seconds=1.5)
    started.start()
    yield started
    started.close()


def test_a_grammar_by_which_the_library_panics_has_a_problem(sandbox: GrammarSandbox) -> None:
    options = '{"x-guidance": {"item_separator": "(["}, "type": "array"}'
    assert sandbox.problem(f"start: %json {options}") == "it makes the grammar library fail"
    assert sandbox.problem(VALID) is None


def test_a_grammar_that_compiles_has_no_problem(sandbox: GrammarSandbox) -> None:
    assert sandbox.problem(VALID) is None


def test_the_problem_is_one_clause(sandbox: GrammarSandbox) -> None:
    problem = sandbox.problem(answer_grammar(GrammarSpec(answer=RegexText("("))))
    assert problem is not None
    assert "regex" in problem
    assert "\n" not in problem


@pytest.mark.parametrize(
    ("regex", "reason"), [("(", "unclosed group"), ("(?!a)b", "look-around, including look-ahead")]
)
@pytest.mark.parametrize("in_schema", [False, True])
def test_the_problem_of_a_regex_has_its_reason(
    sandbox: GrammarSandbox, regex: str, reason: str, in_schema: bool
) -> None:
    body = SchemaJson({"type": "string", "pattern": regex}) if in_schema else RegexText(regex)
    problem = sandbox.problem(answer_grammar(GrammarSpec(answer=body)))
    assert problem is not None
    assert f"regex parse error: {reason}" in problem


def test_a_slow_grammar_is_stopped(sandbox: GrammarSandbox) -> None:
    assert sandbox.problem(SLOW) == "it takes longer than 1.5 s to compile"


def test_a_stack_overflow_ends_only_its_process(sandbox: GrammarSandbox) -> None:
    assert sandbox.problem(DEEP) == "it is too deep or too large to compile"
    assert sandbox.problem(VALID + "\n") is None


def test_a_slow_grammar_does_not_delay_others(sandbox: GrammarSandbox) -> None:
    slow = SLOW + "\n"
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(sandbox.problem, slow)
        assert sandbox.problem(VALID + "\n\n") is None
        assert not waiting.done()
        assert waiting.result() is not None


def test_reports_are_cached(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grammar_sandbox, "_MAX_REPORTS", 1)
    compiled: list[str] = []

    def report(_: object, grammar: str) -> str:
        compiled.append(grammar)
        return ""

    monkeypatch.setattr(grammar_sandbox._Worker, "report", report)
    sandbox = GrammarSandbox()
    for grammar in (VALID, VALID, DEEP, VALID):
        assert sandbox.problem(grammar) is None
    assert compiled == [VALID, DEEP, VALID]


class BlockedReport:
    """A compilation that ends, with a report or an error, when `release` is set."""

    def __init__(self, outcome: str | Exception) -> None:
        self.compiled: list[str] = []
        self.started, self.release = threading.Event(), threading.Event()
        self._outcome = outcome

    def __call__(self, grammar: str) -> str:
        self.compiled.append(grammar)
        self.started.set()
        self.release.wait()
        if isinstance(self._outcome, Exception):
            raise self._outcome
        return self._outcome


def test_equal_grammars_at_the_same_time_are_compiled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    blocked = BlockedReport("it is odd")
    monkeypatch.setattr(grammar_sandbox._Worker, "report", blocked)
    sandbox = GrammarSandbox()
    with ThreadPoolExecutor(20) as pool:
        first = pool.submit(sandbox.problem, VALID)
        blocked.started.wait()
        others = [pool.submit(sandbox.problem, VALID) for _ in range(19)]
        blocked.release.set()
        assert {one.result() for one in (first, *others)} == {"it is odd"}
    assert blocked.compiled == [VALID]


def test_the_number_that_waits_for_one_report_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    blocked = BlockedReport("")
    monkeypatch.setattr(grammar_sandbox, "_MAX_FOLLOWERS", 0)
    monkeypatch.setattr(grammar_sandbox._Worker, "report", blocked)
    sandbox = GrammarSandbox()
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(sandbox.problem, VALID)
        blocked.started.wait()
        with pytest.raises(RateLimited):
            sandbox.problem(VALID)
        blocked.release.set()
        assert first.result() is None
    assert sandbox.problem(VALID) is None


def test_an_error_reaches_all_who_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    blocked = BlockedReport(Unavailable("no"))
    monkeypatch.setattr(grammar_sandbox._Worker, "report", blocked)
    sandbox = GrammarSandbox()
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(sandbox.problem, VALID)
        blocked.started.wait()
        second = pool.submit(sandbox.problem, VALID)
        blocked.release.set()
        assert [type(one.exception()) for one in (first, second)] == [Unavailable, Unavailable]


def test_an_error_is_raised_also_where_its_grammar_is_no_longer_cached(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    blocked = BlockedReport(Unavailable("no"))

    def report(_: object, grammar: str) -> str:
        return blocked(grammar) if grammar == VALID else ""

    monkeypatch.setattr(grammar_sandbox, "_MAX_REPORTS", 1)
    monkeypatch.setattr(grammar_sandbox._Worker, "report", report)
    sandbox = GrammarSandbox()
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(sandbox.problem, VALID)
        blocked.started.wait()
        assert sandbox.problem(DEEP) is None
        blocked.release.set()
        assert type(first.exception()) is Unavailable


class Script:
    """A pipe from which grammars are read, and that records the messages sent."""

    def __init__(self, *grammars: str) -> None:
        self._grammars = list(grammars)
        self.sent: list[bytes] = []

    def send_bytes(self, report: bytes) -> None:
        self.sent.append(report)

    def recv_bytes(self) -> bytes:
        if not self._grammars:
            raise EOFError
        return self._grammars.pop(0).encode()


def test_the_process_reports_that_it_is_ready_and_ends_with_its_pipe() -> None:
    pipe: Any = Script(VALID, "start: (")
    with pytest.raises(EOFError):
        grammar_compiler.run(pipe, 60)
    assert [bool(report) for report in pipe.sent] == [False, False, False, True, False]


def stop_idle(sandbox: GrammarSandbox, by: int) -> None:
    """End the process that is used next, as an operator or the kernel would."""
    process = sandbox._workers[-1]._process
    assert process is not None
    process.send_signal(by)
    process.wait()


@pytest.mark.parametrize("by", [signal.SIGKILL, signal.SIGTERM])
def test_a_process_that_was_killed_is_replaced(by: int) -> None:
    sandbox = GrammarSandbox()
    sandbox.start()
    try:
        stop_idle(sandbox, by)
        assert sandbox.problem(VALID) is None
    finally:
        sandbox.close()


@pytest.mark.parametrize("failing", ["subprocess.Popen", "Pipe"])
def test_a_process_that_cannot_be_started_is_unavailable(
    failing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[Connection] = []

    def pipe() -> tuple[Connection, Connection]:
        opened.extend(Pipe())
        return opened[-2], opened[-1]

    def fail(*_: object, **__: object) -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(grammar_sandbox, "Pipe", pipe)
    monkeypatch.setattr(f"{grammar_sandbox.__name__}.{failing}", fail)
    sandbox = GrammarSandbox()
    sandbox.start()
    with pytest.raises(Unavailable):
        sandbox.problem(VALID)
    assert all(end.closed for end in opened)


def test_failures_of_the_process_are_not_cached(monkeypatch: pytest.MonkeyPatch) -> None:
    failures = (grammar_sandbox._NoReport() for _ in range(3))
    reports: Iterator[Exception | str] = iter([*failures, ""])

    def report(_: object, __: str) -> str:
        if isinstance(outcome := next(reports), Exception):
            raise outcome
        return outcome

    monkeypatch.setattr(grammar_sandbox._Worker, "report", report)
    sandbox = GrammarSandbox()
    with pytest.raises(Unavailable):
        sandbox.problem(VALID)
    assert sandbox.problem(VALID) is None


def test_a_timeout_of_the_process_is_no_report(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(grammar_sandbox, "_REPORT_SECONDS", 0.01)
    sandbox = GrammarSandbox(seconds=60)
    try:
        with pytest.raises(Unavailable):
            sandbox.problem(SLOW)
    finally:
        sandbox.close()


def test_too_many_grammars_are_rate_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grammar_sandbox, "_WORKERS", 1)
    monkeypatch.setattr(grammar_sandbox, "_MAX_QUEUED", 0)
    sandbox = GrammarSandbox()
    refused: list[Exception] = []

    def report(_: object, __: str) -> str:
        with pytest.raises(RateLimited) as caught:
            sandbox.problem(VALID + "\n")
        refused.append(caught.value)
        return ""

    monkeypatch.setattr(grammar_sandbox._Worker, "report", report)
    assert sandbox.problem(VALID) is None
    assert len(refused) == 1


def test_a_closed_sandbox_compiles_nothing() -> None:
    sandbox = GrammarSandbox()
    sandbox.close()
    with pytest.raises(Unavailable):
        sandbox.problem(VALID)
