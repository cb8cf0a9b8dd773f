"""Measure the time to parse a sampled token: `python -m benchmarks.parser`.

The output has the microseconds per token of the fastest round, for tokens pushed one by one and in
chunks of 16, and the ratio of the former to openai_harmony's StreamableParser if it is installed.
"""

from collections.abc import Callable, Iterable

from benchmarks.library.reference import load_reference
from benchmarks.library.timing import shortest
from harmony.parser import Parser
from harmony.tokenizer import encode, encode_with_control
from harmony.vocab import token_bytes

ROUNDS = 7
CHUNK = 16
PARAGRAPH = (
    "The parser reads what a model samples, token by token: reasoning, preambles, calls and the "
    'answer. Naïve façades — or {"a": [1, 2.5, null]} — cost no more than plain words. 價格 €5.\n\n'
)


def completion() -> list[int]:
    """Reasoning, a preamble and a call: about 4,000 tokens."""
    text = encode(PARAGRAPH * 36)
    return [
        *encode_with_control("<|channel|>analysis<|message|>"),
        *text,
        *encode_with_control("<|end|><|start|>assistant<|channel|>commentary<|message|>"),
        *text[: len(text) // 2],
        *encode_with_control(
            "<|end|><|start|>assistant<|channel|>commentary to=functions.f <|constrain|>json"
            '<|message|>{"a":1}<|call|>'
        ),
    ]


def best(read: Callable[[], None], tokens: int) -> float:
    """Microseconds per token in the fastest round."""
    return shortest(read, ROUNDS) / tokens * 1e6


def singly(tokens: list[int]) -> None:
    """Push one token at a time."""
    parser = Parser(["functions.f"])
    for token in tokens:
        parser.push(token)
    parser.finish()


def in_chunks(tokens: list[int]) -> None:
    """Push as an engine that samples several tokens a step delivers them."""
    parser = Parser(["functions.f"])
    for start in range(0, len(tokens), CHUNK):
        parser.push_many(tokens[start : start + CHUNK])
    parser.finish()


def library(tokens: list[int]) -> Callable[[], None] | None:
    """The same with openai_harmony, whose content is read after each token; None without it."""
    try:
        openai_harmony, encoding = load_reference()
    except ImportError:
        return None

    def read() -> None:
        parser = openai_harmony.StreamableParser(encoding, role=openai_harmony.Role.ASSISTANT)
        for token in tokens:
            parser.process(token)
            _ = parser.last_content_delta, parser.current_channel, parser.current_recipient

    return read


def report(lines: Iterable[tuple[str, str]]) -> None:
    """Print names and values in columns."""
    for name, value in lines:
        print(f"{name:<42}{value:>10}")


def main() -> None:
    """Measure and print."""
    token_bytes()
    tokens = completion()
    single = best(lambda: singly(tokens), len(tokens))
    chunked = best(lambda: in_chunks(tokens), len(tokens))
    lines = [
        ("tokens", str(len(tokens))),
        ("singly, us a token", f"{single:.2f}"),
        (f"in chunks of {CHUNK}, us a token", f"{chunked:.2f}"),
    ]
    if read := library(tokens):
        theirs = best(read, len(tokens))
        lines += [
            ("openai_harmony singly, us a token", f"{theirs:.2f}"),
            ("singly, ours / openai_harmony", f"{single / theirs:.2f}"),
        ]
    report(lines)


if __name__ == "__main__":
    main()
