"""The packaged weights: the file, its hash, and the configuration that it belongs to."""

import hashlib
from importlib import resources
from typing import Any

from demo import lexicon
from harmony import vocab

FILE = "demo.xz"
SHA256 = "57250dad05cb992da74cd469a7fdfc3ee7830eff23e2a0d5cfeb4d17c51c869c"

LEXICON = "cd81b625677cf987ccfdd7db72f7a1c84787afa30dfd72753cb506558230abee"
"""The hash of the lexicon that the weights were trained with."""

CONFIG: dict[str, Any] = {
    "vocab_size": vocab.VOCAB_SIZE,
    "hidden_size": 256,
    "intermediate_size": 384,
    "num_hidden_layers": 8,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "head_dim": 64,
    "num_local_experts": 4,
    "num_experts_per_tok": 2,
    "sliding_window": 128,
    "tie_word_embeddings": False,
    "max_position_embeddings": 131_072,
    "bos_token_id": 199_998,
    "eos_token_id": sorted(vocab.STOP_TOKENS),
    "pad_token_id": vocab.ENDOFTEXT,
}
"""The arguments of `GptOssConfig`; all else is as in gpt-oss."""


class WeightsCorrupt(Exception):
    """The packaged weights are not the file that they should be."""


def packaged() -> bytes:
    """The packaged weights, checked. Raises WeightsCorrupt when they are missing or damaged, or
    do not belong to the lexicon."""
    if hashlib.sha256(lexicon.text().encode()).hexdigest() != LEXICON:
        raise WeightsCorrupt("the lexicon is not the one that the weights were trained with")
    file = resources.files("demo").joinpath("data", FILE)
    if not file.is_file():
        raise WeightsCorrupt(f"{FILE} is not in the package")
    data = file.read_bytes()
    if hashlib.sha256(data).hexdigest() != SHA256:
        raise WeightsCorrupt(f"{FILE} does not hold the published weights")
    return data
