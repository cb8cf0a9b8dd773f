"""Models without memory, on torch's meta device, made without sympy.

torch computes some functions there in Python, in a way that also takes symbols: drawing random
weights, and ranges of numbers. Their first call imports sympy, which takes 35 MB and half a second.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
from torch.overrides import TorchFunctionMode


@contextmanager
def without_symbols(device_type: str) -> Iterator[None]:
    """A context in which no model on the meta device needs sympy.

    Does nothing for another device than a CPU: its libraries import sympy anyway.
    """
    with _WithoutSymbols() if device_type == "cpu" else nullcontext():
        yield


class _WithoutSymbols(TorchFunctionMode):
    """Draws no weights on the meta device, and makes ranges for it on the CPU.

    Frequencies of position embeddings are computed from ranges, and are computed again when the
    weights are loaded.
    """

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        if func is torch.nn.init.normal_:
            tensor = args[0] if args else kwargs["tensor"]
            if tensor.is_meta:
                return tensor
        if func is torch.arange and _is_meta(kwargs.get("device")):
            kwargs = {**kwargs, "device": torch.device("cpu")}
        return func(*args, **kwargs)


def _is_meta(device: torch.device | str | None) -> bool:
    return device is not None and torch.device(device).type == "meta"
