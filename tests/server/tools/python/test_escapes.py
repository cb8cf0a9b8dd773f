"""Attempts to leave the sandbox, each in a test of its own, for each way to confine a session.

None may succeed. An attempt prints ESCAPED where it gets further than it should. Each test runs for
each of `conftest.COMBINATIONS`: as root and as a user without rights, with bubblewrap, Landlock and
seccomp, with Landlock and seccomp, and with bubblewrap and seccomp.

| attempt | tests |
|---|---|
| files outside, /etc/passwd, /root, /proc/1 | test_a_file_outside_*, test_a_folder_outside_* |
| other sessions' files | test_the_files_of_another_session_are_not_read |
| writing to the interpreter | test_the_interpreter_*, test_the_worker_is_not_written |
| symbolic and hard links | test_the_server_follows_no_link_*, test_a_file_outside_is_not_linked_* |
| the server's environment and memory | test_the_environment_*, test_the_memory_of_the_server_* |
| ptrace, signals to the parent | test_the_server_is_not_traced, test_signals_* |
| TCP, UDP, DNS, raw sockets | test_tcp_*, test_udp_*, test_names_*, test_no_socket_is_made |
| unix sockets, abstract ones | test_unix_sockets_*, test_a_pair_of_sockets_* |
| unshare, mount, userfaultfd, io_uring, bpf, keyctl | test_a_system_call_is_refused |
| running a file in memory | test_a_system_call_is_refused: memfd_create, execveat |
| fork bomb, threads, processor time | test_a_fork_bomb_*, test_threads_are_*, test_processor_* |
| 10 GB of memory | test_memory_*, test_shared_memory_*, test_the_kernel_ends_* |
| filling the disk | test_one_file_*, test_all_files_*, test_deleted_*, test_deep_folders_* |
| hidden files | test_files_in_*, test_a_mapped_*, test_no_descriptor_*, test_what_a_thread_* |
| forged protocol lines, a wrong pickle | test_a_forged_frame_*, test_frames_*, test_closed_* |
| 20 MB of output | test_output_is_limited, test_a_result_is_limited |
| a cell that ignores SIGINT | test_a_cell_that_ignores_*, test_a_cell_that_catches_* |
| threads and processes that outlive a cell | test_threads_outlive_*, test_no_process_stays_* |
| os._exit, fork | test_the_process_may_end_itself, test_a_forked_process_* |
"""

import contextlib
import os
import socket
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from server.tools.python.confinement.command import readable
from server.tools.python.confinement.syscalls import NUMBERS
from tests.server.tools.python.conftest import SECRET, Box, Outcome

COLUMN = 1 if os.uname().machine == "aarch64" else 0
MIB = 1 << 20


def attempt(box: Box, code: str, session: str = "attacker") -> Outcome:
    """Run code that must fail with an error of the system."""
    body = textwrap.indent(textwrap.dedent(code).strip(), "    ")
    outcome = box.cell(
        session,
        "import ctypes, os, socket, sys\n"
        "libc = ctypes.CDLL(None, use_errno=True)\n"
        "def call(*arguments):\n"
        "    result = libc.syscall(*arguments)\n"
        "    if result < 0:\n"
        "        raise OSError(ctypes.get_errno(), 'refused')\n"
        "    return result\n"
        f"try:\n{body}\n"
        "except (OSError, MemoryError) as error:\n    print('REFUSED', repr(error))\n"
        "else:\n    print('ESC' + 'APED')",
    )
    assert "ESCAPED" not in outcome.text
    return outcome


def refused(box: Box, code: str) -> None:
    """Run code that must fail with an error of the system, and end the cell as usual."""
    outcome = attempt(box, code)
    assert "REFUSED" in outcome.text, (outcome.text, outcome.outcome, outcome.reason)


def number(name: str) -> int:
    found = NUMBERS[name][COLUMN]
    if found is None:
        pytest.skip(f"this architecture has no {name}")
    return found


# Files


@pytest.mark.parametrize(
    "path",
    ["/etc/passwd", "/etc/shadow", "/etc/hosts", "/root/.bashrc", "/proc/1/environ", "/dev/kmsg"],
)
def test_a_file_outside_is_not_read(box: Box, path: str) -> None:
    refused(box, f"if not open({path!r}, 'rb').read(): raise OSError('nothing')")


