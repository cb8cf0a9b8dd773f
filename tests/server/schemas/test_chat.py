"""Every field of the schema is documented."""

import re

import pytest

from server.schemas.chat import CreateChatCompletion
from tests.documentation import ROOT, section, table


@pytest.mark.parametrize("field", CreateChatCompletion.model_fields)
def test_the_documentation_has_each_field(field: str) -> None:
    rows = table(section(ROOT / "docs/chat.md", "Request fields"))
    assert any(re.search(rf"`{field}[`.]", row[0]) for row in rows)
