"""Measure the repetition guard: false alarms, detection delay and time.

    python -m benchmarks.repetition [--tokens 100000]

The output has the false alarms for several kinds of text, each read as one reasoning message, with
the longest periodic sequence of each (512 tokens are a loop); the largest number of tokens until a
loop of period 1 to 64 is found, after random texts; and the microseconds per token. The texts are
those of the installed Python: its modules, and its packages' documentation, licences and JSON
files.
"""

import argparse
import base64
import json
import random
import sysconfig
import time
import unicodedata
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from harmony.events import Header
from harmony.messages import Channel
from harmony.tokenizer import encode
from harmony.vocab import FIRST_SPECIAL
from server.generation.repetition import EVERY, LONGEST_PERIOD, WINDOW, RepetitionGuard

SEED = 16
TOKENS = 100_000
_PACKAGES = Path(sysconfig.get_path("purelib"))
_MODULES = Path(sysconfig.get_path("stdlib"))
_ANALYSIS = Header(Channel.ANALYSIS)


def _files(folder: Path, *patterns: str) -> Iterator[str]:
    for pattern in patterns:
        for path in sorted(folder.glob(pattern)):
            if path.is_file():
                yield path.read_text(encoding="utf-8", errors="replace")


def prose() -> Iterator[str]:
    yield from _files(_PACKAGES, "*.dist-info/METADATA", "*.dist-info/**/LICENSE*", "*/**/*.md")


def code() -> Iterator[str]:
    yield from _files(_MODULES, "*.py")


def json_files() -> Iterator[str]:
    yield from _files(_PACKAGES, "*.dist-info/**/*.json", "*/**/*.json")


def tables() -> Iterator[str]:
    """Tables of characters with their Unicode names, and sums in columns."""
    rng = random.Random(SEED)
    for start in range(0x21, 0x10000, 64):
        rows = ["| code | character | name | category |", "|---|---|---|---|"]
        for point in range(start, start + 64):
            char = chr(point)
            name = unicodedata.name(char, "")
            if name:
                rows.append(f"| {point:#06x} | {char} | {name} | {unicodedata.category(char)} |")
        yield "\n".join(rows)
        yield "\n".join(
            f"{row:>4}  {rng.randrange(1000):>6}  {rng.random():>8.3f}  0.000  0.000"
            for row in range(64)
        )


def arrays() -> Iterator[str]:
    """JSON arrays: counters, bits, sparse rows, records that differ in little."""
    rng = random.Random(SEED)
    while True:
        yield json.dumps(list(range(rng.randrange(1000), 2000)))
        yield json.dumps([rng.randrange(2) for _ in range(500)])
        yield json.dumps([[int(a == b) for a in range(12)] for b in range(12)])
        yield json.dumps([{"id": i, "ok": True, "error": None} for i in range(100)])


def noise() -> Iterator[str]:
    rng = random.Random(SEED)
    while True:
        yield base64.b64encode(rng.randbytes(3_000)).decode()


KINDS: dict[str, Callable[[], Iterator[str]]] = {
    "prose": prose,
    "code": code,
    "JSON files": json_files,
    "tables": tables,
    "JSON arrays": arrays,
    "base64": noise,
}


def tokens_of(kind: str, count: int) -> list[int]:
    """The first `count` tokens of a kind, fewer where the installation has no more."""
    tokens: list[int] = []
    for text in KINDS[kind]():
        tokens += encode(text)
        if len(tokens) >= count:
            break
    return tokens[:count]


def alarms(tokens: list[int]) -> list[int]:
    """How many tokens of one reasoning there were at each alarm."""
    guard = RepetitionGuard(lambda _: None)
    found = []
    for look in range(WINDOW, len(tokens) + 1, EVERY):
        assert guard.look == look
        if guard.closes(tokens[look - WINDOW : look], _ANALYSIS):
            found.append(look)
    return found


def longest_stretch(tokens: list[int]) -> int:
    """The most tokens in a row that have some period of at most 64."""
    ids = np.array(tokens)
    longest = 0
    for period in range(1, LONGEST_PERIOD + 1):
        breaks = np.flatnonzero(ids[period:] != ids[:-period])
        edges = np.concatenate(([-1], breaks, [len(ids) - period]))
        longest = max(longest, int(np.diff(edges).max()) - 1 + period)
    return longest


def latency(period: int, before: int, rng: random.Random) -> int:
    """Tokens from a loop's first one to its alarm."""
    prefix = [rng.randrange(FIRST_SPECIAL) for _ in range(before)]
    loop = [rng.randrange(FIRST_SPECIAL) for _ in range(period)]
    tokens = prefix + loop * ((WINDOW + 2 * EVERY) // period + 2)
    return alarms(tokens)[0] - before


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--tokens", type=int, default=TOKENS)
    count = parser.parse_args().tokens
    print(f"{'text':<14}{'tokens':>9}{'alarms':>9}{'longest stretch':>18}{'us a token':>13}")
    for kind in KINDS:
        tokens = tokens_of(kind, count)
        start = time.perf_counter()
        found = alarms(tokens)
        cost = (time.perf_counter() - start) / len(tokens) * 1e6
        print(
            f"{kind:<14}{len(tokens):>9}{len(found):>9}{longest_stretch(tokens):>18}{cost:>13.2f}"
        )
    rng = random.Random(SEED)
    latest = max(
        latency(period, rng.randrange(1000), rng)
        for period in range(1, LONGEST_PERIOD + 1)
        for _ in range(20)
    )
    print(f"loops of period 1 to {LONGEST_PERIOD}: all found, the last after {latest} tokens")


if __name__ == "__main__":
    main()
