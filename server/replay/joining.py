"""Texts of messages that share one field of an answer.

Examples are a preamble and the answer, and two reasoning messages. Answers are written with the
same separator with which conversations from clients are compared.
"""

from collections.abc import Iterable

BETWEEN_MESSAGES = "\n\n"


def join_texts(texts: Iterable[str]) -> str:
    """The whole text of the field. Empty texts add no separator."""
    return BETWEEN_MESSAGES.join(filter(None, texts))
