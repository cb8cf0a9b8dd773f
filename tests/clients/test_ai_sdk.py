"""Vercel's AI SDK against a real server process, with both providers of open models."""

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

SOURCE = Path(__file__).parent / "js"
START = "<|start|>assistant"
ANSWER = (
    f"<|channel|>analysis<|message|>Greet.<|end|>{START}<|channel|>final<|message|>Hello!<|return|>"
)
CALL = (
    "<|channel|>analysis<|message|>Ask.<|end|>"
    f"{START}<|channel|>commentary<|message|>Looking it up.<|end|>"
    f"{START}<|channel|>commentary to=functions.weather <|constrain|>json"
    '<|message|>{"city":"Paris"}<|call|>'
)
SCRIPT = [
    {
        # The second turn repeats the first one as it was sampled, its reasoning included.
        "prompt_contains": f"{START}{CALL}",
        "completion": ANSWER.replace("Hello", "It is warm"),
    },
    {"prompt_contains": "<|message|>What is the weather in Paris?<|end|>", "completion": CALL},
    {
        "prompt_contains": "as an event",
        "completion": '<|channel|>final<|message|>{"name":"Fair","day":3}<|return|>',
    },
    {"prompt_contains": "Say hello", "completion": ANSWER},
]


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the script and its packages installed, as the lock says."""
    if not (shutil.which("node") and (npm := shutil.which("npm"))):
        pytest.skip("there is no Node.js")
    folder = tmp_path_factory.mktemp("js")
    shutil.copytree(SOURCE, folder, dirs_exist_ok=True)
    install = [npm, "ci", "--silent", "--no-audit", "--no-fund"]
    done = subprocess.run(install, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"npm cannot install the packages: {done.stderr[-200:]}")
    return folder


@pytest.fixture(scope="module")
def base_url(serve: Callable[..., str]) -> str:
    return serve(SCRIPT, "--served-model-name", "gpt-oss-test")


@pytest.mark.parametrize("provider", ["compatible", "openrouter"])
def test_the_ai_sdk_reads_everything(packages: Path, base_url: str, provider: str) -> None:
    command = ["node", "chat.mjs", provider, base_url, "gpt-oss-test"]
    done = subprocess.run(
        command, cwd=packages, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    told: dict[str, Any] = json.loads(done.stdout)
    for answer in (told["whole"], told["streamed"]):
        assert (answer["text"], answer["reasoning"]) == ("Hello!", "Greet.")
        assert answer["usage"]["outputTokens"] > 0
        assert answer["usage"]["outputTokenDetails"]["reasoningTokens"] > 0
    assert told["streamed"]["parts"]["reasoning-delta"] > 1
    for round_trip in (told["tools"], told["streamedTools"]):
        assert round_trip == {"text": "It is warm!", "steps": 2, "preamble": "Looking it up."}
    assert told["asked"] == ["Paris", "Paris"]
    assert told["structured"] == {"name": "Fair", "day": 3}
