"""Names that can be part of a header: of functions, namespaces, tools and users.

A header consists of words that spaces separate. A name is one word: letters, digits, marks,
punctuation and symbols of any script. Line ends, spaces, control and format characters (zero-width
characters among them), surrogates and unassigned code points are not allowed: they end the word or
are invisible in it. Control tokens need no rule, since text is never encoded as control tokens.
"""

from itertools import islice

MAX_CHARACTERS = 256
"""The length of the longest name. OpenAI allows 64 characters for functions, MCP servers 128."""

RULE = f"expected 1 to {MAX_CHARACTERS} printable characters without white space"
"""The condition of `is_name`, for error messages."""


def is_name(text: str) -> bool:
    """Whether `text` can be one word of a header."""
    return 0 < len(text) <= MAX_CHARACTERS and " " not in text and text.isprintable()


def is_title(text: str) -> bool:
    """Whether `text` consists of names that spaces separate, as the name of a format may."""
    return is_name(text.replace(" ", ""))


def without_illegal_characters(text: str) -> str:
    """The characters of `text` that a name may have, at most `MAX_CHARACTERS`; may be empty."""
    return "".join(islice(filter(is_name, text), MAX_CHARACTERS))
