"""How large a message of a server may be: the SDK reads and validates it on the event loop.

Standard library only: the supervisor of programs checks it, too.
"""

import re

MAX_RESPONSE = 4 << 20
"""Bytes of one response of a server, by HTTP or of a program, and of a whole list of tools."""

MAX_VALUES = 15_000
"""Values of JSON in one message of a server. To validate them takes up to 50 ms."""

DIGITS_PER_VALUE = 64
"""Digits of numbers that count as another value: the time of a number grows with their square."""

TOO_LARGE = "The server sent more than it may."
"""What a call is told of a message that is over a limit."""

_ESCAPED = re.compile(rb"\\.", re.DOTALL)
_VALUES = re.compile(rb"[\[{,]")
_DIGITS = b"0123456789"
_ENDS = (b"\n", b"\r\n", b"\r")
"""Ends of lines in a stream of events."""


class ValueCounter:
    """Counts the values of JSON in a body that arrives in chunks, by the signs outside strings.

    `DIGITS_PER_VALUE` digits count as a value, too. is_stream: whether the body is a stream of
    events, with a message in each.
    """

    def __init__(self, *, is_stream: bool) -> None:
        self._is_stream = is_stream
        self._digits = 0  # with those that values stand for
        self._in_string = False
        self._begins_line = is_stream
        # The last byte of a chunk, if it means something else together with the next one.
        self._carried = b""

    def add(self, chunk: bytes) -> int:
        """How many values a message has so far; the most if the chunk has parts of several."""
        data = self._carried + chunk
        backslashes = len(data) - len(data.rstrip(b"\\"))
        end = len(data) - (backslashes % 2 or data.endswith(b"\r"))
        data, self._carried = data[:end], data[end:]
        most = 0
        for line in data.splitlines(keepends=True) if self._is_stream else [data]:
            if self._begins_line and line in _ENDS:  # An empty line ends the event.
                self._digits = 0
                continue
            self._digits += self._in_line(line)
            most = max(most, self._digits)
            self._begins_line = self._is_stream and line.endswith(_ENDS)
            if self._begins_line:
                self._in_string = False  # No string of JSON has an end of line.
        return most // DIGITS_PER_VALUE

    def _in_line(self, line: bytes) -> int:
        parts = _ESCAPED.sub(b"", line).split(b'"')
        outside = b'"'.join(parts[self._in_string :: 2])
        self._in_string ^= len(parts) % 2 == 0
        digits = len(outside) - len(outside.translate(None, _DIGITS))
        return DIGITS_PER_VALUE * len(_VALUES.findall(outside)) + digits
