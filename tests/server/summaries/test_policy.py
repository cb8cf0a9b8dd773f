import re
from pathlib import Path

import pytest

from server.summaries.policy import DEFAULT_TEXT, MOST_BYTES, Policy, load_policy, parse_policy

ROOT = Path(__file__).parents[3]


def test_without_a_file_the_policy_is_the_default() -> None:
    assert load_policy(None) == Policy(DEFAULT_TEXT, ())


def test_the_default_is_in_the_documentation() -> None:
    text = (ROOT / "docs/reasoning.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"The default policy:\n\n```\n(.*?)```", text, re.DOTALL)
    assert block == DEFAULT_TEXT


def test_the_items_of_never_show_are_not_part_of_the_text(tmp_path: Path) -> None:
    path = tmp_path / "policy.md"
    path.write_text(
        "# Policy\nBe kind.\n\n## Never show\n- Project X\n* ＡＢＣ \ntext\n\n# More\n- a\n"
    )
    assert load_policy(path) == Policy("# Policy\nBe kind.\n\n# More\n- a", ("project x", "abc"))


def test_the_heading_may_have_other_case_and_closing_marks() -> None:
    assert parse_policy("a\n### NEVER SHOW ##\n- b\n-\n- \n") == Policy("a", ("b",))


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"\xff", "is not UTF-8"),
        (b"a" * (MOST_BYTES + 1), "more than"),
        (b"# Never show\n- a", "has no text for the model"),
        (None, "cannot be read"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused(
    tmp_path: Path, content: bytes | None, problem: str
) -> None:
    path = tmp_path / "policy.md"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ValueError, match=problem):
        load_policy(path)
