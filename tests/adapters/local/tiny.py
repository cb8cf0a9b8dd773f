"""A gpt-oss that is small enough for many tests."""

from pathlib import Path
from typing import Any

import torch


def write_tiny(folder: Path, **fields: Any) -> Path:
    """Write one of a few hundred kilobytes, with a vocabulary of 1,000, into a folder.

    fields: of its configuration, instead of those here.
    """
    # Not above: where the backend is tested, `lean_imports` has to come first.
    from transformers import AutoConfig, AutoModelForCausalLM

    small = {
        "vocab_size": 1000,
        "hidden_size": 64,
        "intermediate_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "head_dim": 32,
        "num_local_experts": 2,
        "num_experts_per_tok": 1,
        "initializer_range": 0.2,
        "pad_token_id": 0,
    }
    build: Any = AutoModelForCausalLM.from_config
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        config = AutoConfig.for_model("gpt_oss", **(small | fields))
        build(config, dtype=torch.bfloat16).save_pretrained(folder)
    return folder
