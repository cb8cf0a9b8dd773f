"""Finds stop strings in streamed text."""

from collections.abc import Sequence


class StopStrings:
    """Finds the first complete stop string; buffers only text that may be the start of one.

    The output does not depend on how the text is cut into pieces. If two stop strings end at the
    same character, the longer one counts.

    stops: non-empty strings; with an empty sequence all text passes.
    """

    def __init__(self, stops: Sequence[str]) -> None:
        self._stops = tuple(stops)
        self._longest = max(map(len, self._stops), default=0)
        self._buffer = ""

    def push(self, text: str) -> tuple[str, bool]:
        """The text that is safe to send, and whether a stop string came right after it."""
        if not self._stops:
            return text, False
        text = self._buffer + text
        ends = [(at + len(stop), at) for stop in self._stops if (at := text.find(stop)) >= 0]
        if ends:
            self._buffer = ""
            return text[: min(ends)[1]], True
        safe = self._safe(text)
        self._buffer = text[safe:]
        return text[:safe], False

    def flush(self) -> str:
        """The buffered text, which is no stop string."""
        text, self._buffer = self._buffer, ""
        return text

    def _safe(self, text: str) -> int:
        """The length of the text before the first possible start of a stop string."""
        for start in range(max(0, len(text) - self._longest + 1), len(text)):
            if any(stop.startswith(text[start:]) for stop in self._stops):
                return start
        return len(text)
