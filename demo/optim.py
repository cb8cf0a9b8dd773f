"""Muon for the matrices, Adam for everything else.

Muon (Keller Jordan, 2024) replaces each matrix's momentum by the nearest orthogonal matrix, found
by a few Newton-Schulz steps. On models this small it needs about half of Adam's steps.
"""

from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import Tensor

from demo.model import products

_STEPS = 5
_COEFFICIENTS = (3.4445, -4.7750, 2.0315)


def orthogonal(matrices: Tensor) -> Tensor:
    """The nearest orthogonal matrices, roughly, to `matrices` (n, rows, columns)."""
    a, b, c = _COEFFICIENTS
    x = matrices.to(products(matrices.device))
    tall = x.shape[1] > x.shape[2]
    if tall:
        x = x.transpose(1, 2)
    x = x / (x.norm(dim=(1, 2), keepdim=True) + 1e-7)
    for _ in range(_STEPS):
        square = torch.bmm(x, x.transpose(1, 2))
        x = a * x + torch.bmm(b * square + c * torch.bmm(square, square), x)
    nearest: Tensor = x.transpose(1, 2) if tall else x
    return nearest


class Muon(torch.optim.Optimizer):
    """Momentum, orthogonalised; for parameters of shape (rows, columns) or (n, rows, columns)."""

    def __init__(self, params: Iterable[dict[str, Any]], lr: float, momentum: float = 0.95) -> None:
        super().__init__(params, {"lr": lr, "momentum": momentum})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Update all parameters; matrices of one shape are orthogonalised together."""
        del closure
        for group in self.param_groups:
            shapes: dict[tuple[int, ...], list[tuple[Tensor, Tensor]]] = {}
            for parameter, update in self._momenta(group["params"], group["momentum"]):
                shape = tuple(parameter.shape[-2:])
                shapes.setdefault(shape, []).append((parameter, update.view(-1, *shape)))
            for (rows, columns), members in shapes.items():
                updates = orthogonal(torch.cat([update for _, update in members]))
                rate = group["lr"] * max(1.0, rows / columns) ** 0.5
                split = updates.float().split([len(update) for _, update in members])
                parameters = [parameter for parameter, _ in members]
                pairs = zip(parameters, split, strict=True)
                views = [update.view_as(parameter) for parameter, update in pairs]
                torch._foreach_sub_(parameters, views, alpha=rate)

    def _momenta(
        self, parameters: list[Tensor], momentum: float
    ) -> Iterator[tuple[Tensor, Tensor]]:
        """Each parameter with its gradient after momentum (Nesterov's)."""
        gradients: list[Tensor] = []
        for parameter in parameters:
            assert parameter.grad is not None
            gradients.append(parameter.grad)
            if not self.state[parameter]:
                self.state[parameter]["momentum"] = torch.zeros_like(parameter)
        buffers = [self.state[parameter]["momentum"] for parameter in parameters]
        torch._foreach_lerp_(buffers, gradients, 1 - momentum)
        yield from zip(parameters, torch._foreach_lerp(gradients, buffers, momentum), strict=True)
