"""Stop strings in text that arrives in pieces."""

from collections.abc import Sequence


class StopStrings:
    """Finds the stop string that is complete first; holds back only what may still become one.

    What comes out does not depend on how the text is cut into pieces. Where two stop strings are
    complete at the same character, the longer one is meant.

    stops: non-empty strings; an empty sequence passes all text through.
    """

    def __init__(self, stops: Sequence[str]) -> None:
        self._stops = tuple(stops)
        self._longest = max(map(len, self._stops), default=0)
        self._held = ""

    def push(self, text: str) -> tuple[str, bool]:
        """The text that is safe to send, and whether a stop string came right after it."""
        if not self._stops:
            return text, False
        text = self._held + text
        ends = [(at + len(stop), at) for stop in self._stops if (at := text.find(stop)) >= 0]
        if ends:
            self._held = ""
            return text[: min(ends)[1]], True
        safe = self._safe(text)
        self._held = text[safe:]
        return text[:safe], False

    def flush(self) -> str:
        """What was held back and has turned out to be text."""
        held, self._held = self._held, ""
        return held

    def _safe(self, text: str) -> int:
        """How much of `text` comes before the first place where a stop string may have begun."""
        for start in range(max(0, len(text) - self._longest + 1), len(text)):
            if any(stop.startswith(text[start:]) for stop in self._stops):
                return start
        return len(text)
