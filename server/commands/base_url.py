"""The address of the API that a command talks to."""

from server.commands.failure import CommandFailed

DEFAULT_URL = "http://127.0.0.1:8000/v1"
"""The one that `serve` has without options."""


def check_base_url(base_url: str) -> None:
    """Raises CommandFailed unless this can be the address of an API."""
    from server.options.values import is_web_url  # here: `--help` must not wait for pydantic

    if not is_web_url(base_url):
        raise CommandFailed("--base-url: expected the address of an API, http://HOST:PORT/v1")
