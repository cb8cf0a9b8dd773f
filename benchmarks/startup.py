"""Measure the duration of commands: `python -m benchmarks.startup [ROUNDS]`.

The output has the shortest duration of each command over some rounds, and that of an empty Python
program. `render` spends most of its time on imports and on tiktoken's tables of the vocabulary.
"""

import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
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
            print(f"{name:28} {min(seconds(arguments) for _ in range(rounds)):6.3f} s")


def seconds(arguments: list[str]) -> float:
    start = time.perf_counter()
    subprocess.run([sys.executable, *arguments], cwd=ROOT, stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
