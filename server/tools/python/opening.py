"""Makes the sandbox that the options select."""

import os
from pathlib import Path

from platformdirs import user_data_path

from server.tools.python.process import ProcessSandbox
from server.tools.python.remote import RemoteSandbox
from server.tools.python.sandbox import PythonSandbox

PROCESS = "process"
"""The value of `--python-sandbox` for processes of this machine; others are URLs."""


def open_sandbox(where: str, key: str | None, folder: Path | None, most: int) -> PythonSandbox:
    """A sandbox, not yet started.

    where: `process`, or the URL of a service. key: the service's. folder: where sessions have their
    files; None: the default. most: processes that live at once.
    """
    if where != PROCESS:
        return RemoteSandbox(where, key or None)
    return ProcessSandbox(folder or default_folder(), most=most)


def default_folder() -> Path:
    """Where sessions have their files without `--python-folder`.

    Sessions of root run as users of their own, which cannot enter root's home folder.
    """
    root = hasattr(os, "geteuid") and os.geteuid() == 0 and "XDG_DATA_HOME" not in os.environ
    if root:
        return Path("/var/lib/gpt-oss-server/python")
    return user_data_path("gpt-oss-server", appauthor=False) / "python"
