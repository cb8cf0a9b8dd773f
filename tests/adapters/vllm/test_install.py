"""The project and vLLM install side by side; runs where vLLM is installed (`make test-vllm`)."""

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(find_spec("vllm") is None, reason="vLLM is not installed")

ROOT = Path(__file__).parents[3]


def test_pip_finds_a_set_that_suits_the_project_and_vllm(tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    command = [
        *(sys.executable, "-m", "pip", "install", "--disable-pip-version-check", "--quiet"),
        *("--dry-run", "--ignore-installed", "--report", str(report), f"{ROOT}[vllm]"),
    ]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr[-2000:]
    found = {
        entry["metadata"]["name"]: entry["metadata"]["version"]
        for entry in json.loads(report.read_text())["install"]
    }
    assert found["vllm"].startswith("0.32.")
    assert "gpt-oss-server" in found
    assert "oss-harmony" in found
    assert "openai-harmony" not in found
