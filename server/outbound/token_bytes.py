"""The bytes of tokens, for clients that show each token.

A character may be split over several tokens. The bytes of these tokens together are its UTF-8.
"""

from collections.abc import Iterable

from harmony.vocab import VOCAB_SIZE, token_bytes

_REPLACEMENT = "\N{REPLACEMENT CHARACTER}".encode().hex()


def hexadecimal(ids: Iterable[int]) -> list[str]:
    """The bytes of each token, as hexadecimal digits; for control tokens those of their names.

    Unknown ids have the bytes of U+FFFD.
    """
    pieces = token_bytes()
    known = range(VOCAB_SIZE)
    return [pieces[token].hex() if token in known else _REPLACEMENT for token in ids]
