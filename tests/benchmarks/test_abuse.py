"""Attacks on a server: how their results are judged. The attacks themselves are not run here."""

import pytest

from benchmarks.abuse import __main__ as command
from benchmarks.abuse import rows
from benchmarks.abuse.anonymous import at_once
from benchmarks.abuse.harness import Answers, Result, Row, Target, measure


async def nothing(target: Target) -> Answers:
    return Answers({})


ROW = Row("an attack", nothing, frozenset({"400", "413"}), stall=0.1, memory=1000)


def result(answers: dict[str, int], stall: float = 0.1) -> Result:
    return Result(stall, 1000, 0, Answers(answers))


@pytest.mark.parametrize(
    ("answers", "as_expected"),
    [
        ({"400": 3}, True),
        ({"400": 3, "413": 1}, True),
        ({"400": 3, "404": 1}, False),
        ({"500": 1}, False),
        ({"closed": 1}, False),
        ({}, False),
    ],
)
def test_only_the_expected_answers_are_right(answers: dict[str, int], as_expected: bool) -> None:
    assert result(answers).as_expected(ROW) == as_expected


@pytest.mark.parametrize(
    ("found", "passes", "shown"),
    [
        (result({"400": 1}), True, "ok    an attack"),
        (result({"400": 1}, stall=0.2), False, "OVER  an attack"),
        (result({"400": 1, "404": 2}), False, "WRONG an attack"),
    ],
)
def test_a_row_passes_within_its_bounds_and_with_its_answers(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    found: Result,
    passes: bool,
    shown: str,
) -> None:
    monkeypatch.setattr(command, "measure", lambda row: found)
    assert command.report(ROW) == passes
    printed = capsys.readouterr().out
    assert printed.startswith(shown)
    assert ("2 x 404, 1 x 400, expected 400 or 413" in printed) == shown.startswith("WRONG")


def test_each_row_says_what_it_expects_under_a_name_of_its_own() -> None:
    assert all(row.expected for row in rows.ALL)
    assert len({row.name for row in rows.ALL}) == len(rows.ALL)


def test_a_server_that_answers_otherwise_is_noticed() -> None:
    mistyped = Row("mistyped", at_once(2, "/v1/response", b"{}"), frozenset({"400"}))
    found = measure(mistyped)
    assert found.answers.counts == {"404": 2}
    assert not found.as_expected(mistyped)
