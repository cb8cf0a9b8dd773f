"""Nothing is accepted without a word on what it does."""

import re
from pathlib import Path

import pytest

from server.schemas.chat import CreateChatCompletion

README = Path(__file__).parents[3] / "README.md"


@pytest.mark.parametrize("field", CreateChatCompletion.model_fields)
def test_the_readme_tells_what_each_field_does(field: str) -> None:
    _, _, section = README.read_text(encoding="utf-8").partition("## Chat Completions")
    table = [line for line in section.partition("\n## ")[0].splitlines() if line.startswith("|")]
    named = [line.split(" | ")[0] for line in table]
    assert any(re.search(rf"`{field}[`.]", cell) for cell in named)
