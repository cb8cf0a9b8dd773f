r"""Replaces escapes in messages that stand for half a character: the SDK refuses such messages.

JavaScript cuts texts within characters, such as emoji, and writes what is left as `\ud83d`. The
escape `\ufffd`, of the same length, takes its place. Standard library only.
"""

import re

_HALF = re.compile(rb"\\u[dD][89a-fA-F]")
# The first alternative is a pair, which stays. The last one takes other escapes whole, so that the
# second backslash of `\\ud83d` begins none.
_ESCAPE = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    rb"|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)",
    re.DOTALL,
)
# The first half of a pair and a part of the second one, or a part of any half, at the end.
_UNFINISHED = re.compile(
    rb"(?<!\\)(?:\\\\)*(\\(?:u(?:"
    rb"[dD][89abAB][0-9a-fA-F]{2}(?:\\(?:u(?:[dD](?:[c-fC-F][0-9a-fA-F]?)?)?)?)?"
    rb"|[dD](?:[89a-fA-F][0-9a-fA-F]?)?)?)?)\Z"
)
_LONGEST = 11  # bytes of what is unfinished


def mend(message: bytes) -> bytes:
    """The whole of some JSON, without halves of characters."""
    if not _HALF.search(message):
        return message
    return _ESCAPE.sub(lambda found: rb"\ufffd" if found[1] else found[0], message)


class Mender:
    """Mends JSON that arrives in pieces."""

    def __init__(self) -> None:
        self._held = b""

    def add(self, piece: bytes) -> bytes:
        """The mended bytes so far, without those that the next piece may complete."""
        piece = self._held + piece
        # Not from within a row of backslashes: every second one of them is escaped.
        start = len(piece[:-_LONGEST].rstrip(b"\\"))
        unfinished = _UNFINISHED.search(piece, start)
        end = unfinished.start(1) if unfinished else len(piece)
        self._held = piece[end:]
        return mend(piece[:end])

    def end(self) -> bytes:
        """The mended rest."""
        return mend(self._held)
