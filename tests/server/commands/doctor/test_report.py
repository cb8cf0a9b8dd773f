"""`gpt-oss-server doctor`: its two forms and its exit status."""

import json

import pytest

from server.commands.doctor import report as module
from server.commands.doctor.check import Check
from server.commands.doctor.report import report, report_json, worst
from server.commands.main import main
from server.settings import Settings

OK = Check("a", "ok", "fine")
WARNING = Check("bb", "warning", "so so", "do this")
FAILED = Check("ccc", "failed", "bad", "do that")


def test_the_worst_check_decides() -> None:
    assert worst([OK, WARNING, OK]) == "warning"
    assert worst([WARNING, FAILED, OK]) == "failed"


def test_each_line_has_advice() -> None:
    assert report([OK, WARNING, FAILED]).splitlines() == [
        "ok       a    fine",
        "warning  bb   so so",
        "              -> do this",
        "FAILED   ccc  bad",
        "              -> do that",
        "serve would fail: ccc",
    ]


@pytest.mark.parametrize(("checks", "status"), [([OK, WARNING], 0), ([OK, FAILED], 1)])
def test_the_exit_status_is_whether_serve_would_run(
    checks: list[Check],
    status: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(module, "examine", lambda settings: iter(checks))
    assert main(["doctor", "--json", "--port", "0"]) == status
    printed = json.loads(capsys.readouterr().out)
    assert printed["status"] == worst(checks)
    assert printed["checks"][1] == {
        "name": checks[1].name,
        "status": checks[1].status,
        "fact": checks[1].fact,
        "advice": checks[1].advice,
    }


def test_a_check_that_is_well_has_no_advice() -> None:
    listed = json.loads(report_json([Check("a", "ok", "fine", "do this")]))["checks"]
    assert listed[0]["advice"] == ""


def test_it_takes_the_options_of_serve(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[Settings] = []

    def examine(settings: Settings) -> list[Check]:
        asked.append(settings)
        return [OK]

    monkeypatch.setattr(module, "examine", examine)
    monkeypatch.setenv("GPT_OSS_PORT", "123")
    assert main(["doctor", "--backend", "vllm", "--model", "m"]) == 0
    assert asked == [Settings(backend="vllm", model="m", port=123)]
    assert capsys.readouterr().out.endswith("serve would run\n")
