"""Messages that share a field of an answer: a preamble and the answer, two stretches of reasoning.

What is shown is put together here; what comes back is compared with it.
"""

from collections.abc import Iterable

BETWEEN_MESSAGES = "\n\n"


def joined(texts: Iterable[str]) -> str:
    """The field's whole text; a message without text leaves no gap in it."""
    return BETWEEN_MESSAGES.join(filter(None, texts))