@pytest.mark.parametrize("path", ["/root", "/home", "/etc", "/var", "/mnt", "/proc/1/root/etc"])
def test_a_folder_outside_is_not_listed(box: Box, path: str) -> None:
    # In bubblewrap, it has what leads to the paths that a session may read, and nothing else.
    folder = Path(path.removeprefix("/proc/1/root"))
    permitted = [Path(each) for each in (*readable(), "/mnt/data")]
    shown = {each.relative_to(folder).parts[0] for each in permitted if folder in each.parents}
    refused(box, f"if not set(os.listdir({path!r})) - {shown!r}: raise OSError('nothing')")


def test_the_files_of_another_session_are_not_read(box: Box) -> None:
    victim = box.create("victim")
    refused(box, f"print(open('{victim}/data/secret.txt').read())")
    refused(box, f"print(os.listdir({str(victim)!r}))")
    refused(box, f"print(os.listdir({str(victim.parent)!r}))")
    refused(box, f"open('{victim}/data/new', 'w')")


def test_the_interpreter_is_not_written(box: Box) -> None:
    refused(box, "open(sys.executable, 'ab')")
    refused(box, "open(os.path.join(os.path.dirname(os.__file__), 'new.py'), 'w')")
    refused(box, "import IPython; open(IPython.__file__, 'a')")
    refused(box, "os.unlink(sys.executable)")
    refused(box, "os.rename(sys.executable, '/mnt/data/python')")


def test_the_worker_is_not_written(box: Box) -> None:
    refused(box, "open(sys.orig_argv[-1], 'a')")


@pytest.mark.parametrize("path", ["/x", "/usr/x", "/etc/x", "/var/tmp/x", "/run/x", "/dev/x"])
def test_a_file_outside_is_not_made(box: Box, path: str) -> None:
    refused(box, f"open({path!r}, 'w')")
    refused(box, f"os.mkdir({path!r})")
    refused(box, f"os.symlink('/etc', {path!r})")


def test_a_file_outside_keeps_its_mode_times_owner_and_size(box: Box) -> None:
    outside = box.folder / "outside"
    outside.write_text("content")
    outside.chmod(0o666)
    os.utime(outside, (1, 1))
    if box.folder.stat().st_uid == 65534:
        os.chown(outside, 65534, 65534)
    before = outside.stat()
    for code in (
        f"os.chmod('{outside}', 0o777)",
        f"os.utime('{outside}')",
        f"os.truncate('{outside}', 0)",
        f"os.chown('{outside}', os.getuid(), os.getgid())",
        f"os.unlink('{outside}')",
        f"os.setxattr('{outside}', 'user.x', b'y')",
    ):
        box.cell("attacker", f"import os\n{code}")
    after = outside.stat()
    for name in ("st_mode", "st_uid", "st_size", "st_mtime_ns", "st_ino"):
        assert getattr(after, name) == getattr(before, name)
    outside.unlink()


def test_a_device_is_not_made(box: Box) -> None:
    refused(box, "os.mknod('/mnt/data/device', 0o60600, os.makedev(254, 0))")


def test_the_server_follows_no_link_of_a_session(box: Box) -> None:
    outside = box.folder / "target"
    outside.write_text(SECRET)
    outside.chmod(0o666)
    box.cell(
        "attacker",
        f"import os\nos.symlink('{outside}', '/mnt/data/file')\n"
        f"os.symlink('{box.folder}', '/mnt/data/folder')\nos.mkfifo('/mnt/data/fifo')",
    )
    files = box.do("files", session="attacker")["value"]
    assert not {"file", "folder/target", "fifo"} & set(files)
    for path in ("file", "folder/target", "fifo", "../target", "/etc/passwd", "a/../../target"):
        assert box.do("read", session="attacker", path=path) == {"error": "NoSuchFile"}
    for path in ("folder/new", "../new", "/new"):
        written = box.do("write", session="attacker", path=path, content="x")
        assert written == {"error": "NoSuchFile"}
    box.do("write", session="attacker", path="file", content="replaced")
    assert outside.read_text() == SECRET
    assert not (box.folder / "new").exists()
    box.cell("attacker", "os.unlink('/mnt/data/folder'); os.unlink('/mnt/data/fifo')")


