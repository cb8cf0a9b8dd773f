"""Average a training state with the packaged weights: `python -m demo.average build/demo/state.pt`.

A short training on new cases makes the model worse at what it learned before. The average loses
less of that, and keeps a part of what is new.

Writes `average.pt` beside the state, for `demo.ship`.
"""

import argparse
from pathlib import Path

import torch
from torch import Tensor

from demo.growth import Weights, grown
from demo.package import packaged
from demo.weights import unpack


def average(old: Weights, new: Weights, known: tuple[Tensor, Tensor], share: float) -> Weights:
    """Weights of which `share` (0 to 1) comes from `new`, which training has made of `old`.

    known: the ids of the tokens with learned rows, of `old` and of `new`, which has all of them.
    Layers, heads, tags and spelling that `old` does not have count as zero.
    """
    start = {name: torch.zeros_like(tensor) for name, tensor in new.items()}
    larger = grown(old, start, *known)
    return {name: torch.lerp(larger[name].float(), new[name].float(), share) for name in new}


def main() -> None:
    """The command line: see the module's first line."""
    parser = argparse.ArgumentParser(prog="python -m demo.average", description=__doc__)
    parser.add_argument("state", type=Path)
    parser.add_argument("--share", type=float, default=0.5, help="the state's share, 0 to 1")
    parser.add_argument("--start", type=Path, help="a state instead of the packaged weights")
    options = parser.parse_args()
    saved = torch.load(options.state, map_location="cpu", weights_only=True)
    if options.start:
        start = torch.load(options.start, map_location="cpu", weights_only=True)
        old, known = start["model"], start["known"]
    else:
        old, known = unpack(packaged())
    new = saved["model"]
    saved["model"] = average(old, new, (known, saved["known"]), options.share)
    torch.save(saved, options.state.with_name("average.pt"))


if __name__ == "__main__":
    main()
