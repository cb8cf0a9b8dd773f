"""The command that checks a GPU: which checks there are, what is selected, and what is written."""

import json
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
import torch

from adapters.local.model import attention
from adapters.local.model.kernels import HOPPER_ATTENTION
from benchmarks.gpu_check import __main__ as command
from benchmarks.gpu_check import checks, servers
from benchmarks.gpu_check.results import Check, Skipped
from demo import checkpoint
from tests.benchmarks.test_gpu_check import check


@pytest.fixture
def hopper(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (9, 0))


@pytest.mark.usefixtures("hopper")
def test_on_a_gpu_without_a_model_its_checks_are_named_and_skipped() -> None:
    named = {one.name: one for one in command.plan("cuda", "demo", None, None)}
    assert {"load", "64 streams", "64 streams of 8192 prompt tokens"} <= set(named)
    assert "a prompt of 100000 tokens beside 16 streams" in named
    assert named["load"].run is command._no_model


async def test_checks_that_need_a_model_describe_how_to_name_one() -> None:
    with pytest.raises(Skipped, match="MODEL=openai/gpt-oss-20b make test-gpu"):
        await command._no_model()


@pytest.mark.parametrize(
    ("capability", "names"),
    [
        ((9, 0), ("eager", attention.NAME, HOPPER_ATTENTION)),
        ((8, 6), ("eager", attention.NAME)),
        ((7, 5), ("eager",)),
    ],
)
def test_each_attention_that_the_gpu_may_get_is_compared(
    monkeypatch: pytest.MonkeyPatch, capability: tuple[int, int], names: tuple[str, ...]
) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    assert checks.attention_names("cuda") == names
    planned = [one.name for one in command.plan("cuda", "demo", None, None)]
    expected = [f"attention {name} against float32 on the CPU" for name in names]
    assert planned[: len(names)] == expected


@pytest.mark.usefixtures("hopper")
def test_a_20b_has_to_stay_packed() -> None:
    named = {
        one.name: one.bound for one in command.plan("cuda", "demo", "openai/gpt-oss-20b", None)
    }
    assert named["load"] == "packed in 16 GB"


def test_checks_are_selected_by_parts_of_their_names() -> None:
    planned = [Check(name, "", command._no_model) for name in ("prefix hit", "load", "graphs")]
    assert command.selected(planned, []) == planned
    found = command.selected(planned, ["graph", "l", "load"])
    assert [one.name for one in found] == ["graphs", "load"]


def test_a_text_that_is_in_no_name_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        command.main(["--device", "cpu", "--only", "no such check", "--out", str(tmp_path)])
    assert "no check's name contains no such check" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


async def test_a_cpu_has_no_contract_suite_with_graphs() -> None:
    with pytest.raises(Skipped, match="decode graphs need CUDA"):
        await checks.contract_suite("cpu", checks.WITH_GRAPHS)


def test_without_a_gpu_one_sentence_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main([]) == 1
    assert "--device cpu" in capsys.readouterr().err


def test_the_page_and_the_json_are_written(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    planned = [check(({"x": 1}, True)), check(Skipped("no docker"))]
    monkeypatch.setattr(command, "plan", lambda *_: planned)
    monkeypatch.setattr(checkpoint, "ensure_random", lambda: tmp_path)
    assert command.main(["--device", "cpu", "--out", str(tmp_path / "out")]) == 0
    assert "| name | ok | x 1 | bound |" in (tmp_path / "out/results.md").read_text()
    content = json.loads((tmp_path / "out/results.json").read_text())
    assert [one["status"] for one in content["results"]] == ["ok", "skipped"]
    assert content["machine"]["device"] == "cpu"
    assert content["machine"]["model"] == "random weights of the demo checkpoint's shape"
    assert f"transformers {version('transformers')}" in content["machine"]["packages"]


# Other programs


@pytest.mark.parametrize(
    ("printed", "code", "figures"),
    [
        ("==== 20 passed in 9 s ====", 0, {"pytest": "20 passed in 9 s"}),
        (
            "FAILED tests/adapters/test_contract.py::test_a[transformers] - AssertionError: b\n"
            "= 1 failed in 9 s =",
            1,
            {
                "pytest": "1 failed in 9 s",
                "broken": "FAILED test_a[transformers] - AssertionError: b",
            },
        ),
    ],
)
async def test_what_the_contract_suite_found_is_named(
    monkeypatch: pytest.MonkeyPatch, printed: str, code: int, figures: dict[str, str]
) -> None:
    done = subprocess.CompletedProcess(["pytest"], code, printed, "")
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: done)
    assert await checks.contract_suite("cpu") == (figures, code == 0)


TABLE = """
api        masked  streams  tokens/s   CPU us/token
chat       no           1     10     11   0.93 (0.93-0.93)    100    110   0.91 (0.91-0.91)
chat       yes         16    100    110   0.88 (0.88-0.88)    100    110   0.91 (0.91-0.91)
"""


def test_the_ratios_of_vllm_are_read() -> None:
    assert servers.read_ratios(TABLE) == ({"chat 1": 0.93, "chat masked 16": 0.88}, False)
    with pytest.raises(RuntimeError, match="no ratio"):
        servers.read_ratios("")


async def test_vllm_needs_its_environment_and_a_model(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(servers, "VLLM_PYTHON", tmp_path / "none")
    with pytest.raises(Skipped, match=r"venv \.venv-vllm"):
        await servers.against_vllm("m")
    monkeypatch.setattr(servers, "VLLM_PYTHON", Path(sys.executable))
    with pytest.raises(Skipped, match="there is no vLLM"):
        await servers.against_vllm(None)
    monkeypatch.setattr(servers, "_vllm_version", lambda: "0.32.0+cpu")
    with pytest.raises(Skipped, match="build for CPUs"):
        await servers.against_vllm(None)
    monkeypatch.setattr(servers, "_vllm_version", lambda: "0.32.0")
    with pytest.raises(Skipped, match="no model"):
        await servers.against_vllm(None)


async def test_a_container_needs_an_image() -> None:
    with pytest.raises(Skipped, match="IMAGE="):
        await servers.second_start("m", None)