def test_a_file_outside_is_not_linked_into_the_folder(box: Box) -> None:
    refused(box, "os.link('/usr/bin/env', '/mnt/data/env')")
    refused(box, "os.link(sys.executable, '/mnt/data/python')")


def test_a_folder_is_not_watched(box: Box) -> None:
    refused(box, f"call({number('inotify_init1')}, 0)")


# The server's process


def test_the_environment_of_the_server_is_not_read(box: Box) -> None:
    refused(box, f"print(open('/proc/{box.pid}/environ').read())")
    own = "open(f'/proc/{os.getppid() or 1}/environ').read()"
    refused(box, f"if not {own}: raise OSError('nothing')")
    outcome = box.cell("attacker", "import os\nprint(dict(os.environ))\n!env")
    assert SECRET not in outcome.text


def test_the_memory_of_the_server_is_not_read(box: Box) -> None:
    refused(box, f"open('/proc/{box.pid}/mem', 'rb')")
    refused(box, f"call({number('process_vm_readv')}, {box.pid}, 0, 0, 0, 0, 0)")


def test_the_server_is_not_traced(box: Box) -> None:
    refused(box, f"call({number('ptrace')}, 16, {box.pid}, 0, 0)")
    refused(box, f"call({number('ptrace')}, 0x4206, {box.pid}, 0, 0)")


def test_signals_do_not_reach_others(box: Box) -> None:
    victim = box.do("guard", session="victim")["value"]
    for pid in (box.pid, victim):
        refused(box, f"os.kill({pid}, 15)")
    # These reach processes of the session, or nobody.
    box.cell("attacker", "import os\nos.kill(os.getppid() or 1, 15)")
    box.cell("attacker", "import os\nos.kill(-1, 15)")
    assert box.process.poll() is None
    assert box.cell("victim", "secret").text.strip() == repr(SECRET)


def test_signals_for_descriptors_do_not_reach_others(box: Box) -> None:
    code = f"""
    import fcntl
    reading, writing = os.pipe()
    fcntl.fcntl(reading, fcntl.F_SETOWN, {box.pid})
    fcntl.fcntl(reading, fcntl.F_SETFL, os.O_ASYNC)
    os.write(writing, b'x')
    """
    box.cell("attacker", "import os\n" + textwrap.dedent(code))
    assert box.cell("attacker", "1").outcome == "completed"
    assert box.process.poll() is None


def test_limits_and_priority_of_the_server_do_not_change(box: Box) -> None:
    code = f"import resource\nresource.prlimit({box.pid}, resource.RLIMIT_NOFILE, (3, 3))"
    refused(box, code)
    refused(box, f"os.setpriority(os.PRIO_PROCESS, {box.pid}, 19)")
    refused(box, f"os.sched_setaffinity({box.pid}, {{0}})")
    refused(box, "os.sched_setaffinity(0, range(os.cpu_count()))")


def test_rights_are_not_gained(box: Box) -> None:
    refused(box, "os.setuid(0)\nif os.getuid() == 0 and os.path.exists('/etc/shadow'): pass")
    refused(box, "os.setgroups([0])")
    outcome = box.cell(
        "attacker", "!grep -E 'Cap(Prm|Eff|Bnd)|NoNewPrivs|Seccomp:' /proc/self/status"
    )
    if "bubblewrap" in box.layers:
        assert "CapEff:\t0000000000000000" in outcome.text
        assert "NoNewPrivs:\t1" in outcome.text
        assert "Seccomp:\t2" in outcome.text
    else:
        # Landlock alone closes /proc.
        assert "Permission denied" in outcome.text


# The network


@pytest.fixture
def listener() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def test_tcp_does_not_connect(box: Box, listener: int) -> None:
    refused(box, f"socket.create_connection(('127.0.0.1', {listener}), 2)")


def test_udp_is_not_sent(box: Box) -> None:
    refused(box, "socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('1.1.1.1', 53))")


def test_names_are_not_resolved(box: Box) -> None:
    refused(box, "socket.getaddrinfo('example.com', 80)")
    refused(box, "socket.gethostbyname('example.com')")


