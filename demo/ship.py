"""Put a training state into the package: `python -m demo.ship build/demo/state.pt`.

Writes `demo/data/demo.xz` and prints its hash and the lexicon's, which belong into
`demo/package.py`.
"""

import argparse
import hashlib
import sys
from pathlib import Path

import torch

from demo import lexicon
from demo.package import FILE
from demo.weights import pack


def main() -> None:
    """The command line: see the module's first line."""
    parser = argparse.ArgumentParser(prog="python -m demo.ship", description=__doc__)
    parser.add_argument("state", type=Path)
    parser.add_argument("--to", type=Path, default=Path(__file__).parent / "data" / FILE)
    options = parser.parse_args()
    saved = torch.load(options.state, map_location="cpu", weights_only=True)
    data = pack(saved["model"], saved["known"])
    options.to.parent.mkdir(exist_ok=True)
    options.to.write_bytes(data)
    sys.stdout.write(f"{len(data)} bytes\n")
    for name, content in (("SHA256", data), ("LEXICON", lexicon.text().encode())):
        sys.stdout.write(f"{name} = {hashlib.sha256(content).hexdigest()!r}\n")


if __name__ == "__main__":
    main()
