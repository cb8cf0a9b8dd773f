"""What holds for every test: no network, a core for each worker, no timed examples."""

import atexit
import gc
import logging
import os
import tempfile
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from tests.forks import SERVE, Forks

pytest_plugins = ["tests.postgres"]

# Read when the libraries are first imported; processes that tests start inherit them.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# Servers that tests start store their data here, not in the home folder.
_data = tempfile.TemporaryDirectory(prefix="gpt-oss-data-", ignore_cleanup_errors=True)
atexit.register(_data.cleanup)
os.environ["XDG_DATA_HOME"] = _data.name
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"
for _name in [name for name in os.environ if name.startswith("GPT_OSS_")]:
    del os.environ[_name]

settings.register_profile(
    "project",
    deadline=None,
    derandomize=bool(os.environ.get("CI")),
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("project")


@pytest.fixture(scope="session")
def forks() -> Iterator[Forks]:
    """Starts commands of the server, and MCP servers."""
    opened = Forks(*SERVE, "mcp.server.mcpserver")
    yield opened
    opened.close()


@pytest.fixture(autouse=True)
def log_level() -> Iterator[None]:
    """Commands that a test runs in its process change what later tests log."""
    root = logging.getLogger()
    level = root.level
    yield
    root.setLevel(level)


def pytest_collection_finish() -> None:
    """What collecting the tests imported stays: a collection of garbage need not visit it."""
    gc.collect()
    gc.freeze()
