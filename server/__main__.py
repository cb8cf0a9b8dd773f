"""`python -m server` and the `gpt-oss-server` script."""

import sys

from server.cli import main

if __name__ == "__main__":
    sys.exit(main())
