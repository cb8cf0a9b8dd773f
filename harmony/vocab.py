"""harmony's vocabulary: the special tokens, the stop tokens and the packaged byte-pair ranks.

`data/o200k_base.tiktoken.xz` is the public `o200k_base` ranks file, unchanged but for the
compression; what is unpacked is checked against the hash that tiktoken pins for it. Special tokens
as in tiktoken's `o200k_harmony`, where 200018 has two names: the first is kept, so that the
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
"""Sampling one of these ends a turn."""

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
    """The packaged vocabulary is not the file that it should be; reinstall the package."""


def ranks_file() -> bytes:
    """The `o200k_base` ranks as published: a line for each token, `base64(bytes) id`.

    Raises VocabularyCorrupt when the package's data is damaged.
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
    """Each ordinary token's bytes and id. Shared: do not change it."""
    fields = ranks_file().split()
    return dict(zip(map(base64.b64decode, fields[::2]), map(int, fields[1::2]), strict=True))


@cache
def longest_token() -> int:
    """The bytes of the longest token: a text has at least its length divided by this."""
    return max(map(len, token_bytes()))


@cache
def token_bytes() -> list[bytes]:
    """Each id's bytes, special tokens as they are spelled. Shared: do not change it."""
    ordinary = sorted(ranks(), key=ranks().__getitem__)
    return ordinary + [name.encode() for name in SPECIAL_TOKENS]