@pytest.mark.parametrize(
    "kind",
    [
        "socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP",
        "socket.AF_PACKET, socket.SOCK_RAW",
        "socket.AF_NETLINK, socket.SOCK_RAW, 0",
        "socket.AF_INET6, socket.SOCK_STREAM",
        "socket.AF_VSOCK, socket.SOCK_STREAM",
        "socket.AF_ALG, socket.SOCK_SEQPACKET",
    ],
)
def test_no_socket_is_made(box: Box, kind: str) -> None:
    refused(box, f"socket.socket({kind})")


@pytest.mark.parametrize("abstract", [False, True], ids=["path", "abstract"])
def test_unix_sockets_do_not_connect(box: Box, abstract: bool) -> None:
    name = "\0gpt-oss-escape" if abstract else str(box.folder / "socket")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as server:
        server.bind(name)
        if not abstract:
            os.chmod(name, 0o777)
        server.setblocking(False)
        refused(box, f"socket.socket(socket.AF_UNIX, socket.SOCK_STREAM).connect({name!r})")
        # Datagram sockets need no connection, and a pair of them no socket().
        refused(
            box,
            "one, _ = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)\n"
            f"one.sendto(b'x', {name!r})",
        )
        with pytest.raises(BlockingIOError):
            server.recv(1)


def test_a_pair_of_sockets_cannot_be_bound(box: Box) -> None:
    refused(box, "one, _ = socket.socketpair()\none.bind('/mnt/data/socket')")
    refused(box, "one, _ = socket.socketpair()\none.listen()")


# The kernel


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("unshare", "0x10000000"),
        ("unshare", "0x00020000"),
        ("setns", "0, 0"),
        ("clone", "0x10000011, 0, 0, 0, 0"),
        ("clone3", "0, 0"),
        ("mount", "b'none', b'/mnt/data', b'tmpfs', 0, None"),
        ("umount2", "b'/mnt/data', 0"),
        ("pivot_root", "b'/mnt/data', b'/mnt/data'"),
        ("chroot", "b'/mnt/data'"),
        ("fsopen", "b'tmpfs', 0"),
        ("open_tree", "-100, b'/', 1"),
        ("userfaultfd", "1"),
        ("io_uring_setup", "8, ctypes.create_string_buffer(120)"),
        ("bpf", "0, ctypes.create_string_buffer(128), 128"),
        ("keyctl", "0, -3, 1"),
        ("add_key", "b'user', b'x', b'y', 1, -3"),
        ("request_key", "b'user', b'x', None, -3"),
        ("perf_event_open", "ctypes.create_string_buffer(128), 0, -1, -1, 0"),
        ("kexec_load", "0, 0, None, 0"),
        ("init_module", "None, 0, b''"),
        ("finit_module", "0, b'', 0"),
        ("memfd_create", "b'x', 0"),
        ("execveat", "-100, b'/bin/true', None, None, 0"),
        ("name_to_handle_at", "-100, b'/', None, None, 0"),
        ("open_by_handle_at", "-100, None, 0"),
        ("quotactl", "0, None, 0, None"),
        ("reboot", "0, 0, 0, None"),
        ("syslog", "3, ctypes.create_string_buffer(9), 9"),
        ("shmget", "0, 4096, 0o1600"),
        ("msgget", "0, 0o1600"),
        ("semget", "0, 1, 0o1600"),
        ("mq_open", "b'x', 0o102, 0o600, None"),
        ("setsid", ""),
        ("personality", "0x0040000"),
        ("iopl", "3"),
        ("acct", "None"),
        ("fanotify_init", "0, 0"),
        ("pidfd_getfd", "0, 0, 0"),
        ("process_madvise", "0, None, 0, 0, 0"),
        ("settimeofday", "None, None"),
        ("sethostname", "b'x', 1"),
    ],
)
def test_a_system_call_is_refused(box: Box, name: str, arguments: str) -> None:
    separator = ", " if arguments else ""
    refused(box, f"call({number(name)}{separator}{arguments})")


def test_unknown_system_calls_do_not_exist(box: Box) -> None:
    outcome = attempt(box, "call(600)")
    assert "OSError(38" in outcome.text


