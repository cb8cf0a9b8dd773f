"""Passes the messages of a program on to the server, as its SDK of MCP can read them.

The SDK reads nothing more after a byte that is not UTF-8, and messages of any size on the event
loop. Standard library only.
"""

import re
from typing import BinaryIO

from server.tools.mcp.message_size import MAX_RESPONSE, MAX_VALUES, TOO_LARGE, ValueCounter
from server.tools.mcp.surrogates import mend

_KEPT = 128
"""Bytes at each end of a message, which may hold its id."""

_VERSION = rb'(?:"jsonrpc":\s*"2\.0",\s*)?'
_OUTCOME = rb'"(?:result|error)"'
# How answers begin. SDKs write the id before the result, or at the end. Requests have neither.
_FIRST = re.compile(rb"\s*\{\s*" + _VERSION + rb'"id":\s*(\d+),\s*' + _VERSION + _OUTCOME)
_ANSWER = re.compile(rb"\s*\{\s*" + _VERSION + _OUTCOME)
_LAST = re.compile(rb'[,{]\s*"id":\s*(\d+)\s*(?:,\s*"jsonrpc":\s*"2\.0"\s*)?\}\s*\Z')


def pass_on(program: BinaryIO, server: BinaryIO) -> None:
    """Pass each line on, until the program closes its output.

    What is not UTF-8 is replaced, as are halves of characters. In place of an answer over a limit
    its request gets an error; other messages over it are left out. Raises OSError if the server has
    closed its end.
    """
    while line := program.readline(MAX_RESPONSE + 1):
        if len(line) > MAX_RESPONSE or ValueCounter(is_stream=False).add(line) > MAX_VALUES:
            line = _error(line[:_KEPT], _end_of_line(line, program))
        server.write(mend(line.decode(errors="replace").encode()))
        server.flush()


def _end_of_line(line: bytes, program: BinaryIO) -> bytes:
    """The last bytes of a line, of which the rest is read. line: its first bytes."""
    end = line[-_KEPT:]
    while not end.endswith(b"\n") and (more := program.readline(MAX_RESPONSE)):
        end = (end + more)[-_KEPT:]
    return end


def _error(start: bytes, end: bytes) -> bytes:
    """The line of an error for the request that a message answers; empty where it answers none."""
    found = _FIRST.match(start) or (_ANSWER.match(start) and _LAST.search(end))
    if not found:
        return b""
    error = b'{"code":-32603,"message":"%b"}' % TOO_LARGE.encode()
    return b'{"jsonrpc":"2.0","id":%b,"error":%b}\n' % (found[1], error)
