import gc
import linecache
import subprocess
import sys
from collections.abc import Iterator

import pytest

from server.commands import garbage


@pytest.fixture(autouse=True)
def own_settings() -> Iterator[None]:
    threshold = gc.get_threshold()
    yield
    gc.unfreeze()
    gc.set_threshold(*threshold)


def test_collections_are_seldom_before_serve_imports_anything() -> None:
    program = """
import gc, sys
class Serving:
    def find_spec(self, name, path, target=None):
        if name == "server.commands.serve":
            print(gc.get_threshold()[0])
            sys.exit(0)
sys.meta_path.insert(0, Serving())
from server.commands.main import main
main(["serve"])
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=600, check=True
    )
    assert int(done.stdout) == garbage.COLLECT_AFTER


def test_existing_objects_are_excluded_and_later_ones_seldom_collected() -> None:
    garbage.reduce_garbage_collections()
    assert gc.get_freeze_count() > 0
    assert gc.get_threshold()[0] == garbage.COLLECT_AFTER


def test_source_lines_and_freed_memory_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = []
    monkeypatch.setattr(garbage, "release_freed", lambda: kept.append(len(linecache.cache)))
    assert linecache.getline(__file__, 1)
    garbage.free_unused()
    assert kept == [0]
