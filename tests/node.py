"""Packages of npm for tests, which need Node.js."""

import fcntl
import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

import pytest


def installed(source: Path) -> Path:
    """A folder with the files of `source` and the packages of its lock file.

    The packages stay in the environment, and are installed again if the folder changes. The test
    is skipped where there is no Node.js.
    """
    npm = shutil.which("npm")
    if not (npm and shutil.which("node")):
        pytest.skip("there is no Node.js")
    digest = hashlib.sha256(b"".join(map(Path.read_bytes, sorted(source.iterdir()))))
    name = f"{source.parent.name}-{source.name}-{digest.hexdigest()[:16]}"
    folder = Path(sys.prefix) / "clients" / name
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / ".installed", "a+b") as marker:
        # Test processes run side by side: the first one installs.
        fcntl.flock(marker, fcntl.LOCK_EX)
        if not marker.tell():
            shutil.copytree(source, folder, dirs_exist_ok=True)
            command = [npm, "ci", "--silent", "--no-audit", "--no-fund"]
            subprocess.run(command, cwd=folder, check=True)
            marker.write(b"yes")
    return folder
