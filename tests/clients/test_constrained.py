"""Answers of a random model with real masks over HTTP, checked by `benchmarks.constrained`."""

from pathlib import Path

from benchmarks.constrained import run, write_model


async def test_every_answer_is_valid_and_matches_the_sampled_tokens(tmp_path: Path) -> None:
    write_model(tmp_path)
    counts = await run(requests=40, streams=8, seed=1, model=tmp_path)
    assert counts["requests"] == 40
    assert counts["ended"] >= 30
    assert counts["calls"] > 0
    assert counts["strict arguments"] > 0
    assert counts["structured answers"] > 0
