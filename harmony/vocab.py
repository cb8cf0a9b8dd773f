"""The vocabulary of harmony: special tokens, stop tokens and the packaged byte-pair ranks.

`data/o200k_base.tiktoken.xz` is the public `o200k_base` ranks file, compressed. The unpacked file
is checked against the hash that tiktoken pins. The special tokens are those of tiktoken's
`o200k_harmony`. That encoding has two names for 200018; only the first is used here, so that the
vocabulary has as many names as ids.
"""

import base64
import hashlib
import lzma
from functools import cache
from importlib import resources

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

_FILE = "o200k_base.tiktoken"
_SHA256 = "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d"


class VocabularyCorrupt(Exception):
    """The packaged vocabulary is damaged. Reinstall the package."""


def ranks_file() -> bytes:
    """The `o200k_base` ranks as published: one line per token, `base64(bytes) id`.

    Raises VocabularyCorrupt if the packaged data is damaged.
    """
    packed = resources.files("harmony").joinpath("data", f"{_FILE}.xz").read_bytes()
    try:
        data = lzma.decompress(packed)
    except lzma.LZMAError as error:
        raise VocabularyCorrupt(f"{_FILE}.xz cannot be unpacked: {error}") from error
    if hashlib.sha256(data).hexdigest() != _SHA256:
        raise VocabularyCorrupt(f"{_FILE}.xz does not hold the published {_FILE}")
    return data


@cache
def ranks() -> dict[bytes, int]:
    """The ids of the ordinary tokens by their bytes. The dict is shared and must not be changed."""
    fields = ranks_file().split()
    return dict(zip(map(base64.b64decode, fields[::2]), map(int, fields[1::2]), strict=True))


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
    """
    ordinary = sorted(ranks(), key=ranks().__getitem__)
    return ordinary + [name.encode() for name in SPECIAL_TOKENS]
