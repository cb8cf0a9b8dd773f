from pathlib import Path

import pytest
import torch

from demo import average
from demo.model import Shape
from demo.train import fresh
from demo.weights import pack

SMALL = Shape(layers=4, heads=4, kv_heads=2, intermediate=32)
KNOWN = torch.arange(100)
States = tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]


@pytest.fixture(scope="module")
def states() -> States:
    old, new = (dict(fresh(seed, SMALL, KNOWN).model.state_dict()) for seed in (0, 1))
    return old, new


@pytest.mark.parametrize("share", [0.0, 0.25, 1.0])
def test_the_average_lies_between_both(states: States, share: float) -> None:
    old, new = states
    made = average.average(old, new, (KNOWN, KNOWN), share)
    for name in new:
        torch.testing.assert_close(made[name], old[name] * (1 - share) + new[name] * share)


def test_what_the_old_weights_do_not_have_counts_as_zero(states: States) -> None:
    old, _ = states
    wider = dict(fresh(1, SMALL, torch.arange(150)).model.state_dict())
    without = {k: v for k, v in old.items() if "tags" not in k and "spelling" not in k}
    made = average.average(without, wider, (KNOWN, torch.arange(150)), 0.5)
    torch.testing.assert_close(made["input.spelling"], wider["input.spelling"] / 2)
    torch.testing.assert_close(made["output.tags"], wider["output.tags"] / 2)
    assert len(made["input.deltas"]) == 151


def test_the_command_writes_a_state_that_can_be_shipped(
    states: States, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = states
    torch.save({"model": new, "known": KNOWN}, tmp_path / "state.pt")
    monkeypatch.setattr(average, "packaged", lambda: pack(old, KNOWN))
    monkeypatch.setattr("sys.argv", ["average", str(tmp_path / "state.pt"), "--share", "1"])
    average.main()
    saved = torch.load(tmp_path / "average.pt", weights_only=True)
    assert torch.equal(saved["known"], KNOWN)
    torch.testing.assert_close(saved["model"]["body.norm"], new["body.norm"])


def test_the_average_is_with_the_state_that_start_names(
    states: States, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = states
    torch.save({"model": old, "known": KNOWN}, tmp_path / "start.pt")
    torch.save({"model": new, "known": KNOWN}, tmp_path / "state.pt")
    paths = [str(tmp_path / name) for name in ("state.pt", "start.pt")]
    monkeypatch.setattr("sys.argv", ["average", paths[0], "--start", paths[1]])
    average.main()
    made = torch.load(tmp_path / "average.pt", weights_only=True)["model"]
    torch.testing.assert_close(made["body.norm"], (old["body.norm"] + new["body.norm"]) / 2)
