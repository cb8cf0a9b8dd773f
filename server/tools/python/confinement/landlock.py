"""Landlock: which files a process may use. Standard library only.

Source: https://docs.kernel.org/userspace-api/landlock.html
"""

import ctypes
import os
import platform
import struct
from collections.abc import Iterable

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_VERSION = 1
_PATH_BENEATH = 1

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_REMOVE_DIR, _REMOVE_FILE, _MAKE_DIR, _MAKE_REG = 1 << 4, 1 << 5, 1 << 7, 1 << 8
_MAKE_FIFO, _MAKE_SYM, _REFER, _TRUNCATE = 1 << 10, 1 << 12, 1 << 13, 1 << 14

_ALL = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 5: (1 << 16) - 1}
"""All rights by the version that has them first."""
_TCP = 0b11
_SCOPES = 0b11
"""Abstract Unix sockets and signals."""

_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE
"""The rights that a rule for a single file may have."""

READ = _EXECUTE | _READ_FILE | _READ_DIR
WRITE = (
    _READ_FILE
    | _READ_DIR
    | _WRITE_FILE
    | _TRUNCATE
    | _REFER
    | _REMOVE_DIR
    | _REMOVE_FILE
    | _MAKE_DIR
    | _MAKE_REG
    | _MAKE_FIFO
    | _MAKE_SYM
)
"""Neither programs nor sockets nor devices."""

SIGNALS_SINCE = 6
"""The version that scopes signals."""
TRUNCATE_SINCE = 3
"""The version that restricts the truncation of files."""


def version() -> int:
    """The version of the kernel's Landlock, less than 1 where it has none."""
    if platform.system() != "Linux":
        return -1
    return int(_syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(_VERSION)))


def restrict(read: Iterable[str], write: Iterable[str]) -> None:
    """Restrict this process and its children, for good, to what is below these paths.

    Paths that do not exist are left out. TCP is refused, and signals and abstract Unix sockets end
    at the restricted processes, where the kernel's version has that. Needs no_new_privs. Raises
    OSError.
    """
    found = version()
    handled = _ALL[max(known for known in _ALL if known <= max(found, 1))]
    attributes = struct.pack(
        "@QQQ", handled, _TCP if found >= 4 else 0, _SCOPES if found >= SIGNALS_SINCE else 0
    )
    size = 8 if found < 4 else 16 if found < SIGNALS_SINCE else 24
    ruleset = _check(
        _syscall(_CREATE_RULESET, ctypes.c_char_p(attributes), ctypes.c_size_t(size), 0)
    )
    try:
        for paths, rights in ((read, READ), (write, WRITE)):
            for path in paths:
                _allow(ruleset, path, rights & handled)
        _check(_syscall(_RESTRICT_SELF, ruleset, 0))
    finally:
        os.close(ruleset)


def _allow(ruleset: int, path: str, rights: int) -> None:
    try:
        opened = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        if not os.path.isdir(path):
            rights &= _FILES
        rule = struct.pack("=Qi", rights, opened)
        _check(_syscall(_ADD_RULE, ruleset, _PATH_BENEATH, ctypes.c_char_p(rule), 0))
    finally:
        os.close(opened)


def _syscall(*arguments: object) -> int:
    call = ctypes.CDLL(None, use_errno=True).syscall
    call.restype = ctypes.c_long
    return int(call(*arguments))


def _check(result: int) -> int:
    if result < 0:
        error = ctypes.get_errno()
        raise OSError(error, f"Landlock: {os.strerror(error)}")
    return result
