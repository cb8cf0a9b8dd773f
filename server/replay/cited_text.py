"""Comparison of a text that comes back with what was sampled.

The model cites with markers, and clients get links in their place: see `server.outbound.citations`.
What a link has in it does not count, since the next prompt has the marker.
"""

import re

MARKER = re.compile(r"【\s?\d{1,6}\s?†[^【】\n]*】")
"""A citation marker, such as `【6†L9-L11】`."""

_LINK = re.compile(r" ?\(\[[^\[\]\s]*\]\([^()\s]*\)\)")


def same_cited_text(received: str, sampled: str) -> bool:
    """Whether both are the same text, or `received` has links in place of the markers.

    A marker may have become several links, or none.
    """
    if received == sampled:
        return True
    place = start = 0
    for marker in MARKER.finditer(sampled):
        before = sampled[start : marker.start()]
        if not received.startswith(before, place):
            return False
        place += len(before)
        while link := _LINK.match(received, place):
            place = link.end()
        start = marker.end()
    return received[place:] == sampled[start:]
