"""A seccomp filter: which system calls a session's process may make.

The filter refuses calls by name and allows the others that it knows. Calls that are newer than the
filter, and foreign architectures, are refused as a whole. Standard library only.

Some calls are refused because they hide what a session uses from `server.tools.python.usage`:
`sendmsg` can send a descriptor, whose file then belongs to no process until it is received.
"""

import ctypes
import os
import platform
import struct
from collections.abc import Iterable
from dataclasses import dataclass

from server.tools.python.confinement.syscalls import LAST, NUMBERS

_PR_SET_SECCOMP = 22
_MODE_FILTER = 2

_KILL = 0x80000000
_ALLOW = 0x7FFF0000
_SUCCESS = 0x00050000
_EPERM = _SUCCESS | 1
_ENOSYS = _SUCCESS | 38
_EOPNOTSUPP = _SUCCESS | 95

_LOAD, _AND, _RETURN = 0x20, 0x54, 0x06
_EQUAL, _GREATER, _AT_LEAST = 0x15, 0x25, 0x35
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16
"""Offsets in struct seccomp_data."""

_ARCHITECTURES = {"x86_64": (0xC000003E, 0), "aarch64": (0xC00000B7, 1)}
"""By machine: AUDIT_ARCH, and the column of the table of numbers."""
_X32 = 0x40000000

_NAMESPACES = 0x7E020000
"""CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID and NEWNET."""
_UNIX, _STREAM, _TYPES = 1, 1, 0xF
_SHARED_ANONYMOUS = 0x21
"""MAP_SHARED and MAP_ANONYMOUS."""
_DUMPABLE = 4
"""PR_SET_DUMPABLE: whether the server may see the memory and the files of a process."""
_FOREIGN_OWNERS = (8, 10, 15)
"""F_SETOWN, F_SETSIG, F_SETOWN_EX: who is sent a signal for a descriptor."""
_IOCTLS = (0x5412, 0x541C, 0x540E, 0x8901, 0x8902)
"""TIOCSTI, TIOCLINUX, TIOCSCTTY, FIOSETOWN, SIOCSPGRP."""


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


_REFUSED = _words("""
    accept accept4 bind connect listen socket sendmsg sendmmsg
    ptrace process_vm_readv process_vm_writev process_madvise process_mrelease kcmp
    pidfd_getfd pidfd_send_signal
    mount umount2 pivot_root chroot fsopen fsconfig fsmount fspick move_mount open_tree
    mount_setattr statmount listmount unshare setns
    bpf perf_event_open userfaultfd keyctl add_key request_key
    io_uring_setup io_uring_enter io_uring_register io_setup io_submit
    kexec_load kexec_file_load init_module finit_module delete_module reboot swapon swapoff
    memfd_create memfd_secret execveat name_to_handle_at open_by_handle_at
    fanotify_init fanotify_mark inotify_init inotify_init1 inotify_add_watch
    quotactl quotactl_fd acct syslog vhangup iopl ioperm modify_ldt uselib nfsservctl
    lookup_dcookie personality
    settimeofday clock_settime adjtimex clock_adjtime sethostname setdomainname
    move_pages migrate_pages
    shmget shmat shmctl semget semop semctl semtimedop msgget msgsnd msgrcv msgctl
    mq_open mq_unlink mq_timedsend mq_timedreceive mq_notify mq_getsetattr
    setsid setpgid setpriority sched_setaffinity sched_setscheduler sched_setparam sched_setattr
    ioprio_set
    setxattr lsetxattr fsetxattr setxattrat removexattr lremovexattr fremovexattr removexattrat
""")

_SIGNALS = _words("kill tkill tgkill rt_sigqueueinfo rt_tgsigqueueinfo")
_METADATA = _words("""
    chmod fchmod fchmodat fchmodat2 chown fchown lchown fchownat utime utimes utimensat futimesat
""")


@dataclass(frozen=True, slots=True)
class Filter:
    """What a filter refuses beside what it always refuses.

    signals: signals to other processes; only the process itself may be named. metadata: changes of
    modes, owners and times; they have no effect, and report success. truncate: the truncation of
    files by path.
    """

    signals: bool = False
    metadata: bool = False
    truncate: bool = False


def available() -> bool:
    """Whether a filter exists for this machine's architecture."""
    return platform.system() == "Linux" and platform.machine() in _ARCHITECTURES


