"""The playground's scripts and styles, without a browser."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from server.web import mathml
from server.web.markup import render
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


@pytest.mark.parametrize(
    ("constant", "words"),
    [("MATH_NAMES", mathml.ELEMENTS), ("ATTRIBUTES", mathml.ATTRIBUTES)],
)
def test_the_page_allows_all_that_formulas_have(constant: str, words: frozenset[str]) -> None:
    script = (STATIC / "dom.js").read_text(encoding="utf-8")
    found = re.search(rf'const {constant} =\s+"([^"]*)"', script)
    assert found is not None
    assert words <= set(found[1].split())


SPLIT = """
const { Splitter } = await import("./static/splitter.js");
const splitter = new Splitter();
const blocks = splitter.push(JSON.parse(process.argv[2])).map(({ text }) => text);
console.log(JSON.stringify([...blocks, splitter.rest]));
"""


def split(text: str, folder: Path) -> list[str]:
    """The blocks of Markdown that the page finds in `text`."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("there is no Node.js")
    shutil.copytree(STATIC, folder / "static")
    (folder / "package.json").write_text('{"type": "module"}')
    (folder / "split.js").write_text(SPLIT)
    command = [node, "split.js", json.dumps(text)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    blocks: list[str] = json.loads(done.stdout)
    return blocks


@pytest.mark.parametrize("formula", ["\\[\na\n\n+ b\n\\]", "$$\na\n\n+ b\n$$", "$$a$$"])
@pytest.mark.parametrize("after", ["", ".", ", and", " is *one*."])
def test_the_page_splits_formulas_as_the_server_does(
    formula: str, after: str, tmp_path: Path
) -> None:
    text = f"Hence\n\n{formula}{after}\n\n## B\n\n```python\n1\n```\n\nDone.\n"
    blocks = split(text, tmp_path)
    assert len(blocks) == 5
    assert "".join(map(render, blocks)) == render(text)


@pytest.mark.parametrize("blank", ["", "\n"], ids=["tight", "loose"])
def test_the_page_splits_a_long_list_between_its_items(blank: str, tmp_path: Path) -> None:
    items = [f"{n}. an item\n\n   - of *words* and words\n{blank}" for n in range(1, 1000)]
    blocks = split("".join(items), tmp_path)
    assert len(blocks) > 3
    assert max(map(len, blocks)) < 8200
    starts = [re.match(r"\d+", block) for block in blocks]
    shown = "".join(map(render, blocks))
    for start in starts[1:]:
        assert start is not None
        shown = shown.replace(f'</ol>\n<ol start="{start[0]}">\n', "")
    assert shown == render("".join(items))


def test_the_page_splits_text_from_code_beside_it(tmp_path: Path) -> None:
    parts = [
        "So:\n",
        "```python\na\n\nb\n```\n",
        "Or ```not``` code:\n",
        "~~~\n```\n~~~\n",
        "Done.",
    ]
    blocks = split("".join(parts), tmp_path)
    assert blocks == parts
    assert "".join(map(render, blocks)) == render("".join(parts))


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


def test_texts_are_in_two_places() -> None:
    """A sentence in a script would be missed by who changes or translates the page."""
    found = {
        f"{path.name}: {text}"
        for path in STATIC.glob("*.js")
        if path.name not in ("labels.js", "text.js")
        for text in re.findall(r'"([A-Z][a-z]+(?: [a-z]+){2,}[^"]*)"', path.read_text("utf-8"))
    }
    assert found == set()
