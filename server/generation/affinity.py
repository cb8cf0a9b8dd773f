"""The affinity of a prompt: a key that all turns of a conversation share."""

from array import array
from hashlib import blake2b

from harmony.messages import Role
from harmony.tokenizer import encode
from harmony.vocab import END, START


def conversation_key(prompt: tuple[int, ...]) -> str | None:
    """A digest of the prompt up to the end of its first user message; None if it has none.

    All turns of a conversation share this prefix. A prompt with another system or developer message
    has another key, because the engine's cache would not match it either.
    """
    role = tuple(encode(Role.USER))
    try:
        start = prompt.index(START)
        while prompt[start + 1 : start + 1 + len(role)] != role:
            start = prompt.index(START, start + 1)
        end = prompt.index(END, start)
    except ValueError:
        return None
    return blake2b(array("I", prompt[: end + 1]).tobytes(), digest_size=16).hexdigest()
