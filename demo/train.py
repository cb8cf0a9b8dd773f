"""Train the demo model: `python -m demo.train --steps 12000`. Resumes from its last checkpoint.

Where there is none, training begins anew, or with `--packaged` at the weights in the package, so
that it can go on over many days and machines; another `--seed` then gives new cases. The learning
rate is constant after a short warm-up and falls to zero over the last `--cooldown` steps, so that
how long to train can be decided while training.

With `--device cuda` one process trains on batches of 32 times as many tokens, made by `--makers`
others. `--minutes` then bounds the time instead of the steps; `--cooldown` is a share of it. Time
and rate begin anew at each start.
"""

import argparse
import logging
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import Tensor, nn
from torch import distributed as dist
from torch.multiprocessing.spawn import start_processes
from torch.nn import functional as F

from demo.batches import TOKENS, Batch, Cut, known_tokens, stream
from demo.embedding import IDENTITY, OUTPUT_AT, Rows
from demo.growth import grown
from demo.induction import set_induction_heads
from demo.model import Body, Shape, compile_kernels, products
from demo.optim import Muon
from demo.package import packaged
from demo.skills import FOCUS
from demo.weights import from_integers, is_rounded, to_integers, unpack

log = logging.getLogger("demo.train")

MATRICES = frozenset({"q", "k", "v", "o", "gate", "up", "down"})
WARM_UP = 50
COOLDOWN, FALLING = 7000, 0.6
"""The last steps, or the last share of the minutes, in which the learning rate falls."""
PROGRESS = "step %5d  loss %.4f  right %.4f  %.2f/s  waited %.2f"
"""A line of the log; the last number is the share of the time that batches were waited for."""
RATES = {"muon": 0.008, "small": 1e-3, "input": 6e-4, "output": 3e-4, "tags": 1.5e-3}


