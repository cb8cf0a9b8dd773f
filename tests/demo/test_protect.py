"""Protection: training leaves the routing heads and their channel as they are."""

from pathlib import Path

import torch
from torch import Tensor

from demo.batches import Cut, pool
from demo.model import Layer, Shape
from demo.protect import COMPARED, MATCHING, SET_BY_HAND
from demo.train import State, fresh, restore, save, train_step

KNOWN = torch.arange(1000)


def _channel() -> Tensor:
    torch.manual_seed(1)
    return torch.linalg.qr(torch.randn(Shape().hidden, 20))[0]


def _trained() -> tuple[State, dict[str, Tensor]]:
    state = fresh(0, known=KNOWN)
    state.channel = _channel()
    start = {name: tensor.clone() for name, tensor in state.model.state_dict().items()}
    for batch in pool(3, 0, KNOWN.numpy(), Cut(size=20, tokens=768))[:2]:
        train_step(state, batch, 1.0)
    return state, start


def test_heads_that_are_set_do_not_change_and_others_do() -> None:
    state, start = _trained()
    for number in SET_BY_HAND:
        for name in ("k", "v", "k_bias"):
            changed = state.model.state_dict()[f"body.layers.{number}.{name}"]
            before = start[f"body.layers.{number}.{name}"]
            moved = (changed != before).view(Shape().kv_heads, -1).any(1)
            assert not moved[-1]
            assert moved[:-1].all()


def test_the_comparison_stays_and_its_gates_learn() -> None:
    state, start = _trained()
    layer = state.model.body.layers[MATCHING]
    assert isinstance(layer, Layer)
    dim = Shape().head_dim
    moved = (layer.k[-dim:] != start[f"body.layers.{MATCHING}.k"][-dim:]).any(1)
    assert not moved[COMPARED].any()
    gates = torch.ones(dim, dtype=torch.bool)
    gates[COMPARED] = False
    assert moved[gates].all()


def test_nothing_is_written_to_the_channel() -> None:
    state, start = _trained()
    changed = state.model.state_dict()
    for name in ("input.tags", "input.deltas", "body.layers.0.down", "body.layers.1.o_bias"):
        moved = changed[name] - start[name]
        assert moved.abs().max() > 1e-5
        assert (moved @ _channel()).abs().max() < 0.001 * moved.abs().max()
    moved = changed["body.layers.0.o"] - start["body.layers.0.o"]
    assert (_channel().T @ moved).abs().max() < 0.001 * moved.abs().max()


def test_the_channel_is_kept_with_the_state(tmp_path: Path) -> None:
    path = tmp_path / "state.pt"
    state = fresh(0, known=KNOWN)
    state.channel = _channel()
    save(state, path)
    again = restore(0, path).channel
    assert again is not None
    assert torch.equal(again, _channel())
