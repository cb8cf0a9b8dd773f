"""Stop strings in text that arrives in pieces."""

import re
from collections.abc import Sequence


class StopStrings:
    """Finds the first stop string; holds back only text that may still become one.

    stops: non-empty strings; an empty sequence passes all text through.
    """

    def __init__(self, stops: Sequence[str]) -> None:
        longest_first = sorted(stops, key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, longest_first))) if stops else None
        self._prefixes = {stop[:n] for stop in stops for n in range(1, len(stop))}
        self._longest = max(map(len, self._prefixes), default=0)
        self._held = ""

    def push(self, text: str) -> tuple[str, bool]:
        """The text that is safe to send, and whether a stop string came right after it."""
        if self._pattern is None:
            return text, False
        held = self._held + text
        if match := self._pattern.search(held):
            self._held = ""
            return held[: match.start()], True
        keep = self._suffix(held)
        self._held = held[len(held) - keep :]
        return held[: len(held) - keep], False

    def flush(self) -> str:
        """What was held back and has turned out to be text."""
        held, self._held = self._held, ""
        return held

    def _suffix(self, text: str) -> int:
        for length in range(min(self._longest, len(text)), 0, -1):
            if text[len(text) - length :] in self._prefixes:
                return length
        return 0
