"""From trained weights to an ordinary checkpoint folder that any engine for gpt-oss loads.

`python -m demo.expand build/demo/state.pt FOLDER`, then `gpt-oss-server serve --model FOLDER`.
"""

import argparse
import json
import shutil
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from demo import weights
from demo.model import Shape
from demo.tokenizer import Progress, write_tokenizer

_GPT_OSS: dict[str, Any] = {
    "architectures": ["GptOssForCausalLM"],
    "model_type": "gpt_oss",
    "dtype": "bfloat16",
    "attention_bias": True,
    "attention_dropout": 0.0,
    "hidden_act": "silu",
    "initializer_range": 0.02,
    "output_router_logits": False,
    "rms_norm_eps": 1e-05,
    "rope_parameters": {
        "rope_type": "yarn",
        "rope_theta": 150_000.0,
        "factor": 32.0,
        "original_max_position_embeddings": 4096,
        "beta_fast": 32.0,
        "beta_slow": 1.0,
        "truncate": False,
    },
    "router_aux_loss_coef": 0.001,
    "swiglu_alpha": 1.702,
    "swiglu_limit": 7.0,
    "use_cache": True,
}
"""What the class `GptOssConfig` adds to `weights.config`. The class is not used here: a server that
imported transformers for it would keep 100 MB that its own engine does without."""

_ATTENTION = ("sliding_attention", "full_attention")


def expand(
    state: dict[str, Tensor],
    known: Tensor,
    folder: Path,
    progress: Progress = lambda stage, fraction: None,
) -> None:
    """Write model, configuration and tokenizer into `folder`; takes some nine seconds of a core.

    state, known: as `weights.unpack` returns them. Raises OSError or safetensors' SafetensorError
    where a file cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    write_tokenizer(folder, progress)
    progress("computing the embedding", 0.5)
    tensors = weights.checkpoint(*weights.build(state, known))
    progress("writing weights", 0.8)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    # safetensors leaves its file to the owner alone, whatever others may read of new files.
    shutil.copymode(folder / "tokenizer.json", folder / "model.safetensors")
    _write_configuration(weights.config(Shape.of(state)), folder)


def _write_configuration(arguments: dict[str, Any], folder: Path) -> None:
    layers = [_ATTENTION[number % 2] for number in range(arguments["num_hidden_layers"])]
    made_for = {"transformers_version": version("transformers")}
    stops = {name: value for name, value in arguments.items() if name.endswith("_token_id")}
    for name, content in (
        ("config.json", _GPT_OSS | {"layer_types": layers} | arguments | made_for),
        ("generation_config.json", stops | made_for),
    ):
        text = json.dumps(content, indent=2, sort_keys=True)
        (folder / name).write_text(text + "\n", encoding="utf-8")


def main() -> None:
    """The command line: see the module's first lines."""
    parser = argparse.ArgumentParser(prog="python -m demo.expand", description=__doc__)
    parser.add_argument("state", type=Path)
    parser.add_argument("folder", type=Path)
    options = parser.parse_args()
    saved = torch.load(options.state, weights_only=True)
    # Through the packed form: what is served is what would be shipped.
    state, known = weights.unpack(weights.pack(saved["model"], saved["known"]))
    expand(state, known, options.folder)


if __name__ == "__main__":
    main()