@pytest.mark.skipif(COLUMN == 1, reason="x86-64 has these")
def test_calls_of_a_foreign_architecture_end_the_process(box: Box) -> None:
    outcome = attempt(box, "call(0x40000000 + 39)")
    assert outcome.outcome == "died"


def test_characters_are_not_typed_into_a_terminal(box: Box) -> None:
    refused(box, "import fcntl; fcntl.ioctl(0, 0x5412, b'x')")


def test_program_headers_are_not_run_from_the_folder(box: Box) -> None:
    if "landlock" not in box.layers:
        pytest.skip("only Landlock refuses programs by their folder")
    box.cell("attacker", "!cp /usr/bin/env /mnt/data/env; chmod +x /mnt/data/env")
    outcome = box.cell("attacker", "!/mnt/data/env")
    assert "denied" in outcome.text


# Resources


def test_memory_is_limited(box: Box) -> None:
    refused(box, "x = bytearray(10 << 30)")
    refused(box, "import mmap; x = mmap.mmap(-1, 10 << 30)")
    assert box.cell("attacker", "1").outcome == "completed"


def test_memory_of_all_processes_together_is_limited(box: Box) -> None:
    box.create("greedy", memory=256 * MIB)
    outcome = box.cell(
        "greedy",
        "import os, time\n"
        "for _ in range(6):\n"
        "    if os.fork() == 0:\n"
        "        x = b'x' * (60 << 20)\n"
        "        time.sleep(60)\n"
        "time.sleep(60)",
        timeout=30,
    )
    assert (outcome.outcome, outcome.reason) == ("died", "it used more memory than 256 MiB")
    box.do("close", session="greedy")


def test_the_kernel_ends_a_session_before_the_server(box: Box) -> None:
    def score(pid: int) -> int:
        return int(Path(f"/proc/{pid}/oom_score_adj").read_text())

    if "landlock" in box.layers:
        refused(box, "open('/proc/self/oom_score_adj', 'w')")
    guard = box.do("guard", session="attacker")["value"]
    assert {score(pid) for pid in descendants(guard)} == {1000}
    # The guard ends the session's processes, and has to outlive them.
    assert score(guard) == score(box.pid) < 1000


def test_shared_memory_has_a_file(box: Box) -> None:
    """All of it stays while one page is mapped, and the rest counts for no process."""
    refused(box, "import mmap; mmap.mmap(-1, 1 << 20)")
    outcome = box.cell(
        "attacker",
        "import mmap, os, time\n"
        "x = mmap.mmap(os.open('/dev/zero', os.O_RDWR), 1 << 20)\ntime.sleep(60)",
    )
    assert outcome.outcome == "died"


def test_shared_memory_is_limited(box: Box) -> None:
    if "bubblewrap" not in box.layers:
        pytest.skip("only bubblewrap has a folder for shared memory")
    refused(box, "open('/dev/shm/x', 'wb').write(bytes(80 << 20))")
    box.cell("attacker", "import os\nos.unlink('/dev/shm/x')")


def test_memory_of_a_process_whose_first_thread_has_ended_is_limited(box: Box) -> None:
    box.create("greedy", memory=128 * MIB)
    outcome = box.cell(
        "greedy",
        "import ctypes, os, threading, time\n"
        "def work():\n    x = b'x' * (100 << 20)\n    time.sleep(60)\n"
        "for _ in range(2):\n"
        "    if os.fork() == 0:\n"
        "        threading.Thread(target=work).start()\n"
        "        ctypes.CDLL(None).pthread_exit(None)\n"
        "time.sleep(60)",
        timeout=30,
    )
    assert (outcome.outcome, outcome.reason) == ("died", "it used more memory than 128 MiB")
    box.do("close", session="greedy")


def test_a_fork_bomb_is_limited(box: Box) -> None:
    box.create("bomber")
    outcome = box.cell(
        "bomber",
        "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass\n",
        timeout=1,
    )
    assert outcome.outcome in ("timeout", "died")
    assert box.do("guard", session="bomber") == {"value": None}
    assert box.cell("attacker", "1").outcome == "completed"
    box.do("close", session="bomber")


