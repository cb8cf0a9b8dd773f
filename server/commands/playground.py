"""The command `playground`: the playground in a process of its own, for any base URL."""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass

import httpx

from harmony.mask_tokenizer import mask_tokenizer
from server.commands.base_url import DEFAULT_URL, check_base_url
from server.commands.failure import CommandFailed
from server.commands.listening import announce, bind, listen, reachable_by_others
from server.commands.log_lines import log_to_stderr
from server.commands.site import serve_site
from server.options.values import host_name
from server.web.site import create_site


@dataclass(frozen=True, slots=True)
class PlaygroundOptions:
    """The options of the command.

    base_url: ends in `/v1`. port: 0 takes a free one. allowed_host: names of this site.
    allow_anonymous: whether other machines may reach it.
    """

    base_url: str = DEFAULT_URL
    host: str = "127.0.0.1"
    port: int = 8080
    allowed_host: tuple[str, ...] | list[str] = ()
    allow_anonymous: bool = False


def show_playground(options: PlaygroundOptions) -> None:
    """Serve until interrupted.

    Raises CommandFailed where the site cannot listen, and for an address that other machines can
    reach although `allow_anonymous` is not set.
    """
    log_to_stderr(logging.INFO)
    _check_base_url(options.base_url)
    site = create_site(options.base_url, _names(options.allowed_host))

    def show(address: str) -> None:
        announce(f"Playground for {options.base_url} on {address}/playground")

    with bind(options.host, options.port) as listener:
        if reachable_by_others(listener) and not options.allow_anonymous:
            raise CommandFailed(
                f"anybody who reaches {options.host} could use the server at {options.base_url}:"
                " listen on 127.0.0.1 (--host), or allow it with --allow-anonymous true"
            )
        mask_tokenizer()
        listen(listener)
        asyncio.run(serve_site(site, listener, show))


def _check_base_url(base_url: str) -> None:
    check_base_url(base_url)
    parsed = httpx.URL(base_url)
    if parsed.userinfo or parsed.query or parsed.fragment:
        raise CommandFailed(
            "--base-url: expected no user name, query or fragment; keys go in the page"
        )


def _names(allowed: Sequence[str]) -> tuple[str, ...]:
    try:
        return tuple(map(host_name, allowed))
    except ValueError as error:
        raise CommandFailed(f"--allowed-host: {error}") from error
