"""A larger model computes what the smaller one did, and can be trained."""

from dataclasses import replace
from typing import Any

import pytest
import torch

from demo.batches import Cut, pool
from demo.growth import with_layers, with_rows, with_tags, with_units, with_width
from demo.model import Shape
from demo.train import Demo, fresh, train_step

SMALL = Shape(layers=4, heads=4, kv_heads=2, intermediate=32)
KNOWN = torch.arange(1000)


def test_a_deeper_model_computes_the_same() -> None:
    small = fresh(0, SMALL, KNOWN).model
    deep = fresh(1, replace(SMALL, layers=8), KNOWN).model
    deep.load_state_dict(with_layers(small.state_dict(), deep.state_dict()))
    rows = torch.randn(2, 200, SMALL.hidden)
    with torch.no_grad():
        assert torch.equal(small.body(rows), deep.body(rows))


def test_all_layers_of_a_deeper_model_learn() -> None:
    small = fresh(0, SMALL, KNOWN).model
    deep = fresh(1, replace(SMALL, layers=6), KNOWN)
    deep.model.load_state_dict(with_layers(small.state_dict(), deep.model.state_dict()))
    for batch in pool(3, 0, KNOWN.numpy(), Cut(size=20, tokens=768))[:2]:
        train_step(deep, batch, 1.0)
    layers: list[Any] = [*deep.model.body.layers]
    assert all(layer.o.abs().sum() > 0 for layer in layers)
    assert all(layer.q.grad.abs().sum() > 0 for layer in layers)


def with_more(shape: Shape) -> Demo:
    """A model grown to `shape` from SMALL, after a check that it computes the same."""
    small, wide = fresh(0, SMALL, KNOWN).model, fresh(1, shape, KNOWN).model
    grown = with_units(small.state_dict(), wide.state_dict())
    assert Shape.of(grown) == shape
    wide.load_state_dict(grown)
    rows = torch.randn(2, 200, SMALL.hidden)
    with torch.no_grad():
        torch.testing.assert_close(wide.body(rows), small.body(rows), rtol=1e-3, atol=1e-3)
    return wide


def test_a_model_with_more_heads_computes_the_same() -> None:
    wide = with_more(replace(SMALL, heads=6, kv_heads=3))
    layer: Any = wide.body.layers[0]
    assert layer.q[-128:].abs().min() > 0


def test_experts_of_more_units_compute_the_same() -> None:
    wide = with_more(replace(SMALL, intermediate=48))
    layer: Any = wide.body.layers[0]
    assert layer.up[:, :, 32:].abs().min() > 0


def test_a_wider_model_computes_the_same() -> None:
    small = fresh(0, SMALL, KNOWN).model
    wide = fresh(1, replace(SMALL, hidden=SMALL.hidden + 32), KNOWN).model
    wide.load_state_dict(with_width(small.state_dict(), SMALL.hidden + 32))
    ids = torch.arange(200)
    with torch.no_grad():
        one, other = (model.body(model.input(ids)[None])[0] for model in (small, wide))
        torch.testing.assert_close(other[:, : SMALL.hidden], one, rtol=1e-3, atol=1e-3)
        torch.testing.assert_close(
            other @ wide.output(ids).T, one @ small.output(ids).T, rtol=1e-3, atol=1e-3
        )


def test_new_rows_are_those_that_the_tokens_had() -> None:
    small = fresh(0, SMALL, KNOWN).model
    torch.nn.init.normal_(small.input.deltas)
    both = torch.arange(1500)
    wide = fresh(1, SMALL, both).model
    wide.load_state_dict(with_rows(small.state_dict(), KNOWN, both))
    ids = torch.tensor([0, 999, 1200, 5000])
    with torch.no_grad():
        assert torch.equal(small.input(ids), wide.input(ids))


@pytest.mark.parametrize("name", ["input.spelling", "input.dotted"])
def test_further_pieces_mean_nothing_until_they_are_trained(name: str) -> None:
    old, new = (fresh(seed, SMALL, KNOWN).model.state_dict() for seed in (0, 1))
    trained = torch.nn.init.normal_(torch.empty_like(old[name]))
    more = with_tags(old | {name: trained[:-9]}, new)[name]
    assert torch.equal(more[:-9], trained[:-9])
    assert more[-9:].abs().sum() == 0


def test_weights_that_know_no_words_after_dots_get_zeros() -> None:
    old, new = (fresh(seed, SMALL, KNOWN).model.state_dict() for seed in (0, 1))
    new["input.dotted"] = torch.ones_like(new["input.dotted"])
    without = {name: tensor for name, tensor in old.items() if name != "input.dotted"}
    assert with_tags(without, new)["input.dotted"].abs().sum() == 0


def test_further_tags_and_spelling_change_nothing_until_they_are_trained() -> None:
    old, new = (fresh(seed, SMALL, KNOWN).model for seed in (0, 1))
    torch.nn.init.normal_(old.output.tags)
    weights = {k: v for k, v in old.state_dict().items() if k != "input.spelling"}
    weights |= {k: v[:-5] for k, v in weights.items() if k.endswith(".tags")}
    grown = with_tags(weights, new.state_dict())
    assert torch.equal(grown["input.spelling"], new.input.spelling)
    assert torch.equal(grown["output.tags"][:-6], old.output.tags[:-6])
    assert grown["output.tags"][-6:].abs().sum() == 0
    without = with_tags({k: v for k, v in weights.items() if "tags" not in k}, new.state_dict())
    assert without["input.tags"].shape == new.input.tags.shape
    assert without["input.tags"].abs().sum() == 0
