"""CPU time per token of a streamed answer, with citations and without.

Run: python -m benchmarks.citations
"""

import time
from collections.abc import Callable

from harmony.events import Header, MessageStarted
from harmony.messages import Channel, Conversation
from server.generation.plan import TurnPlan
from server.generation.turn_events import TextDelta
from server.outbound.citations import CitationRewriter
from server.outbound.event_bytes import named
from server.outbound.responses.events import ResponsesOutbound
from server.tools.base import Citation

TOKENS = 20_000
ROUNDS = 15
EVERY = 100
"""One marker of six tokens in so many tokens."""
MARKER = ("【", "6", "†", "L9", "-L11", "】")


def texts() -> list[str]:
    """The tokens of an answer."""
    return [MARKER[n % EVERY] if n % EVERY < len(MARKER) else " word" for n in range(TOKENS)]


def seconds(rewriter: Callable[[], CitationRewriter] | None) -> float:
    """CPU seconds for the events of one answer, encoded for the wire."""
    created = {"id": "resp_1", "object": "response", "status": "in_progress", "output": []}
    out = ResponsesOutbound(created, TurnPlan(Conversation(())), rewriter=rewriter)
    out.start()
    out.push(MessageStarted(0, Header(Channel.FINAL)))
    deltas = [TextDelta(0, text) for text in texts()]
    start = time.process_time()
    for delta in deltas:
        for event in out.push(delta):
            named(event)
    return time.process_time() - start


def main() -> None:
    """Print microseconds per token: outbound and encoding only."""
    source = Citation("https://example.com/a", "A")
    rewriter = lambda: CitationRewriter(lambda cursor, line: source)  # noqa: E731
    plain, cited = [], []
    for _ in range(ROUNDS):
        plain.append(seconds(None))
        cited.append(seconds(rewriter))
    for name, times in (("without", plain), ("with citations", cited)):
        print(f"{name}: {min(times) / TOKENS * 1e6:.2f} us per token")


if __name__ == "__main__":
    main()
