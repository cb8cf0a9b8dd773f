"""The playground's scripts and styles, without a browser."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.node import installed

ROOT = Path(__file__).parents[3]
STATIC = ROOT / "server/web/static"
MOST_LINES = 320


def test_the_types_of_the_scripts_are_right(tmp_path: Path) -> None:
    folder = installed(ROOT / "tests/browser/js")
    shutil.copytree(STATIC, tmp_path / "static")
    shutil.copy(folder / "tsconfig.json", tmp_path)
    command = ["node", str(folder / "node_modules/typescript/lib/tsc.js"), "--project", "."]
    checked = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (checked.returncode, checked.stdout) == (0, "")


@pytest.mark.parametrize("path", sorted(STATIC.glob("*.js")), ids=lambda path: path.name)
def test_scripts_are_small_and_checked(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert text.startswith("// @ts-check\n/**")
    assert text.count("\n") <= MOST_LINES


STYLE = (STATIC / "style.css").read_text(encoding="utf-8")
INSPECTOR = (STATIC / "inspector.css").read_text(encoding="utf-8")
COLOURS = {
    name: (light, dark)
    for name, light, dark in re.findall(
        r"--([\w-]+): light-dark\((#\w+), (#\w+)\)", STYLE + INSPECTOR
    )
}
ROLES = ("system", "developer", "user", "analysis", "commentary", "final", "tool")
PAIRS = [
    *(
        (text, ground)
        for text in ("text", "soft", "accent", "bad")
        for ground in ("ground", "surface")
    ),
    *((text, "raised") for text in ("text", "soft")),
    ("text", "accent-soft"),
    ("accent", "accent-soft"),
    ("on-accent", "accent"),
    ("bad", "bad-soft"),
    *(("text", role) for role in ROLES),
]
HIGHLIGHTED = re.findall(r"\.hl-\w+ \{ color: light-dark\((#\w+), (#\w+)\)", STYLE)


def luminance(colour: str) -> float:
    """The relative luminance of `#rrggbb`. Source: WCAG 2.2."""
    full = "".join(each * 2 for each in colour[1:]) if len(colour) == 4 else colour[1:]
    shares = [int(full[place : place + 2], 16) / 255 for place in (0, 2, 4)]
    linear = [x / 12.92 if x <= 0.04045 else ((x + 0.055) / 1.055) ** 2.4 for x in shares]
    return sum(weight * x for weight, x in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def contrast(one: str, other: str) -> float:
    lower, higher = sorted((luminance(one), luminance(other)))
    return (higher + 0.05) / (lower + 0.05)


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
@pytest.mark.parametrize(("text", "ground"), PAIRS)
def test_texts_have_the_contrast_of_wcag_aa(text: str, ground: str, theme: int) -> None:
    assert contrast(COLOURS[text][theme], COLOURS[ground][theme]) >= 4.5


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_highlighted_code_has_the_contrast_of_wcag_aa(theme: int) -> None:
    assert len(HIGHLIGHTED) >= 6
    ground = COLOURS["raised"][theme]
    assert [each for each in HIGHLIGHTED if contrast(each[theme], ground) < 4.5] == []


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_grounds_of_tokens_differ_from_each_other(theme: int) -> None:
    assert len({COLOURS[role][theme] for role in ROLES}) == len(ROLES)


def test_texts_are_in_one_place() -> None:
    """A sentence in a script would be missed by who changes or translates the page."""
    found = {
        f"{path.name}: {text}"
        for path in STATIC.glob("*.js")
        if path.name != "text.js"
        for text in re.findall(r'"([A-Z][a-z]+(?: [a-z]+){2,}[^"]*)"', path.read_text("utf-8"))
    }
    assert found == set()
