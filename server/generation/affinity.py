"""Which prompts are of one conversation, told by their tokens: a pool of engines goes by it."""

from array import array
from hashlib import blake2b

from harmony.messages import Role
from harmony.tokenizer import encode
from harmony.vocab import END, START


def conversation_key(prompt: tuple[int, ...]) -> str | None:
    """A digest of the prompt up to its first user message, that included; None where it has none.

    All turns of a conversation begin so, as long as its engine's cache is of use to them: with
    another system or developer message nothing of it could be taken.
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
