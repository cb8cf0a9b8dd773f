"""What the control groups of a container say of its memory."""

from pathlib import Path

import pytest

from adapters.container_memory import ContainerMemory, container_memory

VERSIONS = [
    ("", "memory.max", "memory.current", "inactive_file"),
    ("memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
]


@pytest.mark.parametrize(("folder", "limit", "usage", "cache"), VERSIONS)
def test_files_in_a_containers_cache_take_no_memory(
    folder: str, limit: str, usage: str, cache: str, tmp_path: Path
) -> None:
    group = tmp_path / "sys/fs/cgroup" / folder
    group.mkdir(parents=True)
    (group / limit).write_text("16000\n")
    (group / usage).write_text("15000\n")
    (group / "memory.stat").write_text(f"anon 900\n{cache} 14000\nactive_file 100\n")
    assert container_memory(tmp_path) == ContainerMemory(16_000, 1_000)


def test_the_limit_that_leaves_the_least_counts(tmp_path: Path) -> None:
    for left, (folder, limit, usage, _) in enumerate(VERSIONS, 1):
        group = tmp_path / "sys/fs/cgroup" / folder
        group.mkdir(parents=True, exist_ok=True)
        (group / limit).write_text(f"{left}000")
        (group / usage).write_text("500")
    assert container_memory(tmp_path) == ContainerMemory(1_000, 500)


def test_a_machine_without_limits_has_none(tmp_path: Path) -> None:
    assert container_memory(tmp_path) is None
    group = tmp_path / "sys/fs/cgroup"
    group.mkdir(parents=True)
    (group / "memory.max").write_text("max\n")
    (group / "memory.current").write_text("15000\n")
    assert container_memory(tmp_path) is None
