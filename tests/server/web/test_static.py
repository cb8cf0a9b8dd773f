"""The playground's scripts and styles, without a browser."""

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.node import installed

ROOT = Path(__file__).parents[3]
STATIC = ROOT / "server/web/static"
MOST_LINES = 320


def test_the_types_of_the_scripts_are_right(tmp_path: Path) -> None:
    folder = installed(ROOT / "tests/browser/js")
    shutil.copytree(STATIC, tmp_path / "static")
    shutil.copy(folder / "tsconfig.json", tmp_path)
    command = ["node", str(folder / "node_modules/typescript/lib/tsc.js"), "--project", "."]
    checked = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (checked.returncode, checked.stdout) == (0, "")


@pytest.mark.parametrize("path", sorted(STATIC.glob("*.js")), ids=lambda path: path.name)
def test_scripts_are_small_and_checked(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert text.startswith("// @ts-check\n/**")
    assert text.count("\n") <= MOST_LINES