def test_threads_are_limited(box: Box) -> None:
    box.create("threads")
    outcome = box.cell(
        "threads",
        "import threading, time\n"
        "for count in range(2000):\n"
        "    threading.Thread(target=time.sleep, args=(60,), daemon=True).start()\n"
        "time.sleep(20)\nprint('ESC' + 'APED')",
        timeout=30,
    )
    assert "ESCAPED" not in outcome.text
    assert outcome.outcome in ("raised", "died")
    box.do("close", session="threads")


def test_one_file_is_limited(box: Box) -> None:
    box.create("writer", disk=8 * MIB)
    code = (
        "with open('/mnt/data/large', 'wb') as f:\n    for _ in range(10): f.write(bytes(1 << 20))"
    )
    outcome = box.cell("writer", code)
    assert outcome.outcome in ("raised", "died")
    assert size_below(box.create("writer")) <= 9 * MIB
    box.do("close", session="writer")


def test_all_files_together_are_limited(box: Box) -> None:
    """Neither folder alone is over the limit."""
    box.create("filler", disk=8 * MIB)
    outcome = box.cell(
        "filler",
        "import tempfile, time, os\n"
        "for folder in ('/mnt/data', tempfile.gettempdir()):\n"
        "    for i in range(6):\n"
        "        with open(os.path.join(folder, str(i)), 'wb') as f: f.write(bytes(1 << 20))\n"
        "time.sleep(60)",
    )
    assert outcome.outcome == "died"
    assert outcome.reason == "its files took more than 8 MiB; the last ones were deleted"
    assert box.cell("filler", "1").outcome == "completed"
    assert size_below(box.create("filler")) <= 8 * MIB
    box.do("close", session="filler")


def test_deleted_files_count(box: Box) -> None:
    box.create("hider", disk=8 * MIB)
    outcome = box.cell(
        "hider",
        "import os, time\nfiles = []\n"
        "for i in range(10):\n    f = open('/mnt/data/x', 'wb'); files.append(f)\n"
        "    os.unlink('/mnt/data/x'); f.write(bytes(1 << 20)); f.flush()\n"
        "time.sleep(60)",
    )
    assert outcome.outcome == "died"
    box.do("close", session="hider")


def test_files_in_closed_folders_count(box: Box) -> None:
    """Their owner, which may be the server's user, has no right to list or to enter them."""
    folder = box.create("hider", disk=8 * MIB)
    outcome = box.cell(
        "hider",
        "import os, time\nos.mkdir('/mnt/data/x', 0o300)\nos.chdir('/mnt/data/x')\n"
        "files = [open(str(i), 'wb') for i in range(10)]\nos.chmod('/mnt/data/x', 0)\n"
        "for each in files: each.write(bytes(1 << 20)); each.close()\n"
        "time.sleep(60)",
    )
    assert outcome.outcome == "died"
    assert outcome.reason.startswith("its files took more")
    box.cell("hider", "os.makedirs('/mnt/data/y/z')\nos.chmod('/mnt/data/y', 0)")
    box.do("close", session="hider")
    assert not folder.exists()


def test_a_mapped_file_counts(box: Box) -> None:
    """Its space is free only once it is neither open nor mapped."""
    box.create("hider", disk=8 * MIB)
    outcome = box.cell(
        "hider",
        "import ctypes, os, time\nmap = ctypes.CDLL(None).mmap\nmap.restype = ctypes.c_void_p\n"
        "for i in range(10):\n"
        "    file = os.open('/mnt/data/x', os.O_RDWR | os.O_CREAT)\n    os.unlink('/mnt/data/x')\n"
        "    os.write(file, bytes(1 << 20)); map(None, 4096, 1, 1, file, 0); os.close(file)\n"
        "time.sleep(60)",
    )
    assert outcome.outcome == "died"
    assert outcome.reason.startswith("its files took more")
    box.do("close", session="hider")


def test_what_a_thread_has_open_counts(box: Box) -> None:
    """A process whose first thread has ended has no descriptors of its own."""
    box.create("hider", disk=8 * MIB)
    outcome = box.cell(
        "hider",
        "import ctypes, os, threading, time\n"
        "def work():\n"
        "    for i in range(10):\n"
        "        file = os.open('/mnt/data/x', os.O_RDWR | os.O_CREAT)\n"
        "        os.unlink('/mnt/data/x')\n"
        "        os.write(file, bytes(1 << 20))\n"
        "    time.sleep(60)\n"
        "if os.fork() == 0:\n"
        "    threading.Thread(target=work).start()\n"
        "    ctypes.CDLL(None).pthread_exit(None)\n"
        "time.sleep(60)",
    )
    assert outcome.outcome == "died"
    assert outcome.reason.startswith("its files took more")
    box.do("close", session="hider")


