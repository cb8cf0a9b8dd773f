"""What may stand in a header as a name: of a function, a namespace, a tool, a user.

A header is a line of words that spaces separate, so a name is one word: of letters, digits, marks,
punctuation and symbols of any script. Line ends, spaces, control and format characters (zero-width
ones among them), surrogates and unassigned code points would end the word, or hide in it.
Control tokens need no rule: no text is ever encoded as one.
"""

MAX_CHARACTERS = 256
"""The longest name. OpenAI's functions have at most 64 characters, those of MCP servers 128."""

RULE = f"expected 1 to {MAX_CHARACTERS} printable characters without white space"
"""What `is_name` asks for, as a clause."""


def is_name(text: str) -> bool:
    """Whether `text` can stand in a header as one word."""
    return 0 < len(text) <= MAX_CHARACTERS and " " not in text and text.isprintable()


def is_title(text: str) -> bool:
    """Whether `text` is made of names that plain spaces separate, as that of a format may be."""
    return is_name(text.replace(" ", ""))


def cut(text: str) -> str:
    """What of `text` can be a name, as far as one may be long; nothing may be left."""
    return "".join(filter(is_name, text))[:MAX_CHARACTERS]