class Demo(nn.Module):
    """Body and both vocabulary matrices: all that is trained."""

    def __init__(self, shape: Shape, known: Tensor) -> None:
        super().__init__()
        self.known = known
        self.body = Body(shape)
        set_induction_heads(self.body)
        self.input = Rows(shape.hidden, known, 0, 6 / IDENTITY**0.5, spelt=True)
        self.output = Rows(shape.hidden, known, OUTPUT_AT, 0.12)

    def loss(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Mean cross entropy over what the batch learns, and the share that is guessed right of
        what the model has to say."""
        kind = products(batch.tokens.device)
        rows = self.input(batch.tokens, batch.forgotten).to(kind)
        hidden = self.body(F.embedding(batch.rows, rows), batch.packed)
        hidden = hidden.flatten(0, 1).index_select(0, batch.at)
        outputs = self.output(batch.candidates).to(kind)
        return Losses.of(hidden, outputs, batch.shares, batch.targets, batch.weights)


def _loss(
    hidden: Tensor, outputs: Tensor, shares: Tensor, targets: Tensor, weights: Tensor
) -> tuple[Tensor, Tensor]:
    logits = F.linear(hidden, outputs).float() + shares
    each = F.cross_entropy(logits, targets, reduction="none")
    said = (weights == 1).float()
    right = ((logits.detach().argmax(-1) == targets) * said).sum() / said.sum()
    return (each * weights).sum() / weights.sum(), right


class Losses:
    """How the loss is computed from hidden states: as it stands, or compiled."""

    of: Callable[..., tuple[Tensor, Tensor]] = staticmethod(_loss)


@dataclass(slots=True)
class State:
    """Where training stands."""

    model: Demo
    optimizers: list[torch.optim.Optimizer]
    step: int = 0
    place: tuple[int, int] = (0, 0)


def fresh(seed: int, shape: Shape | None = None, known: Tensor | None = None) -> State:
    """A model at its start, with its optimizers."""
    torch.manual_seed(seed)
    model = Demo(shape or Shape(), known_tokens(seed) if known is None else known)
    matrices: list[Tensor] = []
    small: list[Tensor] = []
    for name, parameter in model.body.named_parameters():
        (matrices if name.rsplit(".", 1)[-1] in MATRICES else small).append(parameter)
    groups: list[dict[str, Any]] = [
        {"params": small, "of": "small"},
        {"params": _meanings(model), "of": "tags"},
        {"params": _own(model.input), "of": "input"},
        {"params": _own(model.output), "of": "output"},
    ]
    adam = torch.optim.Adam(groups, betas=(0.9, 0.98), eps=1e-10)
    return State(model, [Muon([{"params": matrices, "of": "muon"}], RATES["muon"]), adam])


def _meanings(model: Demo) -> list[nn.Parameter]:
    return [model.input.tags, model.output.tags, model.input.spelling, model.input.dotted]


def _own(rows: Rows) -> list[nn.Parameter]:
    return [rows.features, rows.deltas, rows.scale]


def from_package(seed: int, makers: int = 1) -> State:
    """The packaged weights at step 0. Raises WeightsCorrupt if they are missing or damaged.

    Tokens that have become frequent in the cases get rows of their own, the lexicon's further tags
    theirs, and a body that is meant to be larger gets its further layers and heads.
    """
    weights, old = unpack(packaged())
    known = torch.cat((old, known_tokens(seed, makers))).unique()
    state = fresh(seed, known=known)
    state.model.load_state_dict(grown(weights, state.model.state_dict(), old, known))
    return state


def train_step(state: State, batch: Batch, rate: float) -> tuple[Tensor, Tensor]:
    """One update at `rate` times the peak learning rates; returns loss and accuracy before it."""
    for optimizer in state.optimizers:
        for group in optimizer.param_groups:
            group["lr"] = rate * RATES[group["of"]]
        optimizer.zero_grad(set_to_none=True)
    with rounded(state.model):
        loss, right = state.model.loss(batch)
        loss.backward()
    average_gradients(state.model)
    nn.utils.clip_grad_norm_(state.model.parameters(), 1.0)
    for optimizer in state.optimizers:
        optimizer.step()
    state.step += 1
    return loss.detach(), right


@contextmanager
def rounded(model: nn.Module) -> Iterator[None]:
    """Give the model the rounded weights that the package would have, and afterwards its own again.

    A step applies the gradients for the rounded weights to its own (a straight-through estimator).
    """
    matrices = [p.detach() for p in model.parameters() if is_rounded(p)]
    exact = torch.cat([matrix.flatten() for matrix in matrices])
    _fill(matrices, from_integers(*to_integers(exact)).flatten())
    try:
        yield
    finally:
        _fill(matrices, exact)


def _fill(matrices: list[Tensor], values: Tensor) -> None:
    parts = values.split([matrix.numel() for matrix in matrices])
    views = [part.view_as(matrix) for part, matrix in zip(parts, matrices, strict=True)]
    torch._foreach_copy_(matrices, views)


def average_gradients(model: nn.Module) -> None:
    """Make the gradients the mean over all workers; nothing to do for one."""
    if not dist.is_initialized():
        return
    gradients = [p.grad for p in model.parameters() if p.grad is not None]
    flat = torch.cat([gradient.view(-1) for gradient in gradients])
    dist.all_reduce(flat)
    flat /= dist.get_world_size()
    for gradient, part in zip(gradients, flat.split([g.numel() for g in gradients]), strict=True):
        gradient.copy_(part.view_as(gradient))


def rate_at(step: int, left: float, cooldown: float) -> float:
    """The share of the peak learning rate at `step`. left: to the end, in steps or seconds, as
    the cooldown is."""
    return max(0.0, min(1.0, (step + 1) / WARM_UP, left / max(1, cooldown)))


def save(state: State, path: Path) -> None:
    """Write all that a resume needs, in one piece."""
    partial = path.with_suffix(".partial")
    torch.save(
        {
            "known": state.model.known,
            "model": state.model.state_dict(),
            "optimizers": [optimizer.state_dict() for optimizer in state.optimizers],
            "at": (state.step, *state.place),
        },
        partial,
    )
    os.replace(partial, path)


def restore(seed: int, path: Path) -> State:
    """The state that `save` wrote."""
    saved = torch.load(path, map_location="cpu", weights_only=True)
    state = fresh(seed, Shape.of(saved["model"]), saved["known"])
    state.model.load_state_dict(saved["model"])
    for optimizer, values in zip(state.optimizers, saved["optimizers"], strict=True):
        for group, own in zip(values["param_groups"], optimizer.param_groups, strict=True):
            group["of"] = own["of"]
        optimizer.load_state_dict(values)
    state.step, *place = saved["at"]
    state.place = (place[0], place[1])
    return state


class Pace:
    """How far training is: it ends after a number of steps, or after some minutes."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.began = time.monotonic()

    def left(self, step: int) -> float:
        """What is left at `step`, in seconds if minutes bound the training, else in steps."""
        if self.options.minutes is None:
            return float(self.options.steps - step)
        return float(self.began + 60 * self.options.minutes - time.monotonic())

    def rate(self, step: int) -> float:
        """The factor of the learning rates at `step`."""
        minutes, cooldown = self.options.minutes, self.options.cooldown
        falling = cooldown if minutes is None else 60 * minutes * cooldown
        return float(self.options.rate * rate_at(step, self.left(step), falling))


def train(state: State, options: argparse.Namespace, rank: int = 0) -> None:
    """Train to the end that the options name, saving on the way; logs every `options.every` steps.

    Of several workers each has pools of its own, and the first one saves.
    """
    losses: list[tuple[Tensor, Tensor]] = []
    device = state.model.known.device
    start = (state.place[0] + rank, state.place[1])
    cut = cut_of(options)
    with stream(
        options.seed, start, state.model.known.cpu(), cut, options.workers, options.makers
    ) as batches:
        pace, began, waited = Pace(options), time.monotonic(), 0.0
        while pace.left(state.step) > 0:
            asked = time.monotonic()
            place, batch = next(batches)
            waited += time.monotonic() - asked
            losses.append(train_step(state, batch.to(device), pace.rate(state.step)))
            state.place = (place[0] - rank, place[1] + 1)
            if state.step % options.every == 0:
                loss, right = torch.tensor(losses).mean(0).tolist()
                took = time.monotonic() - began
                speed, idle = len(losses) / took, waited / took
                log.info(PROGRESS, state.step, loss, right, speed, idle)
                losses, began, waited = [], time.monotonic(), 0.0
            if state.step % options.save_every == 0 and rank == 0:
                save(state, options.out / "state.pt")
    if rank == 0:
        save(state, options.out / "state.pt")


def begun(options: argparse.Namespace) -> State:
    """The last saved state, or where training begins: see the module's text."""
    saved = options.out / "state.pt"
    if saved.exists():
        return restore(options.seed, saved)
    if options.packaged:
        return from_package(options.seed, options.makers)
    known = known_tokens(options.seed, options.makers)
    return fresh(options.seed, Shape(layers=options.layers), known)


def cut_of(options: argparse.Namespace) -> Cut:
    """How cases become batches on the options' device."""
    if options.device == "cpu":
        return Cut(focus=tuple(options.focus))
    return Cut(packed=True, tokens=32 * TOKENS, focus=tuple(options.focus))


def to_device(state: State, device: torch.device) -> None:
    """Move the model and what its optimizers know to `device`."""
    if device.type == "cuda":
        torch.set_float32_matmul_precision("high")
    state.model.to(device)
    state.model.known = state.model.known.to(device)
    for optimizer in state.optimizers:
        for values in optimizer.state.values():
            # Adam counts its steps on the CPU.
            values |= {n: v.to(device) for n, v in values.items() if n != "step"}


def run(rank: int, options: argparse.Namespace, meeting: str) -> None:
    """One worker's life; `meeting` is a file where all workers find each other."""
    level = logging.INFO if rank == 0 else logging.WARNING
    logging.basicConfig(level=level, format="%(asctime)s %(message)s")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))
    torch.set_num_threads(options.threads)
    if options.workers > 1:
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
        dist.init_process_group(
            "gloo", init_method=f"file://{meeting}", rank=rank, world_size=options.workers
        )
    state = begun(options)
    to_device(state, torch.device(options.device))
    if not options.eager:
        compile_kernels(state.model.body)
        Losses.of = staticmethod(torch.compile(_loss, dynamic=True))
    train(state, options, rank)


