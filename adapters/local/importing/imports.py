"""Imports transformers without parts of it and of torch that this backend never uses.

These are more than half of the processor time that the imports take, and 100 MB of memory:

- torch's compiler, dynamo. transformers and torch only mark functions for it, while they are
  imported or first called. Nothing here is compiled.
- Tensors that are distributed over processes. The backend has one process.
- torch's flex attention, which is for the compiler. From torch 2.14 on it imports sympy.
- scipy and torchvision, if they are installed. transformers uses them for images only.
- The list of everything that transformers contains, see `postponed`.

All of them can still be imported and used, afterwards and by what else is imported meanwhile.
"""

import importlib
import importlib.util
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, TypeVar

from adapters.local.importing.postponed import distributions_on_demand, postpone_contents

_COMPILER = "torch._dynamo"
_MODELS = "transformers.modeling_utils"
_INDEPENDENT = frozenset({"torch._dynamo._trace_wrapped_higher_order_op"})
"""Submodules of the compiler that do not import it. transformers imports them."""

Function = TypeVar("Function", bound=Callable[..., Any])


@contextmanager
def lean_imports() -> Iterator[None]:
    """A context for the first import of transformers' models.

    From then on, transformers in this process works as it does where scipy, torchvision,
    torch.distributed and flex attention are not installed. Functions that it marks for the compiler
    in this context are not marked.
    Does nothing if the models or the compiler are imported already.
    """
    if _MODELS in sys.modules or _COMPILER in sys.modules:
        yield
        return
    postpone_contents()
    with _compiler_replaced(), distributions_on_demand():
        _replace_functions()
        yield


@contextmanager
def without_compiler(device_type: str) -> Iterator[None]:
    """A context in which functions and tensors are not marked for the compiler.

    Otherwise the first mark imports it. Does nothing if it is imported already, and for another
    device than a CPU: kernels of GPUs may need it.
    """
    with _compiler_replaced() if device_type == "cpu" else nullcontext():
        yield


@contextmanager
def _compiler_replaced() -> Iterator[None]:
    import torch

    spec = importlib.util.find_spec(_COMPILER) if _COMPILER not in sys.modules else None
    if spec is None:
        yield
        return
    compiler = _Compiler(_COMPILER)
    compiler.__path__ = list(spec.submodule_search_locations or ())
    finder = _Submodules(compiler)
    sys.modules[_COMPILER] = compiler
    torch._dynamo = compiler
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
        _remove(compiler)


def _replace_functions() -> None:
    utils = importlib.import_module("transformers.utils")
    for module in (utils, utils.import_utils):
        for name, replacement in _REPLACEMENTS.items():
            if hasattr(module, name):
                setattr(module, name, replacement)


def _unavailable() -> bool:
    return False


def _imported(*_: object) -> ModuleType:
    return sys.modules["transformers"]


_REPLACEMENTS: dict[str, Callable[..., Any]] = {
    "is_torch_distributed_available": _unavailable,
    "is_torch_flex_attn_available": _unavailable,
    "is_scipy_available": _unavailable,
    "is_torchvision_available": _unavailable,
    # The original runs the `__init__` of transformers once more.
    "direct_transformers_import": _imported,
}
"""What replaces functions of transformers, by their names."""


class _Compiler(ModuleType):
    """Stands for `torch._dynamo` and has its functions that mark something, without effect.

    Any other use of it imports the compiler, and so does the import of a submodule that needs it.
    """

    def disable(
        self, function: Function | None = None, recursive: bool = True, **_: Any
    ) -> Function | Callable[[Function], Function]:
        return _marked if function is None else function

    def allow_in_graph(self, function: Function) -> Function:
        return function

    def assume_constant_result(self, function: Function) -> Function:
        return function

    def mark_static_address(self, tensor: object, guard: bool = False) -> None:
        return

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        _remove(self)
        return getattr(importlib.import_module(_COMPILER), name)


def _marked(function: Function) -> Function:
    return function


class _Submodules(MetaPathFinder):
    """Imports the compiler before a submodule of it, as an import without a stand-in does.

    Otherwise the submodule imports the compiler, which needs the same submodule, half imported.
    """

    def __init__(self, compiler: ModuleType) -> None:
        self._compiler = compiler

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if not name.startswith(f"{_COMPILER}.") or name in _INDEPENDENT:
            return None
        if sys.modules.get(_COMPILER) is not self._compiler:
            return None
        _remove(self._compiler)
        importlib.import_module(_COMPILER)
        # Python imports what it asked for, even if it is there by now: it gets that module.
        module = sys.modules.pop(name, None)
        return None if module is None else ModuleSpec(name, _Imported(module))


class _Imported(Loader):
    """Loads a module that is imported already."""

    def __init__(self, module: ModuleType) -> None:
        self._module, self._spec = module, module.__spec__

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return self._module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self._spec  # Python has replaced it


def _remove(compiler: ModuleType) -> None:
    """Let the next import of the compiler find the real one."""
    import torch

    if sys.modules.get(_COMPILER) is compiler:
        del sys.modules[_COMPILER]
    if vars(torch).get("_dynamo") is compiler:
        del torch._dynamo
