import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from demo.checkpoint import trained_name
from tests.forks import Fork

OPEN = """
import sys
from adapters.errors import BackendFailed
from server.commands.backends import open_backend
from server.settings import Settings

class NothingAfterTorch:
    def find_spec(self, name, path, target=None):
        if "torch._C" in sys.modules:
            raise ImportError("torch has loaded the OpenMP library")

sys.meta_path.insert(0, NothingAfterTorch())
try:
    open_backend(Settings(backend="transformers", model="nowhere"), lambda *_: None)
except BackendFailed as error:
    assert "torch has loaded the OpenMP library" in str(error), error
"""


@pytest.mark.skipif(sys.platform != "linux", reason="another OpenMP library")
@pytest.mark.parametrize(
    ("given", "policy", "spins"),
    [(None, "PASSIVE", "20000"), ("passive", "PASSIVE", "0"), ("active", "ACTIVE", "")],
)
def test_threads_of_torch_yield_while_they_wait(given: str | None, policy: str, spins: str) -> None:
    """The OpenMP library shows what it has read when torch loads it."""
    names = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")
    environment = {name: value for name, value in os.environ.items() if name not in names}
    environment["OMP_DISPLAY_ENV"] = "verbose"
    if given is not None:
        environment["OMP_WAIT_POLICY"] = given
    done = subprocess.run(
        [sys.executable, "-c", OPEN], env=environment, capture_output=True, text=True, check=True
    )
    assert f"OMP_WAIT_POLICY = '{policy}'" in done.stderr
    assert f"GOMP_SPINCOUNT = '{spins}" in done.stderr


def test_a_demo_that_cannot_be_written_is_one_line(
    fork: Callable[..., Fork], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    cache = tmp_path / "file"
    cache.touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    status, out, err = fork("serve", "--port", "0").end()
    folder = cache / "gpt-oss-server" / trained_name()
    reason = f"cannot write the demo checkpoint to {folder}: Not a directory"
    assert (status, out, err) == (1, "", f"gpt-oss-server serve: {reason}\n")