def main() -> None:
    """The command line: see the module's first line."""
    parser = argparse.ArgumentParser(prog="python -m demo.train", description=__doc__)
    parser.add_argument("--steps", type=int, default=12000)
    parser.add_argument("--cooldown", type=float, help="steps (7000), or a share of minutes (0.6)")
    parser.add_argument("--minutes", type=float, help="train so long instead of by steps")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--layers", type=int, default=Shape().layers, help="of a new model")
    parser.add_argument("--makers", type=int, default=1, help="processes that make batches")
    parser.add_argument("--eager", action="store_true", help="compile nothing")
    parser.add_argument("--rate", type=float, default=1.0, help="times the usual learning rates")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--packaged", action="store_true", help="begin at the packaged weights")
    parser.add_argument(
        "--focus", choices=FOCUS, nargs="+", default=[], help="half of the cases are of these"
    )
    parser.add_argument("--workers", type=int, default=2, help="processes, each with its batches")
    parser.add_argument("--threads", type=int, default=1, help="threads of each worker")
    parser.add_argument("--every", type=int, default=50)
    parser.add_argument("--save-every", type=int, default=100)
    parser.add_argument("--out", type=Path, default=Path("build/demo"))
    options = parser.parse_args()
    if options.device != "cpu":
        options.workers = 1
    if options.cooldown is None:
        options.cooldown = COOLDOWN if options.minutes is None else FALLING
    if options.minutes is not None and options.workers > 1:
        parser.error("--minutes needs --workers 1: workers have no clock in common")
    if options.minutes is not None and options.cooldown > 1:
        parser.error("--cooldown is a share of --minutes, 0 to 1")
    options.out.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory() as folder:
        workers = start_processes(
            run,
            (options, f"{folder}/meeting"),
            options.workers,
            join=False,
            start_method="spawn",
        )
        signal.signal(signal.SIGTERM, lambda *_: [w.terminate() for w in workers.processes])
        while not workers.join():
            pass


if __name__ == "__main__":
    main()
