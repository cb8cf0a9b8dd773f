"""The vocabulary of harmony: special tokens, stop tokens and the packaged byte-pair ranks.

`data/o200k_base.tokens` has the tokens of the public `o200k_base` ranks file in the order of their
ids: first the length of each token in one byte, then the bytes of all tokens. It is checked against
its hash. In this form it loads in a fifth of the time that the ranks file takes.

The special tokens are those of tiktoken's `o200k_harmony`. That encoding has two names for 200018;
only the first is used here, so that the vocabulary has as many names as ids.
"""

import base64
import hashlib
from functools import cache
from importlib import resources
from itertools import accumulate, pairwise

CONSTRAIN = 200003
RETURN = 200002
CHANNEL = 200005
START = 200006
END = 200007
MESSAGE = 200008
CALL = 200012
ENDOFTEXT = 199999

VOCAB_SIZE = 201088
FIRST_SPECIAL = 199998

STOP_TOKENS = frozenset({RETURN, CALL, ENDOFTEXT})
"""The tokens that end a turn when they are sampled."""

_NAMED = {
    199998: "startoftext",
    ENDOFTEXT: "endoftext",
    RETURN: "return",
    CONSTRAIN: "constrain",
    CHANNEL: "channel",
    START: "start",
    END: "end",
    MESSAGE: "message",
    CALL: "call",
    200018: "endofprompt",
}

SPECIAL_TOKENS: dict[str, int] = {
    f"<|{_NAMED.get(token, f'reserved_{token}')}|>": token
    for token in range(FIRST_SPECIAL, VOCAB_SIZE)
}

_FILE = "o200k_base.tokens"
_SHA256 = "440741350e7cfa1c0f4869ce742d1b043550adbda5187adcac9e787edac6fba9"


class VocabularyCorrupt(Exception):
    """The packaged vocabulary is damaged. Reinstall the package."""


def ranks_file() -> bytes:
    """The `o200k_base` ranks as published: one line per token, `base64(bytes) id`."""
    ordinary = token_bytes()[:FIRST_SPECIAL]
    return b"".join(b"%s %d\n" % (base64.b64encode(t), i) for i, t in enumerate(ordinary))


def ranks() -> dict[bytes, int]:
    """The ids of the ordinary tokens by their bytes, in a new dict of 17 MB."""
    return dict(zip(token_bytes(), range(FIRST_SPECIAL), strict=False))


@cache
def longest_token() -> int:
    """The length of the longest token in bytes.

    A text of n bytes has at least n divided by this number of tokens.
    """
    return max(map(len, token_bytes()))


@cache
def token_bytes() -> list[bytes]:
    """The bytes of each id, for special tokens their names. The list is shared and must not be
    changed.

    Raises VocabularyCorrupt if the packaged data is damaged.
    """
    data = resources.files("harmony").joinpath("data", _FILE).read_bytes()
    if hashlib.sha256(data).hexdigest() != _SHA256:
        raise VocabularyCorrupt(f"the packaged {_FILE} is damaged")
    bounds = pairwise(accumulate(data[:FIRST_SPECIAL], initial=FIRST_SPECIAL))
    ordinary = [data[start:end] for start, end in bounds]
    return ordinary + [name.encode() for name in SPECIAL_TOKENS]
