"""How many tokens the engine has computed since the server started."""

from dataclasses import dataclass


@dataclass(slots=True)
class TokenCounts:
    """Counters of all answers of this process; they only grow.

    prompt: the tokens of the prompts of turns that ended; a prompt that several answers to a
    request share counts once. cached: how many of these came from the engine's prefix cache.
    sampled: sampled tokens, counted as they arrive.
    """

    prompt: int = 0
    cached: int = 0
    sampled: int = 0
