"""The checkpoint that is served where none is named: made on first use, kept in the user's cache.

A small gpt-oss with random weights: the real configuration class, the real vocabulary, real files,
so that everything around the model can be tried on any machine. What it says has no meaning.
"""

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from harmony import vocab

Progress = Callable[[str, float], None]

SEED = 0
CONFIG: dict[str, Any] = {
    "vocab_size": vocab.VOCAB_SIZE,
    "hidden_size": 256,
    "intermediate_size": 256,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 64,
    "num_local_experts": 4,
    "num_experts_per_tok": 2,
    "sliding_window": 128,
    "tie_word_embeddings": True,
    "max_position_embeddings": 131_072,
    "initializer_range": 0.1,
    "bos_token_id": 199_998,
    "eos_token_id": sorted(vocab.STOP_TOKENS),
    "pad_token_id": vocab.ENDOFTEXT,
}

# Source: the pattern that tiktoken publishes for o200k_base.
SPLIT_PATTERN = "|".join(
    [
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
        r"\p{N}{1,3}",
        r" ?[^\s\p{L}\p{N}]+[\r\n/]*",
        r"\s*[\r\n]+",
        r"\s+(?!\S)",
        r"\s+",
    ]
)


def ensure(
    cache_dir: Path | None = None, progress: Progress = lambda stage, fraction: None
) -> Path:
    """The checkpoint's folder, made if it is not there yet.

    cache_dir: where folders of all versions lie; by default the user's cache. `progress` is called
    with a stage and the fraction done in [0, 1]. A folder appears whole or not at all, also when
    several processes make it at once. Raises OSError where the folder cannot be written.
    """
    root = cache_dir if cache_dir is not None else default_cache_dir()
    folder = root / f"random-{version()}"
    if folder.is_dir():
        return folder
    root.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(prefix=".draft-", dir=root))
    try:
        write_tokenizer(draft, progress)
        _write_model(draft, progress)
        draft.chmod(0o755)
        try:
            draft.rename(folder)
        except OSError:
            if not folder.is_dir():  # else another process was first, with the same content
                raise
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    progress("checkpoint written", 1.0)
    return folder


def default_cache_dir() -> Path:
    """`gpt-oss-server` in XDG_CACHE_HOME, or in `~/.cache`."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "gpt-oss-server"


def version() -> str:
    """A name for what `ensure` writes; changes with everything that the weights depend on."""
    content = json.dumps([SEED, CONFIG, SPLIT_PATTERN], sort_keys=True)
    return hashlib.sha256(content.encode()).hexdigest()[:12]


def _write_model(folder: Path, progress: Progress) -> None:
    import torch
    from transformers import AutoModelForCausalLM, GptOssConfig

    progress("drawing weights", 0.5)
    build: Any = AutoModelForCausalLM.from_config
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(SEED)
        model = build(GptOssConfig(**CONFIG), dtype=torch.bfloat16)
    progress("writing weights", 0.8)
    model.save_pretrained(folder)


def write_tokenizer(folder: Path, progress: Progress) -> None:
    """Write `tokenizer.json` and its configuration, as transformers, vLLM and others read them."""
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers

    progress("writing the tokenizer", 0.1)
    names, merges = _merges()
    tokenizer = Tokenizer(models.BPE(names, merges, ignore_merges=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(SPLIT_PATTERN), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(
        [AddedToken(name, normalized=False, special=True) for name in vocab.SPECIAL_TOKENS]
    )
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(
        json.dumps(
            {
                "tokenizer_class": "PreTrainedTokenizerFast",
                "bos_token": "<|startoftext|>",
                "eos_token": "<|return|>",
                "pad_token": "<|endoftext|>",
                "clean_up_tokenization_spaces": False,
                "model_input_names": ["input_ids", "attention_mask"],
                "model_max_length": CONFIG["max_position_embeddings"],
            }
        )
    )


def _merges() -> tuple[dict[str, int], list[tuple[str, str]]]:
    """The ranks in the tokenizers library's terms: names of bytes, and every pair that may merge.

    tiktoken merges any two neighbours whose join is a token, lowest rank first; so each token
    contributes all its splits into two tokens, in the order of ranks.
    """
    ranks = vocab.ranks()
    letters = _byte_letters()
    spelled = {
        token: token.decode("latin-1").translate(letters)
        for token in sorted(ranks, key=ranks.__getitem__)
    }
    merges = []
    for token in spelled:
        splits = [
            (token[:cut], token[cut:])
            for cut in range(1, len(token))
            if token[:cut] in ranks and token[cut:] in ranks
        ]
        splits.sort(key=lambda pair: (ranks[pair[0]], ranks[pair[1]]))
        merges += [(spelled[left], spelled[right]) for left, right in splits]
    return {name: ranks[token] for token, name in spelled.items()}, merges


def _byte_letters() -> dict[int, int]:
    """Byte-level BPE's stand-ins: printable latin-1 bytes are themselves, others from U+0100 on."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = (byte for byte in range(256) if byte not in set(printable))
    return {byte: byte for byte in printable} | {
        byte: 0x100 + position for position, byte in enumerate(others)
    }
