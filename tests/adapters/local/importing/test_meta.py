"""That models load, and that sympy is not imported, is tested in test_imports.py."""

import torch

from adapters.local.importing.meta import without_symbols


def test_weights_on_the_meta_device_are_not_drawn_and_ranges_are_made_on_the_cpu() -> None:
    with without_symbols("cpu"), torch.device("meta"):
        weight = torch.nn.Embedding(4, 2).weight
        numbers = torch.arange(0, 6, 2)
        others = torch.ones(2)
    assert weight.is_meta
    assert weight.shape == (4, 2)
    assert numbers.tolist() == [0, 2, 4]
    assert others.is_meta


def test_real_weights_are_drawn() -> None:
    with without_symbols("cpu"):
        weight = torch.nn.Embedding(64, 64).weight
        named = torch.nn.init.normal_(tensor=torch.zeros(64))
    assert 0.9 < weight.std() < 1.1
    assert named.any()


def test_other_devices_are_left_alone() -> None:
    with without_symbols("cuda"), torch.device("meta"):
        assert torch.arange(3).is_meta
