import logging
import re

import pytest

from server.commands.log_lines import log_to_stderr


def test_a_line_has_its_time_with_the_offset(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    root = logging.getLogger()
    monkeypatch.setattr(root, "handlers", [])
    monkeypatch.setattr(root, "level", root.level)
    for name in ("httpx", "httpx2"):
        monkeypatch.setattr(logging.getLogger(name), "level", logging.NOTSET)
    log_to_stderr(logging.INFO)
    logging.getLogger("a.b").warning("text")
    assert re.fullmatch(
        r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}[+-]\d\d:\d\d WARNING a\.b: text\n",
        capsys.readouterr().err,
    )
