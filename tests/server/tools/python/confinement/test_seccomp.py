"""The filter's program, interpreted as the kernel does."""

import platform
import re
import struct
from pathlib import Path

import pytest

from server.tools.python.confinement import seccomp
from server.tools.python.confinement.seccomp import Filter, assemble
from server.tools.python.confinement.syscalls import LAST, NUMBERS

MACHINES = {"x86_64": (0xC000003E, 0), "aarch64": (0xC00000B7, 1)}
KILL, ALLOW, SUCCESS, EPERM, ENOSYS = 0x80000000, 0x7FFF0000, 0x50000, 0x50001, 0x50026
EOPNOTSUPP = 0x5005F
PID = 4321


def decide(program: bytes, architecture: int, number: int, *arguments: int) -> int:
    """The action of the program for a call: an interpreter of the instructions that are used."""
    padded = [*arguments, *[0] * (6 - len(arguments))]
    data = struct.pack("<IIQ6Q", number, architecture, 0, *padded)
    code = list(struct.iter_unpack("=HBBI", program))
    accumulator, at = 0, 0
    while True:
        operation, true, false, value = code[at]
        at += 1
        match operation:
            case 0x20:
                (accumulator,) = struct.unpack_from("<I", data, value)
            case 0x54:
                accumulator &= value
            case 0x06:
                return int(value)
            case 0x15:
                at += true if accumulator == value else false
            case 0x25:
                at += true if accumulator > value else false
            case 0x35:
                at += true if accumulator >= value else false
            case _:
                raise AssertionError(operation)


@pytest.fixture(params=MACHINES)
def machine(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


def action(machine: str, name: str, *arguments: int, **options: bool) -> int:
    architecture, column = MACHINES[machine]
    number = NUMBERS[name][column]
    if number is None:
        return EPERM
    program = assemble(Filter(**options), machine, PID)
    return decide(program, architecture, number, *arguments)


def test_foreign_calls_end_the_process(machine: str) -> None:
    program = assemble(Filter(), machine, PID)
    assert decide(program, 0x40000003, 1) == KILL
    assert decide(program, MACHINES[machine][0], 0x40000001) == KILL


def test_calls_after_the_last_known_one_do_not_exist(machine: str) -> None:
    program = assemble(Filter(), machine, PID)
    assert decide(program, MACHINES[machine][0], LAST + 1) == ENOSYS
    assert decide(program, MACHINES[machine][0], 63) == ALLOW


ARGUMENTS_DECIDE = {"clone", "clone3", "fallocate", "fcntl", "ioctl", "mmap", "prctl"}
SIGNALS = {"kill", "tkill", "tgkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo"}
METADATA = {
    *("chmod", "fchmod", "fchmodat", "fchmodat2", "chown", "fchown", "lchown", "fchownat"),
    *("utime", "utimes", "utimensat", "futimesat"),
}


def test_all_known_calls_are_refused_but_those_that_arguments_or_options_decide(
    machine: str,
) -> None:
    known = {name for name in NUMBERS if NUMBERS[name][MACHINES[machine][1]] is not None}
    possible = {name for name in known if action(machine, name, 1) != EPERM}
    assert possible == known & {*ARGUMENTS_DECIDE, *SIGNALS, *METADATA, "truncate"}
    assert {action(machine, name, 1, signals=True) for name in SIGNALS} == {EPERM}
    assert {action(machine, name, metadata=True) for name in METADATA & known} == {SUCCESS}


def test_new_threads_and_processes_but_no_namespaces(machine: str) -> None:
    assert action(machine, "clone", 0x003D0F00) == ALLOW
    assert action(machine, "clone", 17) == ALLOW
    for flag in (0x20000, 1 << 25, 1 << 26, 1 << 27, 1 << 28, 1 << 29, 1 << 30):
        assert action(machine, "clone", flag | 17) == EPERM
    assert action(machine, "clone3") == ENOSYS


def test_pairs_of_unix_streams_alone(machine: str) -> None:
    assert action(machine, "socketpair", 1, 1 | 0o2000000) == ALLOW
    assert action(machine, "socketpair", 1, 2) == EPERM
    assert action(machine, "socketpair", 1, 5) == EPERM
    assert action(machine, "socketpair", 16, 1) == EPERM


def test_private_memory_and_mapped_files_but_no_shared_memory(machine: str) -> None:
    for flags in (0x22, 0x20022, 0x1, 0x2, 0x3):
        assert action(machine, "mmap", 0, 4096, 3, flags) == ALLOW
    for flags in (0x21, 0x23, 0x8021):
        assert action(machine, "mmap", 0, 4096, 3, flags) == EPERM


def test_what_hides_files(machine: str) -> None:
    assert action(machine, "sendmsg") == action(machine, "sendmmsg") == EPERM
    assert action(machine, "prctl", 4, 0) == EPERM
    assert action(machine, "prctl", 1, 9) == ALLOW
    assert action(machine, "fallocate", 3, 0) == EOPNOTSUPP


def test_limits_of_the_process_itself(machine: str) -> None:
    assert action(machine, "prlimit64", 0) == ALLOW
    assert action(machine, "prlimit64", PID) == EPERM


def test_requests_of_terminals(machine: str) -> None:
    assert action(machine, "ioctl", 1, 0x5413) == ALLOW
    assert action(machine, "ioctl", 0, 0x5412) == EPERM


def test_signals(machine: str) -> None:
    assert action(machine, "kill", 1, 9) == ALLOW
    assert action(machine, "kill", PID, 9, signals=True) == ALLOW
    assert action(machine, "kill", 1, 9, signals=True) == EPERM
    assert action(machine, "kill", 0xFFFFFFFF, 9, signals=True) == EPERM
    assert action(machine, "tgkill", PID, PID + 1, 2, signals=True) == ALLOW
    assert action(machine, "fcntl", 3, 1, signals=True) == ALLOW
    assert action(machine, "fcntl", 3, 8, 1, signals=True) == EPERM


def test_metadata(machine: str) -> None:
    assert action(machine, "fchmod") == ALLOW
    assert action(machine, "fchmod", metadata=True) == SUCCESS
    assert action(machine, "truncate") == ALLOW
    assert action(machine, "truncate", truncate=True) == EPERM


def test_the_numbers_are_those_of_the_kernels_headers() -> None:
    files = {
        0: Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h"),
        1: Path("/usr/include/asm-generic/unistd.h"),
    }
    for column, file in files.items():
        if not file.exists():
            continue
        pairs = re.findall(r"#define __NR(?:3264)?_(\w+)\s+(\d+)", file.read_text())
        found = {name: int(number) for name, number in pairs}
        wrong = {
            name: numbers[column]
            for name, numbers in NUMBERS.items()
            if name in found and numbers[column] != found[name]
        }
        assert wrong == {}


def test_other_machines_have_no_filter(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(KeyError):
        assemble(Filter(), "riscv64", 1)
    monkeypatch.setattr(platform, "machine", lambda: "riscv64")
    assert not seccomp.available()
