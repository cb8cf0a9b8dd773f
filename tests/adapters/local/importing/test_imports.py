"""Each test runs its program in a new process: imports last as long as the process.

It is a fork of one that has imported what the program imports first: a second start of Python with
torch would take seconds, and show the same.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.adapters.local.tiny import write_tiny
from tests.forks import Forks

UNUSED = """(
    'scipy', 'sympy', 'torch._dynamo', 'torch.distributed.tensor',
    'torch.nn.attention.flex_attention', 'torchvision',
)"""
Run = Callable[..., str]


def forking(*modules: str) -> Iterator[Run]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONWARNINGS", "error::RuntimeWarning")
        forks = Forks(*modules)

    def run(program: str, packages: Path | None = None) -> str:
        """What a program prints. packages: a folder with further packages that it can import."""
        path = f"sys.path.insert(0, {str(packages)!r})\n" if packages else ""
        fork = forks.start(program=path + program)
        try:
            status, printed, errors = fork.end()
        finally:
            fork.kill()
        assert status == 0, errors
        return printed.strip()

    yield run
    forks.close()


@pytest.fixture(scope="module")
def after_backend() -> Iterator[Run]:
    """Runs a program in a process that has imported the backend."""
    yield from forking("adapters.local.opening")


@pytest.fixture(scope="module")
def after_torch() -> Iterator[Run]:
    """Runs a program in a process that has imported torch."""
    yield from forking("torch")


def test_the_backend_imports_nothing_that_it_does_not_use(after_backend: Run) -> None:
    program = f"""
import sys
import adapters.local.opening
print([name for name in {UNUSED} if name in sys.modules])
"""
    assert after_backend(program) == "[]"


def test_loading_and_the_first_steps_do_not_import_the_compiler(
    after_backend: Run, tmp_path: Path
) -> None:
    program = f"""
import asyncio, sys
from adapters.base import BackendConfig
from adapters.local.opening import LocalBackend
from harmony.mask_tokenizer import mask_tokenizer

async def main():
    backend = LocalBackend(
        BackendConfig({str(write_tiny(tmp_path))!r}, {{"device": "cpu"}}, list, str, mask_tokenizer)
    )
    await backend.start()
    await backend.stop()

asyncio.run(main())
print([name for name in {UNUSED} if name in sys.modules])
"""
    assert after_backend(program) == "[]"


def test_the_compiler_works_after_the_backend_is_imported(after_backend: Run) -> None:
    program = """
import adapters.local.opening
import torch
compiled = torch.compile(lambda x: torch.vmap(lambda row: row + 1)(x) * 2, backend="eager")
print(compiled(torch.ones(2)).tolist(), torch._dynamo.__file__ is not None)
"""
    assert after_backend(program) == "[4.0, 4.0] True"


def test_a_compiler_that_is_imported_already_is_used(after_torch: Run) -> None:
    program = """
import sys
import torch._dynamo
real = sys.modules["torch._dynamo"]
from adapters.local.importing.imports import lean_imports, without_compiler
with lean_imports(), without_compiler("cpu"):
    print(sys.modules["torch._dynamo"] is real and torch._dynamo is real)
print(sys.modules["torch._dynamo"] is real)
"""
    assert after_torch(program) == "True\nTrue"


def test_functions_and_tensors_are_not_marked_on_a_cpu(after_torch: Run) -> None:
    program = """
import sys
import torch
from adapters.local.importing.imports import without_compiler
with without_compiler("cpu"):
    @torch.compiler.disable
    def first(): return 1
    @torch.compiler.disable(recursive=False)
    def second(): return 2
    @torch._dynamo.allow_in_graph
    def third(): return 3
    @torch._dynamo.assume_constant_result
    def fourth(): return 4
    torch._dynamo.mark_static_address(torch.ones(1))
print(first() + second() + third() + fourth(), "torch._dynamo" in sys.modules)
"""
    assert after_torch(program) == "10 False"


def test_any_other_use_of_the_compiler_imports_it(after_torch: Run) -> None:
    program = """
import sys
import torch
from adapters.local.importing.imports import without_compiler
with without_compiler("cpu"):
    compiler = torch._dynamo
    print(hasattr(compiler, "__wrapped__"), compiler.config is not None)
