"""Makes a trained model larger without changing what it computes, so that training can go on."""

import torch
from torch import Tensor

_LAYER = "body.layers."
_SILENT = ("o", "o_bias", "down", "down_bias")


def with_rows(weights: dict[str, Tensor], old: Tensor, known: Tensor) -> dict[str, Tensor]:
    """The same model with rows for all of `known`, among them all of `old`, both sorted.

    New rows are copies of the one that all other tokens share.
    """
    widened = dict(weights)
    for name in ("input.deltas", "output.deltas"):
        rows = weights[name][-1].repeat(len(known) + 1, 1)
        rows[torch.searchsorted(known, old)] = weights[name][:-1]
        widened[name] = rows
    return widened


def with_tags(weights: dict[str, Tensor], start: dict[str, Tensor]) -> dict[str, Tensor]:
    """The model with as many tags as `start`, a model at its random start.

    Further tags mean nothing until training changes that. A model without spelling gets it, as it
    is at the start.
    """
    grown = {"input.spelling": start["input.spelling"], **weights}
    for name in ("input.tags", "output.tags"):
        tags = torch.zeros_like(start[name])
        if name in weights:
            tags[: len(weights[name]) - 1] = weights[name][:-1]
        grown[name] = tags
    return grown


def with_layers(weights: dict[str, Tensor], start: dict[str, Tensor]) -> dict[str, Tensor]:
    """The same model as deep as `start`, a model at its random start.

    The further layers stand in the middle. They come from `start`, and write nothing to the
    residual stream until training changes that. Both depths are even, since layers with and
    without a window take turns.
    """
    have, wanted = _depth(weights), _depth(start)
    moved = {number: number + (wanted - have) * (2 * number >= have) for number in range(have)}
    grown = {_at(name, moved): tensor for name, tensor in weights.items()}
    for name, tensor in start.items():
        if name not in grown:
            silent = name.rsplit(".", 1)[-1] in _SILENT
            grown[name] = torch.zeros_like(tensor) if silent else tensor
    return grown


def _depth(weights: dict[str, Tensor]) -> int:
    return 1 + max(int(name.split(".")[2]) for name in weights if name.startswith(_LAYER))


def _at(name: str, moved: dict[int, int]) -> str:
    if not name.startswith(_LAYER):
        return name
    number, parameter = name.removeprefix(_LAYER).split(".", 1)
    return f"{_LAYER}{moved[int(number)]}.{parameter}"
