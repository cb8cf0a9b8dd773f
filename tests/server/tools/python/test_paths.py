"""Names of uploaded files, and which files of code are shown."""

import pytest

from server.tools.python.paths import file_name, free_path, is_listed


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ("x.csv", "x.csv"),
        ("é ü.csv", "é ü.csv"),
        ("../../etc/passwd", "passwd"),
        ("C:\\x\\y.csv", "y.csv"),
        ("a\x00b\n.csv", "ab.csv"),
        (".bashrc", "bashrc"),
        ("..", "file"),
        ("", "file"),
        ("a/", "file"),
        ("\udcff.csv", "?.csv"),
        ("x" * 300 + ".csv", "x" * 196 + ".csv"),
        ("é" * 300, "é" * 100),
        ("x." + "y" * 300, "x." + "y" * 198),
    ],
)
def test_a_name_is_made_safe(given: str, name: str) -> None:
    assert file_name(given) == name


def test_a_taken_name_gets_a_number() -> None:
    assert free_path("x.csv", {"x.csv", "x-1.csv"}) == "x-2.csv"
    assert free_path("x", {"x"}) == "x-1"


@pytest.mark.parametrize(
    ("path", "listed"),
    [
        ("a/b.txt", True),
        ("é ü.txt", True),
        (".hidden", False),
        (".cache/x", False),
        ("a/.cache/x", False),
        ("__pycache__/x.pyc", False),
        ("a/__pycache__", False),
        ("a.b/c.", True),
        ("__pycache__x", True),
        ("a\nb", False),
        ("\udcff", False),
        ("x" * 1024, True),
        ("x" * 1025, False),
    ],
)
def test_odd_files_are_not_shown(path: str, listed: bool) -> None:
    assert is_listed(path) == listed
