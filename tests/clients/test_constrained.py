"""What real masks let a random model say, through HTTP, as `benchmarks.constrained` judges it."""

from pathlib import Path

from benchmarks.constrained import run, write_model


async def test_every_answer_is_legal_and_says_what_was_sampled(tmp_path: Path) -> None:
    write_model(tmp_path)
    counts = await run(requests=40, streams=8, seed=1, model=tmp_path)
    assert counts["requests"] == 40
    assert counts["ended"] >= 30
    assert counts["calls"] > 0
    assert counts["strict arguments"] > 0
    assert counts["structured answers"] > 0
