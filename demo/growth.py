"""Makes a trained model larger without changing what it computes, so that training can go on."""

import torch
from torch import Tensor

from demo.model import Shape

Weights = dict[str, Tensor]

_LAYER = "body.layers."
_ACROSS = (
    dict.fromkeys(("input_norm", "post_norm", "norm", "o", "o_bias"), 0)
    | dict.fromkeys(("q", "k", "v", "router", "gate", "up", "down_bias"), 1)
    | dict.fromkeys(("tags", "deltas", "features", "spelling", "dotted", "down"), -1)
)
"""Along which axis parameters have as many numbers as the residual stream."""
_SILENT = ("o", "o_bias", "down", "down_bias")


def grown(weights: Weights, start: Weights, old: Tensor, known: Tensor) -> Weights:
    """The same model as large as `start`, a model at its random start.

    old: the ids with rows in `weights`; known: those with rows in `start`, among them all of `old`.
    """
    weights = with_width(with_rows(weights, old, known), Shape.of(start).hidden)
    weights = with_layers(with_tags(weights, start), start)
    return with_units(weights, start)


def with_rows(weights: Weights, old: Tensor, known: Tensor) -> Weights:
    """The same model with rows for all of `known`, among them all of `old`, both sorted.

    New rows are copies of the one that all other tokens share.
    """
    widened = dict(weights)
    for name in ("input.deltas", "output.deltas"):
        rows = weights[name][-1].repeat(len(known) + 1, 1)
        rows[torch.searchsorted(known, old)] = weights[name][:-1]
        widened[name] = rows
    return widened


def with_tags(weights: Weights, start: Weights) -> Weights:
    """The model with as many tags as `start`, a model at its random start.

    Further tags mean nothing until training changes that, and neither do further pieces of words
    that are spelt. A model without spelling gets it, as it is at the start.
    """
    larger = {"input.spelling": start["input.spelling"], **weights}
    for name in ("input.spelling", "input.dotted"):
        spelling = torch.zeros_like(start[name])
        if name in larger:
            spelling[: len(larger[name])] = larger[name]
        larger[name] = spelling
    for name in ("input.tags", "output.tags"):
        tags = torch.zeros_like(start[name])
        if name in weights:
            tags[: len(weights[name]) - 1] = weights[name][:-1]
        larger[name] = tags
    return larger


def with_layers(weights: Weights, start: Weights) -> Weights:
    """The same model as deep as `start`, a model at its random start.

    The further layers stand in the middle. They come from `start`, and write nothing to the
    residual stream until training changes that. Both depths are even, since layers with and
    without a window take turns.
    """
    have, wanted = Shape.of(weights).layers, Shape.of(start).layers
    moved = {number: number + (wanted - have) * (2 * number >= have) for number in range(have)}
    larger = {_at(name, moved): tensor for name, tensor in weights.items()}
    for name, tensor in start.items():
        if name not in larger:
            silent = name.rsplit(".", 1)[-1] in _SILENT
            larger[name] = torch.zeros_like(tensor) if silent else tensor
    return larger


def with_width(weights: Weights, hidden: int) -> Weights:
    """The same model with a residual stream of `hidden` numbers.

    The further ones are the last. They are neither read nor written until training changes that.
    """
    old = Shape.of(weights).hidden
    wider = dict(weights)
    for name, tensor in weights.items():
        parameter = name.rsplit(".", 1)[-1]
        if parameter in _ACROSS:
            further = list(tensor.shape)
            further[_ACROSS[parameter]] = hidden - old
            gains = parameter.endswith("norm")
            rest = torch.ones(further) if gains else torch.zeros(further)
            whole = torch.cat((tensor, rest), dim=_ACROSS[parameter])
            # The mean square that a norm divides by is over more numbers now.
            wider[name] = whole * (old / hidden) ** 0.5 if gains else whole
    return wider


def with_units(weights: Weights, start: Weights) -> Weights:
    """The same model with as many groups of heads in each layer, and units in each expert, as
    `start`, a model at its random start.

    The further ones are the last. They come from `start`, and write nothing to the residual stream
    until training changes that.
    """
    larger = dict(weights)
    for name, tensor in start.items():
        parameter = name.rsplit(".", 1)[-1]
        if name.startswith(_LAYER) and tensor.shape != weights[name].shape:
            larger[name] = torch.zeros_like(tensor) if parameter in _SILENT else tensor.clone()
            larger[name][_old(weights[name])] = weights[name]
    return larger


def _old(tensor: Tensor) -> tuple[slice, ...]:
    return tuple(slice(size) for size in tensor.shape)


def _at(name: str, moved: dict[int, int]) -> str:
    if not name.startswith(_LAYER):
        return name
    number, parameter = name.removeprefix(_LAYER).split(".", 1)
    return f"{_LAYER}{moved[int(number)]}.{parameter}"
