"""Runs the Codex CLI with the configuration of docs/clients.md."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

from tests.documentation import ROOT, blocks

MODEL = "gpt-oss-test"
(_CONFIG,) = blocks(ROOT / "docs/clients.md", "toml")


def run_codex(
    installed: Path, base_url: str, prompt: str, folder: Path, *flags: str, websockets: bool = True
) -> list[dict[str, Any]]:
    """Returns the items that Codex has completed for a prompt.

    installed: the folder of its packages. folder: where it works. Its configuration is in `.home`.
    """
    home = folder / ".home"
    home.mkdir()
    config = _CONFIG.replace("gpt-oss-demo", MODEL).replace("http://localhost:8000/v1", base_url)
    assert config.endswith("supports_websockets = true\n")
    (home / "config.toml").write_text(config.replace("= true", f"= {str(websockets).lower()}"))
    codex = installed / "node_modules" / ".bin" / "codex"
    done = subprocess.run(
        [codex, "exec", "--json", "--skip-git-repo-check", *flags, prompt],
        cwd=folder,
        env=os.environ | {"CODEX_HOME": str(home)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    events = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return [event["item"] for event in events if event["type"] == "item.completed"]
