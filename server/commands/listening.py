"""The socket that a command listens on, and whether other machines reach it."""

import os
import socket
import sys
from contextlib import ExitStack
from ipaddress import ip_address

from server.commands.failure import CommandFailed


class CannotListen(CommandFailed):
    """There is no such address, or it is in use."""

    def __init__(self, host: str, port: int, error: OSError | UnicodeError) -> None:
        reason = error.strerror if isinstance(error, OSError) else "this is no host name"
        super().__init__(f"cannot listen on {host}:{port}: {reason}")


def bind(host: str, port: int) -> socket.socket:
    """A socket that is bound, and does not listen yet. port: 0 takes a free one.

    Raises CannotListen.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        with ExitStack() as on_failure:
            listener = on_failure.enter_context(socket.socket(family, kind, protocol))
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
            on_failure.pop_all()
    except (OSError, UnicodeError) as error:
        raise CannotListen(host, port, error) from error
    return listener


def listen(listener: socket.socket) -> None:
    """Listen. Raises CannotListen where another process bound the port too, and was first."""
    try:
        listener.listen()
    except OSError as error:
        host, port = listener.getsockname()[:2]
        raise CannotListen(host, port, error) from error


def reachable_by_others(listener: socket.socket) -> bool:
    """Whether other machines reach the address that the socket is bound to."""
    host: str = listener.getsockname()[0]
    return not ip_address(host.partition("%")[0]).is_loopback


def url(listener: socket.socket) -> str:
    """The address of the server behind the socket."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def announce(line: str) -> None:
    """Print where the server is. It serves all the same where nobody takes what it prints.

    The reader of a pipe may have ended, or the disk of a file may be full.
    """
    try:
        print(line, flush=True)
    except OSError:
        # Python writes the rest when it ends, and would show the error again.
        with open(os.devnull, "w") as nowhere:
            os.dup2(nowhere.fileno(), sys.stdout.fileno())
