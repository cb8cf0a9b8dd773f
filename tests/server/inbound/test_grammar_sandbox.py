"""Grammars on trial: what does not compile, takes for ever or kills its compiler."""

import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from harmony.grammar import GrammarSpec, RegexText, SchemaJson, answer_grammar
from server.errors import RateLimited, Unavailable
from server.inbound import grammar_compiler, grammar_sandbox
from server.inbound.grammar_sandbox import GrammarSandbox

FINE = answer_grammar(GrammarSpec(answer=RegexText("a+")))
FOR_MINUTES = answer_grammar(
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
def trials() -> Iterator[GrammarSandbox]:
    made = GrammarSandbox(seconds=1.5)
    made.start()
    yield made
    made.close()


def test_a_grammar_that_compiles_has_no_problem(trials: GrammarSandbox) -> None:
    assert trials.problem(FINE) is None


def test_the_problem_is_one_clause(trials: GrammarSandbox) -> None:
    problem = trials.problem(answer_grammar(GrammarSpec(answer=RegexText("("))))
    assert problem is not None
    assert "regex" in problem
    assert "\n" not in problem


def test_one_that_takes_too_long_is_given_up(trials: GrammarSandbox) -> None:
    assert trials.problem(FOR_MINUTES) == "it takes longer than 1.5 s to compile"


def test_one_that_overflows_the_compilers_stack_harms_nothing(trials: GrammarSandbox) -> None:
    assert trials.problem(DEEP) == "it is too deep or too large to compile"
    assert trials.problem(FINE + "\n") is None


def test_a_slow_one_does_not_hold_up_others(trials: GrammarSandbox) -> None:
    slow = FOR_MINUTES + "\n"
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(trials.problem, slow)
        assert trials.problem(FINE + "\n\n") is None
        assert not waiting.done()
        assert waiting.result() is not None


def test_a_report_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grammar_sandbox, "_KEPT_REPORTS", 1)
    tried: list[str] = []
    monkeypatch.setattr(
        grammar_sandbox._Worker, "report", lambda _, grammar: tried.append(grammar) or ""
    )
    trials = GrammarSandbox()
    for grammar in (FINE, FINE, DEEP, FINE):
        assert trials.problem(grammar) is None
    assert tried == [FINE, DEEP, FINE]


class HeldBack:
    """A trial that ends, with a report or an error, when it is let go."""

    def __init__(self, outcome: str | Exception) -> None:
        self.tried: list[str] = []
        self.begun, self.let_go = threading.Event(), threading.Event()
        self._outcome = outcome

    def __call__(self, grammar: str) -> str:
        self.tried.append(grammar)
        self.begun.set()
        self.let_go.wait()
        if isinstance(self._outcome, Exception):
            raise self._outcome
        return self._outcome


def test_equal_grammars_that_come_at_once_are_one_trial(monkeypatch: pytest.MonkeyPatch) -> None:
    held = HeldBack("it is odd")
    monkeypatch.setattr(grammar_sandbox._Worker, "report", held)
    trials = GrammarSandbox()
    with ThreadPoolExecutor(20) as pool:
        first = pool.submit(trials.problem, FINE)
        held.begun.wait()
        others = [pool.submit(trials.problem, FINE) for _ in range(19)]
        held.let_go.set()
        assert {one.result() for one in (first, *others)} == {"it is odd"}
    assert held.tried == [FINE]


def test_only_so_many_wait_for_the_same_trial(monkeypatch: pytest.MonkeyPatch) -> None:
    held = HeldBack("")
    monkeypatch.setattr(grammar_sandbox, "_FOLLOWING", 0)
    monkeypatch.setattr(grammar_sandbox._Worker, "report", held)
    trials = GrammarSandbox()
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(trials.problem, FINE)
        held.begun.wait()
        with pytest.raises(RateLimited):
            trials.problem(FINE)
        held.let_go.set()
        assert first.result() is None
    assert trials.problem(FINE) is None


def test_those_who_wait_for_a_trial_that_fails_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    held = HeldBack(Unavailable("no"))
    monkeypatch.setattr(grammar_sandbox._Worker, "report", held)
    trials = GrammarSandbox()
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(trials.problem, FINE)
        held.begun.wait()
        second = pool.submit(trials.problem, FINE)
        held.let_go.set()
        assert [type(one.exception()) for one in (first, second)] == [Unavailable, Unavailable]


class Script:
    """A pipe that brings some grammars and remembers what is sent."""

    def __init__(self, *grammars: str) -> None:
        self._grammars = list(grammars)
        self.sent: list[bytes] = []

    def send_bytes(self, report: bytes) -> None:
        self.sent.append(report)

    def recv_bytes(self) -> bytes:
        if not self._grammars:
            raise EOFError
        return self._grammars.pop(0).encode()


def test_the_process_says_that_it_is_ready_before_each_grammar_and_ends_with_its_pipe() -> None:
    pipe = Script(FINE, "start: (")
    with pytest.raises(EOFError):
        grammar_compiler.run(pipe, 60)
    assert [bool(report) for report in pipe.sent] == [False, False, False, True, False]


def stop_idle(trials: GrammarSandbox, by: int) -> None:
    """End the process that is next to be used, as an operator or a lack of memory would."""
    process = trials._workers[-1]._process
    assert process is not None
    process.send_signal(by)
    process.wait()


@pytest.mark.parametrize("by", [signal.SIGKILL, signal.SIGTERM])
def test_a_process_that_ended_for_other_reasons_is_replaced(by: int) -> None:
    trials = GrammarSandbox()
    trials.start()
    try:
        stop_idle(trials, by)
        assert trials.problem(FINE) is None
    finally:
        trials.close()


def test_what_could_not_be_found_out_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    reports = iter(
        [grammar_sandbox._Accident(), grammar_sandbox._Accident(), grammar_sandbox._Accident(), ""]
    )

    def report(_: object, __: str) -> str:
        if isinstance(told := next(reports), Exception):
            raise told
        return told

    monkeypatch.setattr(grammar_sandbox._Worker, "report", report)
    trials = GrammarSandbox()
    with pytest.raises(Unavailable):
        trials.problem(FINE)
    assert trials.problem(FINE) is None


def test_a_process_that_starves_says_nothing_about_its_grammar(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(grammar_sandbox, "_STARVED_SECONDS", 0.01)
    trials = GrammarSandbox(seconds=60)
    try:
        with pytest.raises(Unavailable):
            trials.problem(FOR_MINUTES)
    finally:
        trials.close()


def test_too_many_at_once_are_told_to_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grammar_sandbox, "_WORKERS", 1)
    monkeypatch.setattr(grammar_sandbox, "_WAITING", 0)
    trials = GrammarSandbox()
    refused: list[Exception] = []

    def report(_: object, __: str) -> str:
        with pytest.raises(RateLimited) as caught:
            trials.problem(FINE + "\n")
        refused.append(caught.value)
        return ""

    monkeypatch.setattr(grammar_sandbox._Worker, "report", report)
    assert trials.problem(FINE) is None
    assert len(refused) == 1


def test_trials_that_are_closed_try_nothing() -> None:
    trials = GrammarSandbox()
    trials.close()
    with pytest.raises(Unavailable):
        trials.problem(FINE)
