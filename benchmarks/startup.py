"""Measure the duration of commands: `python -m benchmarks.startup [--rounds 5] [--json FILE]`.

The output has the shortest duration of each command over some rounds, and that of an empty Python
program. `render` spends most of its time on imports and on tiktoken's tables of the vocabulary.
"""

import argparse
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

from benchmarks.library import figures
from benchmarks.library.timing import shortest


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    figures.add_option(parser)
    options = parser.parse_args()
    found: figures.Figures = {}
    with tempfile.TemporaryDirectory() as folder:
        request = Path(folder) / "request.json"
        request.write_text('{"input": "Hello"}')
        commands = {
            "python -c pass": ["-c", "pass"],
            "gpt-oss-server --help": ["-m", "server", "--help"],
            "gpt-oss-server serve --help": ["-m", "server", "serve", "--help"],
            "gpt-oss-server render": ["-m", "server", "render", str(request)],
        }
        for name, arguments in commands.items():
            taken = shortest(partial(run, arguments), options.rounds)
            found[f"{name}, s"] = taken
            print(f"{name:28} {taken:6.3f} s", flush=True)
    figures.write(found, options.json)


def run(arguments: list[str]) -> None:
    command = [sys.executable, *arguments]
    subprocess.run(command, cwd=figures.ROOT, stdout=subprocess.DEVNULL, check=True)


if __name__ == "__main__":
    main()
