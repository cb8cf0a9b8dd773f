"""`python -m server` and the `gpt-oss-server` script."""

import sys
from contextlib import suppress
from pathlib import Path


def main() -> int:
    """Run the command line; its exit status."""
    if sys.platform == "win32":
        print("gpt-oss-server runs on Linux and macOS; on Windows, run it in WSL.", file=sys.stderr)
        return 1
    # It is loaded here so that what stands above holds for all its imports.
    from server.commands import main

    return main.main()


def _forget_the_working_directory() -> None:
    """With -m it comes first, so that its modules would be imported instead of those installed.

    A checkout of this project is the working directory and what is installed at once: it stays.
    """
    with suppress(FileNotFoundError):  # a working directory that was deleted
        here = Path.cwd()
        if Path(sys.path[0]).resolve() == here != Path(__file__).resolve().parents[1]:
            del sys.path[0]


if __name__ == "__main__":
    if not sys.flags.safe_path:
        _forget_the_working_directory()
    sys.exit(main())
