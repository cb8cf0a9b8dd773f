import os

import pytest

from server.tools.file_names import is_utf8


@pytest.mark.parametrize(
    ("name", "expected"), [(b"a.md", True), ("é".encode(), True), (b"", True), (b"caf\xe9", False)]
)
def test_a_name_is_utf8_if_its_bytes_are(name: bytes, expected: bool) -> None:
    assert is_utf8(os.fsdecode(name)) is expected
