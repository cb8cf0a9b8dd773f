"""The requests of the benchmark of a server's life. The server is not run here."""

from typing import Any

import pytest

from benchmarks import lifetime
from benchmarks.library.clients import Answer
from harmony.vocab import STOP_TOKENS


def answering(monkeypatch: pytest.MonkeyPatch, *counts: int) -> list[dict[str, Any]]:
    """Answers with these numbers of tokens. Returns the list that the requests are put into."""
    asked: list[dict[str, Any]] = []

    async def post(port: int, path: str, body: dict[str, Any]) -> Answer:
        asked.append(body)
        usage = b'"prompt_tokens": 1, "completion_tokens": %d' % counts[len(asked) - 1]
        return Answer(usage, 1, 2 + len(asked))

    monkeypatch.setattr(lifetime, "post", post)
    return asked


def test_answers_do_not_end_before_their_length(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = answering(monkeypatch, 8, 8)
    assert lifetime.requests(1, 8, 2) == [3, 4]
    assert dict.fromkeys(map(str, STOP_TOKENS), -100) == asked[0]["logit_bias"]


def test_an_answer_that_ends_early_ends_the_benchmark(monkeypatch: pytest.MonkeyPatch) -> None:
    answering(monkeypatch, 8, 7)
    with pytest.raises(SystemExit, match="ended after 7 of 8 tokens"):
        lifetime.requests(1, 8, 2)