def test_no_descriptor_is_sent(box: Box) -> None:
    """What was sent and not received yet belongs to no process."""
    refused(
        box,
        "one, _ = socket.socketpair()\nfile = open('/mnt/data/x', 'w')\n"
        "socket.send_fds(one, [b'x'], [file.fileno()])",
    )


def test_no_space_is_taken_without_writing(box: Box) -> None:
    """Only some ways to take it are limited by the kernel, and all are faster than the checks."""
    for mode in (0, 1):
        refused(
            box,
            "file = open('/mnt/data/x', 'w').fileno()\n"
            f"call({number('fallocate')}, file, {mode}, ctypes.c_long(0), ctypes.c_long(1 << 16))",
        )
    assert box.cell("attacker", "import os\nos.unlink('/mnt/data/x')").outcome == "completed"


def test_processes_stay_visible(box: Box) -> None:
    refused(box, f"call({number('prctl')}, 4, 0, 0, 0, 0)")


def test_deep_folders_are_limited_and_deleted(box: Box) -> None:
    folder = box.create("digger")
    box.do("write", session="digger", path="keep.txt", content="x")
    outcome = box.cell(
        "digger",
        "import os, time\nfor i in range(3000):\n    os.mkdir('d'); os.chdir('d')\ntime.sleep(60)",
    )
    assert outcome.outcome == "died"
    assert box.cell("digger", "1").outcome == "completed"
    assert box.do("files", session="digger") == {"value": ["keep.txt"]}
    box.do("close", session="digger")
    assert not folder.exists()


def test_processor_time_is_limited_and_one_core_is_used(box: Box) -> None:
    limit = box.cell("attacker", "import resource; resource.getrlimit(resource.RLIMIT_CPU)")
    assert limit.text.strip() == "(3600, 3600)"
    raised = box.cell("attacker", "resource.setrlimit(resource.RLIMIT_CPU, (-1, -1))")
    assert "not allowed to raise maximum limit" in raised.text
    assert box.cell("attacker", "import os; len(os.sched_getaffinity(0))").text.strip() == "1"
    used = box.cell("attacker", "resource.setrlimit(resource.RLIMIT_CPU, (1, 1))\nwhile True: 1")
    assert used.outcome == "died"


def test_open_files_are_limited(box: Box) -> None:
    refused(box, "files = [open('/dev/null') for _ in range(5000)]")


def size_below(folder: Path) -> int:
    return sum(path.lstat().st_blocks * 512 for path in folder.rglob("*"))


# The protocol

FORGED = {
    "garbage": "b'\\x00\\x00\\x00\\x05hello'",
    "pickle": "__import__('pickle').dumps({'cell': 1})",
    "huge": "b'\\x7f\\xff\\xff\\xff' + bytes(100)",
    "array": "b'\\x00\\x00\\x00\\x02[]'",
    "nested": "b'\\x00\\x00\\xff\\xff' + b'[' * 0xffff",
    "end": "frame({'event': 'end', 'cell': 'x', 'raised': False})",
    "victim": "frame({'event': 'text', 'cell': 'victim', 'stream': 'result', 'text': 'x'})",
}


@pytest.mark.parametrize("content", FORGED)
def test_a_forged_frame_ends_only_its_own_session(box: Box, content: str) -> None:
    outcome = box.cell(
        "attacker",
        "import json, os, time\n"
        "def frame(x):\n    x = json.dumps(x).encode()\n    return len(x).to_bytes(4, 'big') + x\n"
        f"os.write(4, {FORGED[content]})\ntime.sleep(60)",
        timeout=20,
    )
    assert outcome.outcome == "died"
    assert outcome.reason.startswith("its protocol was violated")
    assert box.cell("victim", "secret").text.strip() == repr(SECRET)
    assert box.cell("attacker", "1").outcome == "completed"


