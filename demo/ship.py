"""Put a training state into the package: `python -m demo.ship build/demo/state.pt`.

Writes `demo/data/demo.xz` and prints its hash, which belongs into `demo/package.py`.
"""

import argparse
import hashlib
import sys
from pathlib import Path

import torch

from demo.package import FILE
from demo.weights import pack


def main() -> None:
    """The command line: see the module's first line."""
    parser = argparse.ArgumentParser(prog="python -m demo.ship", description=__doc__)
    parser.add_argument("state", type=Path)
    parser.add_argument("--to", type=Path, default=Path(__file__).parent / "data" / FILE)
    options = parser.parse_args()
    saved = torch.load(options.state, weights_only=True)
    data = pack(saved["model"], saved["known"])
    options.to.parent.mkdir(exist_ok=True)
    options.to.write_bytes(data)
    sys.stdout.write(f"{len(data)} bytes\nSHA256 = {hashlib.sha256(data).hexdigest()!r}\n")


if __name__ == "__main__":
    main()