print(sys.modules["torch._dynamo"] is torch._dynamo is not compiler)
"""
    assert after_torch(program) == "False True\nTrue"


@pytest.mark.parametrize(
    ("context", "imported"),
    [
        # As torchvision does, which transformers may import.
        ("lean_imports()", "from torch._dynamo.utils import is_compile_supported"),
        ("without_compiler('cpu')", "from torch._dynamo.utils import is_compile_supported"),
        ("without_compiler('cpu')", "import torch._dynamo.backends.registry"),
        ("without_compiler('cpu')", "from torch._dynamo import utils"),
        ("without_compiler('cpu')", "from torch._dynamo import config"),
    ],
)
def test_what_imports_a_part_of_the_compiler_gets_the_real_one(
    after_torch: Run, tmp_path: Path, context: str, imported: str
) -> None:
    (tmp_path / "user.py").write_text(f"{imported}\n")
    program = f"""
import sys
import torch
from adapters.local.importing.imports import lean_imports, without_compiler
before = list(sys.meta_path)
with {context}:
    stand_in = torch._dynamo
    import user
    import torch._dynamo.utils as utils
    print(sys.modules["torch._dynamo"] is torch._dynamo is not stand_in)
print(utils is sys.modules["torch._dynamo.utils"] is torch._dynamo.utils)
print(utils.__spec__.origin == utils.__file__)
print(utils.counters is torch._dynamo.convert_frame.counters)
compiled = torch.compile(lambda x: torch.vmap(lambda row: row + 1)(x) * 2, backend="eager")
print(compiled(torch.ones(2)).tolist(), sys.meta_path == before)
"""
    assert after_torch(program, tmp_path) == "True\nTrue\nTrue\nTrue\n[4.0, 4.0] True"


def test_the_backend_needs_no_package_for_images(after_torch: Run, tmp_path: Path) -> None:
    """transformers imports torchvision where it is installed, and torchvision the compiler."""
    (tmp_path / "torchvision").mkdir()
    (tmp_path / "torchvision/__init__.py").write_text("raise RuntimeError('not for this torch')\n")
    (tmp_path / "torchvision-0.28.0.dist-info").mkdir()
    metadata = "Metadata-Version: 2.1\nName: torchvision\nVersion: 0.28.0\n"
    (tmp_path / "torchvision-0.28.0.dist-info/METADATA").write_text(metadata)
    program = f"""
import sys
import adapters.local.opening
print([name for name in {UNUSED} if name in sys.modules])
"""
    assert after_torch(program, tmp_path) == "[]"


def test_the_compiler_is_there_for_other_devices(after_torch: Run) -> None:
    program = """
import torch
from adapters.local.importing.imports import without_compiler
with without_compiler("cuda"):
    print(torch._dynamo.__file__ is not None)
"""
    assert after_torch(program) == "True"


def test_a_torch_without_compiler_is_left_alone(after_torch: Run) -> None:
    program = """
import sys
import torch
import adapters.local.importing.imports as imports
imports._COMPILER = "torch.no_such_compiler"
with imports.without_compiler("cpu"):
    print("torch._dynamo" in sys.modules or "torch.no_such_compiler" in sys.modules)
"""
    assert after_torch(program) == "False"


def test_the_backend_does_not_list_what_transformers_contains(after_backend: Run) -> None:
    program = """
import sys
import adapters.local.opening
print(type(sys.modules["transformers"]).__name__, type(sys.modules["transformers.models"]).__name__)
"""
    assert after_backend(program) == "_Postponed _Postponed"


def test_transformers_has_all_it_contains_after_the_backend_is_imported(after_backend: Run) -> None:
    program = """
import adapters.local.opening
import transformers
from transformers import GptOssForCausalLM
from transformers.models import llama
from transformers.models.gpt_oss.modeling_gpt_oss import GptOssForCausalLM as same
print(GptOssForCausalLM is same, llama.LlamaConfig is transformers.LlamaConfig)
print("GptOssConfig" in dir(transformers), hasattr(transformers, "no_such_name"))
import transformers.tokenization_utils_fast
"""
    assert after_backend(program) == "True True\nTrue False"


def test_the_version_of_transformers_is_known(after_backend: Run) -> None:
    program = """
import adapters.local.opening
import importlib.metadata
import transformers
print(transformers.__version__ == importlib.metadata.version("transformers"))
print(hasattr(transformers, "__wrapped__"), type(transformers).__name__)
"""
    assert after_backend(program) == "True\nFalse _Postponed"


def test_a_transformers_that_is_imported_already_is_used(after_torch: Run) -> None:
    program = """
import transformers
from adapters.local.importing.postponed import postpone_contents
before = transformers
postpone_contents()
import sys
print(sys.modules["transformers"] is before, transformers.GptOssConfig.__name__)
"""
    assert after_torch(program) == "True GptOssConfig"