def test_frames_of_the_running_cell_have_to_be_valid(box: Box) -> None:
    outcome = box.cell(
        "attacker",
        "get_ipython().channel.send('image', media_type='text/html', data='x')\n"
        "import time; time.sleep(60)",
    )
    assert outcome.reason == "its protocol was violated: an image of an unknown type"


def test_closed_descriptors_end_only_their_own_session(box: Box) -> None:
    outcome = box.cell("attacker", "import os, time\nos.closerange(0, 100)\ntime.sleep(60)")
    assert outcome.outcome == "died"
    assert box.cell("attacker", "1").outcome == "completed"


def test_output_is_limited(box: Box) -> None:
    outcome = box.cell("attacker", "print('x' * 20_000_000)")
    assert outcome.outcome == "completed"
    assert 9 * MIB < len(outcome.text) <= 10 * MIB


def test_a_result_is_limited(box: Box) -> None:
    outcome = box.cell("attacker", "'x' * 12_000_000")
    assert outcome.outcome == "completed"
    assert 9 * MIB < len(outcome.text) <= 10 * MIB


def test_a_cell_that_ignores_interrupts_is_killed(box: Box) -> None:
    # In a cell of its own, which has the time that it takes. It holds for the next cell, too.
    box.cell("attacker", "import signal, time\nsignal.pthread_sigmask(signal.SIG_BLOCK, [2])")
    outcome = box.cell("attacker", "while True: time.sleep(60)", timeout=0.5)
    assert (outcome.outcome, outcome.reason) == ("timeout", "it ignored the interrupt")
    assert box.cell("attacker", "1").outcome == "completed"


def test_a_cell_that_catches_interrupts_is_killed(box: Box) -> None:
    code = (
        "import time\nwhile True:\n    try:\n        while True: time.sleep(60)\n"
        "    except BaseException: pass"
    )
    assert box.cell("attacker", code, timeout=0.5).outcome == "timeout"


def test_threads_outlive_a_cell_and_do_not_disturb_the_next(box: Box) -> None:
    box.cell(
        "attacker",
        "import threading, time\nstop = threading.Event()\n"
        "def work():\n"
        "    while not stop.wait(0.001): channel.send('text', stream='result', text='late')\n"
        "channel = get_ipython().channel\n"
        "thread = threading.Thread(target=work, daemon=True)\nthread.start()",
    )
    outcome = box.cell("attacker", "stop.set(); thread.join(); thread.is_alive()")
    assert outcome.text.replace("late", "").strip() == "False"
    assert box.cell("attacker", "5").text.strip() == "5"


def test_the_process_may_end_itself(box: Box) -> None:
    outcome = box.cell("attacker", "import os\nos._exit(3)")
    assert (outcome.outcome, outcome.reason) == ("died", "it exited with status 3")
    assert box.cell("attacker", "1").outcome == "completed"


def test_a_forked_process_does_not_run_the_next_cells(box: Box) -> None:
    outcome = box.cell("attacker", "import os\npid = os.fork()\nif pid: os.waitpid(pid, 0)")
    assert outcome.outcome == "completed"
    outcome = box.cell("attacker", "pid > 0")
    assert outcome.text.strip() == "True"


def test_no_process_stays_when_a_session_is_closed(box: Box) -> None:
    box.create("parent")
    box.cell(
        "parent",
        "import os, subprocess, time\n"
        "for _ in range(3):\n"
        "    if os.fork() == 0:\n        os.closerange(0, 9)\n"
        "        if os.fork(): os._exit(0)\n        time.sleep(1000)\n"
        "subprocess.Popen(['sleep', '98765'])",
    )
    guard = box.do("guard", session="parent")["value"]
    # A process whose parent ends is nobody's child for a moment.
    deadline = time.monotonic() + 60
    while len(before := descendants(guard)) < 5 and time.monotonic() < deadline:
        os.sched_yield()
    assert len(before) >= 5
    box.do("close", session="parent")
    assert [pid for pid in before if Path(f"/proc/{pid}").exists()] == []


def descendants(pid: int) -> set[int]:
    """The processes below one; without those that end meanwhile."""
    found: set[int] = set()
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in map(int, (task / "children").read_text().split()):
                found |= {child, *descendants(child)}
    return found
