"""The comparison of a container's folder with what is known of it."""

from dataclasses import replace

import pytest

from server.store.containers.base import ContainerFile
from server.tools.python import written_files
from server.tools.python.sandbox import SandboxFile
from server.tools.python.written_files import Changes, changes

KNOWN = ContainerFile("cfile_1", "c", "z", 3, "user", 10, 77, "file-1")
SAME = SandboxFile("z", 3, 77)


def listed(*names: str) -> list[SandboxFile]:
    return [SandboxFile(name, 5, 99) for name in names]


def test_nothing_changes_where_all_is_known() -> None:
    assert changes("c", [KNOWN], [SAME], 20) == Changes((), ())


def test_new_files_are_those_of_the_assistant() -> None:
    (new,) = changes("c", [KNOWN], [SAME, *listed("a")], 20).written
    assert new == ContainerFile(new.id, "c", "a", 5, "assistant", 20, 99)
    assert new.id.startswith("cfile_")


@pytest.mark.parametrize("file", [SandboxFile("z", 4, 77), SandboxFile("z", 3, 78)])
def test_a_changed_file_keeps_its_id(file: SandboxFile) -> None:
    expected = replace(KNOWN, size=file.size, modified=file.modified, source="assistant")
    assert changes("c", [KNOWN], [file], 20) == Changes((expected,), ())


def test_a_file_that_is_gone_is_removed() -> None:
    assert changes("c", [KNOWN], [], 20) == Changes((), ("cfile_1",))


def test_hidden_files_are_not_shown() -> None:
    assert changes("c", [], listed(".cache/x"), 20) == Changes((), ())


def test_no_more_than_so_many_files_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(written_files, "MOST_FILES", 2)
    kept = changes("c", [KNOWN], [SAME, *listed("a", "b")], 20)
    assert [file.path for file in kept.written] == ["a"]
    replaced = changes("c", [KNOWN], listed("a", "b", "c"), 20)
    assert [file.path for file in replaced.written] == ["a", "b"]


def test_a_list_that_was_cut_removes_no_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(written_files, "MOST_LISTED", 2)
    found = changes("c", [KNOWN], listed("a", "b"), 20)
    assert [file.path for file in found.written] == ["a", "b"]
    assert found.removed == ()
