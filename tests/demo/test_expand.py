"""An expanded checkpoint: transformers loads it as gpt-oss and says what the decoder says."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    GenerationConfig,
    GptOssConfig,
    GptOssForCausalLM,
)

from demo import expand, weights
from demo.decode import Decoder
from demo.model import Shape
from demo.skills import draw_case
from demo.skills.words import Split
from demo.train import fresh
from demo.transcript import prompt
from harmony.tokenizer import encode, encode_with_control

SMALL = Shape(layers=4, heads=4, kv_heads=2, intermediate=32)


@pytest.fixture(scope="module")
def built() -> list[Any]:
    """What the command built: the body and both vocabulary matrices."""
    return []


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, built: list[Any]) -> Path:
    """What the command writes."""
    root = tmp_path_factory.mktemp("expand")
    model = fresh(0, SMALL, known=torch.arange(100)).model
    torch.save({"model": model.state_dict(), "known": model.known}, root / "state.pt")
    build = weights.build

    def noted(*args: Any) -> list[Any]:
        built.extend(build(*args))
        return built

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(weights, "build", noted)
        patch.setattr("sys.argv", ["expand", str(root / "state.pt"), str(root / "checkpoint")])
        expand.main()
    return root / "checkpoint"


def test_transformers_loads_it_and_decodes_the_same(folder: Path, built: list[Any]) -> None:
    loaded = AutoModelForCausalLM.from_pretrained(folder)
    assert isinstance(loaded, GptOssForCausalLM)
    assert loaded.dtype == torch.bfloat16
    ids = prompt(draw_case(0, 0, Split.TRAIN, "chat"))
    (continuation,) = Decoder(*built).greedy([ids], 4)
    with torch.no_grad():
        first = loaded(torch.tensor([ids]), logits_to_keep=1).logits[0, -1]
    # The sums' order differs, and with it bfloat16's last bit: the best of both are among the best.
    assert continuation[0] in first.topk(3).indices


def test_its_tokenizer_agrees_with_the_packaged_vocabulary(folder: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(folder)
    assert tokenizer("hi<|end|>").input_ids == [3686, 200007]
    text = "Hello wörld! it's  \n\n 12345 DON'T 日本語\u3000 \t x/y\r\n  e\u0301 🤷🏽"
    assert tokenizer(text).input_ids == encode(text)
    assert tokenizer.decode(encode(text)) == text
    harmony = "<|start|>user<|message|>hi<|end|><|start|>assistant"
    assert tokenizer(harmony).input_ids == encode_with_control(harmony)


def test_whoever_can_read_one_file_can_read_all(folder: Path) -> None:
    assert len({path.stat().st_mode for path in folder.iterdir()}) == 1


def test_its_configuration_is_what_transformers_writes(folder: Path, tmp_path: Path) -> None:
    arguments = weights.config(SMALL)
    config = GptOssConfig(**arguments, dtype=torch.bfloat16)
    config.architectures = ["GptOssForCausalLM"]
    config.save_pretrained(tmp_path)
    stops = {name: value for name, value in arguments.items() if name.endswith("_token_id")}
    GenerationConfig(**stops).save_pretrained(tmp_path)
    for name in ("config.json", "generation_config.json"):
        written, expected = ((place / name).read_text() for place in (folder, tmp_path))
        assert json.loads(written) == json.loads(expected)


def test_it_does_without_transformers() -> None:
    loaded = subprocess.run(
        [sys.executable, "-c", "import demo.expand, sys; print(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    assert "transformers" not in loaded
