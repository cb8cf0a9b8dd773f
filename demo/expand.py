"""From trained weights to an ordinary checkpoint folder that any engine for gpt-oss loads.

`python -m demo.expand build/demo/state.pt FOLDER`, then `gpt-oss-server serve --model FOLDER`.
"""

import argparse
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor
from transformers import GenerationConfig, GptOssConfig

from demo import weights
from demo.model import Shape
from demo.tokenizer import Progress, write_tokenizer


def expand(
    state: dict[str, Tensor],
    known: Tensor,
    folder: Path,
    progress: Progress = lambda stage, fraction: None,
) -> None:
    """Write model, configuration and tokenizer into `folder`; takes some nine seconds of a core.

    state, known: as `weights.unpack` returns them. Raises OSError where nothing can be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    write_tokenizer(folder, progress)
    progress("computing the embedding", 0.5)
    tensors = weights.checkpoint(*weights.build(state, known))
    progress("writing weights", 0.8)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    arguments = weights.config(Shape.of(state))
    config = GptOssConfig(**arguments, dtype=torch.bfloat16)
    config.architectures = ["GptOssForCausalLM"]
    config.save_pretrained(folder)
    stops = {name: value for name, value in arguments.items() if name.endswith("_token_id")}
    GenerationConfig(**stops).save_pretrained(folder)


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
