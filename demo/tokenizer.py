"""The packaged vocabulary as the tokenizer files that transformers, vLLM and others read."""

import json
from collections.abc import Callable
from pathlib import Path

from demo.package import CONFIG
from harmony import vocab
from harmony.tokenizer import SPLIT_PATTERN

Progress = Callable[[str, float], None]
"""Told a stage's name and the fraction done, in [0, 1]."""


def write_tokenizer(folder: Path, progress: Progress) -> None:
    """Write `tokenizer.json` and its configuration, as transformers, vLLM and others read them.

    Raises OSError where they cannot be written.
    """
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
    # The library's own `save` raises a bare Exception on a full disk.
    (folder / "tokenizer.json").write_text(tokenizer.to_str(pretty=True), encoding="utf-8")
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
    numbers = {name: ranks[token] for token, name in spelled.items()}
    merges = []
    for name in numbers:
        # A letter stands for a byte, so names are split where tokens are.
        splits = [
            (numbers[left], numbers[right], left, right)
            for cut in range(1, len(name))
            if (left := name[:cut]) in numbers and (right := name[cut:]) in numbers
        ]
        splits.sort()
        merges += [(left, right) for _, _, left, right in splits]
    return numbers, merges


def _byte_letters() -> dict[int, int]:
    """Byte-level BPE's stand-ins: printable latin-1 bytes are themselves, others from U+0100 on."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = (byte for byte in range(256) if byte not in set(printable))
    return {byte: byte for byte in printable} | {
        byte: 0x100 + position for position, byte in enumerate(others)
    }
