"""Cases of the built-in tool python: the outputs are those of the code, in the server's form."""

import ast
from typing import Any

import pytest
from IPython.core.interactiveshell import InteractiveShell

from demo.skills import python
from demo.skills.case import Case
from demo.skills.words import Split
from demo.transcript import transcript
from harmony.messages import Effort, Role
from server.tools.python import output
from tests.demo.drawing import drawn


def cells(case: Case) -> list[tuple[str, str]]:
    """The code of each cell, and the output that the case has for it."""
    return [
        (str(turn.messages[-1].content), str(turn.results[0].content))
        for turn in case.turns
        if turn.messages[-1].recipient == "python"
    ]


def run(code: str, names: dict[str, Any]) -> str:
    """The value of the last expression, as IPython shows it; the note where there is none."""
    tree = ast.parse(code)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "cell", "exec"), names)
    if not isinstance(last, ast.Expr):
        return output.NO_OUTPUT
    return repr(eval(compile(ast.Expression(last.value), "cell", "eval"), names))


@pytest.mark.parametrize("split", Split)
def test_outputs_are_those_of_the_code(split: Split) -> None:
    seen = 0
    for index in range(300):
        names: dict[str, Any] = {}
        for code, shown in cells(python.case(drawn(index, split))):
            assert run(code, names) == shown
            seen += 1
    assert seen > 250


def test_answers_hold_the_output() -> None:
    for index in range(200):
        case = python.drill(drawn(index))
        for cell, answer in zip(case.turns[::2], case.turns[1::2], strict=True):
            shown = str(cell.results[0].content)
            if shown != output.NO_OUTPUT:
                assert shown.strip("'") in str(answer.messages[-1].content)


def requests(case: Case) -> list[str]:
    results = [message for turn in case.turns for message in turn.results]
    asked = [m for m in (*case.history, *results) if m.author.role is Role.USER]
    return [str(message.content) for message in asked]


def numbers(code: str) -> set[str]:
    values = (node.value for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Constant))
    return {str(value) for value in values if type(value) is int}


def test_numbers_of_the_code_stand_in_the_request() -> None:
    for index in range(200):
        case = python.drill(drawn(index))
        for (code, _), request in zip(cells(case), requests(case), strict=True):
            # Of a reversed word, of percent, and of what programs do to each number.
            fixed = {"0", "1", "2", "3", "4", "7", "9", "10", "32", "60", "100", "5"}
            assert all(number in request for number in numbers(code) - fixed)


def test_requests_of_the_evaluation_are_worded_otherwise() -> None:
    assert not set(python.ASK[Split.TRAIN]) & set(python.ASK[Split.HELD_OUT])


def test_cases_fit_the_trainer() -> None:
    for index in range(60):
        assert (
            len(transcript(python.drill(drawn(index, effort=list(Effort)[index % 3]))).ids) < 1900
        )


def test_a_failed_cell_is_mended_once_with_the_traceback_of_ipython(
    capsys: pytest.CaptureFixture[str],
) -> None:
    mended = 0
    for index in range(300):
        case = python.case(drawn(index))
        failed = [m for m in case.history if m.recipient == "python"]
        if failed:
            shell = InteractiveShell.instance(colors="nocolor")
            shell.run_cell(str(failed[0].content), store_history=True)  # type: ignore[no-untyped-call]
            InteractiveShell.clear_instance()
            assert capsys.readouterr().out.strip() == str(case.history[-1].content).strip()
            [(code, shown)] = cells(case)
            assert run(code, {}) == shown
            mended += 1
    assert mended > 20
