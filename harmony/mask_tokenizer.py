"""The vocabulary in the form in which llguidance computes masks."""

from functools import cache

from llguidance import LLTokenizer
from llguidance.tiktoken import lltokenizer_from_encoding

from harmony.tokenizer import encoding
from harmony.vocab import ENDOFTEXT, VOCAB_SIZE


@cache
def mask_tokenizer() -> LLTokenizer:
    """The tokenizer of this process. Cached, because building it takes seconds."""
    return lltokenizer_from_encoding(encoding(), n_vocab=VOCAB_SIZE, eos_token=ENDOFTEXT)