def install(options: Filter) -> None:
    """Filter this process's system calls, for good. Needs no_new_privs. Raises OSError."""
    program = assemble(options, platform.machine(), os.getpid())
    code = ctypes.create_string_buffer(program)
    # struct sock_fprog: the number of instructions, and their address.
    header = struct.pack("@HP", len(program) // 8, ctypes.addressof(code))
    library = ctypes.CDLL(None, use_errno=True)
    if library.prctl(_PR_SET_SECCOMP, _MODE_FILTER, ctypes.c_char_p(header), 0, 0) != 0:
        error = ctypes.get_errno()
        raise OSError(error, f"seccomp: {os.strerror(error)}")


def assemble(options: Filter, machine: str, pid: int) -> bytes:
    """The program of a filter for a machine. pid: the process that may send itself signals.

    Raises KeyError for a machine without a filter.
    """
    architecture, column = _ARCHITECTURES[machine]
    refused = [*_REFUSED, *(["truncate"] if options.truncate else [])]
    program = [
        _instruction(_LOAD, _ARCHITECTURE),
        _instruction(_EQUAL, architecture, 1, 0),
        _return(_KILL),
        _instruction(_LOAD, _NUMBER),
        *_if(_AT_LEAST, _X32, [_return(_KILL)]),
        *_if(_GREATER, LAST, [_return(_ENOSYS)]),
        # glibc falls back to clone, whose flags the filter can read.
        *_calls(["clone3"], column, [_return(_ENOSYS)]),
        *_calls(refused, column, [_return(_EPERM)]),
        # It takes any space at once, unlike writing. Programs then write.
        *_calls(["fallocate"], column, [_return(_EOPNOTSUPP)]),
        *_calls(["mmap"], column, _mmap()),
        *_calls(["prctl"], column, _unless(0, (_DUMPABLE,))),
        *_calls(["ioctl"], column, _unless(1, _IOCTLS)),
        *_calls(["clone"], column, _clone()),
        *_calls(["socketpair"], column, _socketpair()),
        *_calls(["prlimit64"], column, _only(0, (0,))),
    ]
    if options.metadata:
        program += _calls(_METADATA, column, [_return(_SUCCESS)])
    if options.signals:
        program += _calls(_SIGNALS, column, _only(0, (0, pid)))
        program += _calls(["fcntl"], column, _unless(1, _FOREIGN_OWNERS))
    return b"".join([*program, _return(_ALLOW)])


def _calls(names: Iterable[str], column: int, block: list[bytes]) -> list[bytes]:
    """The block for each of the calls that the architecture has."""
    numbers = [NUMBERS[name][column] for name in names]
    return [
        instruction
        for number in numbers
        if number is not None
        for instruction in _if(_EQUAL, number, block)
    ]


def _only(argument: int, values: Iterable[int]) -> list[bytes]:
    """Allow the call if its argument has one of the values."""
    tests = [each for value in values for each in _if(_EQUAL, value, [_return(_ALLOW)])]
    return [_argument(argument), *tests, _return(_EPERM)]


def _unless(argument: int, values: Iterable[int]) -> list[bytes]:
    """Allow the call unless its argument has one of the values."""
    tests = [each for value in values for each in _if(_EQUAL, value, [_return(_EPERM)])]
    return [_argument(argument), *tests, _return(_ALLOW)]


def _clone() -> list[bytes]:
    """Allow the call unless it makes a namespace."""
    return [
        _argument(0),
        _instruction(_AND, _NAMESPACES),
        *_if(_EQUAL, 0, [_return(_ALLOW)]),
        _return(_EPERM),
    ]


def _mmap() -> list[bytes]:
    """Allow the call unless it makes shared memory without a file.

    The memory stays as long as any page of it is mapped, and counts for no process then.
    """
    return [
        _argument(3),
        _instruction(_AND, _SHARED_ANONYMOUS),
        *_if(_EQUAL, _SHARED_ANONYMOUS, [_return(_EPERM)]),
        _return(_ALLOW),
    ]


def _socketpair() -> list[bytes]:
    """Allow the call for connected Unix streams: datagram sockets can be sent to any address."""
    return [
        _argument(0),
        _instruction(_EQUAL, _UNIX, 1, 0),
        _return(_EPERM),
        _argument(1),
        _instruction(_AND, _TYPES),
        *_if(_EQUAL, _STREAM, [_return(_ALLOW)]),
        _return(_EPERM),
    ]


def _if(test: int, value: int, block: list[bytes]) -> list[bytes]:
    """Run the block, which returns, if the test is true; else go on behind it."""
    return [_instruction(test, value, 0, len(block)), *block]


def _argument(index: int) -> bytes:
    """Load the lower half of an argument: the kernel reads no more of those that are tested."""
    return _instruction(_LOAD, _ARGUMENTS + 8 * index)


def _return(action: int) -> bytes:
    return _instruction(_RETURN, action)


def _instruction(code: int, value: int, true: int = 0, false: int = 0) -> bytes:
    """struct sock_filter. true, false: how many instructions a jump skips."""
    return struct.pack("@HBBI", code, true, false, value)
