"""Writes the generated parts of these pages: `python docs/generate.py [--check]`.

A generated part stands between `<!-- generated -->` and `<!-- end -->` in a page: the options from
the server's settings, the modules from their docstrings, the metrics from their definitions. With
--check nothing is written; the exit status is 1 where a page is out of step.
"""

import ast
import re
import sys
from collections.abc import Callable
from pathlib import Path

DOCS = Path(__file__).parent
ROOT = DOCS.parent
sys.path.insert(0, str(ROOT))

from server.commands.option_help import GROUPS, Option, option  # noqa: E402
from server.telemetry.definitions import DEFINITIONS  # noqa: E402

BEGIN, END = "<!-- generated -->\n", "<!-- end -->\n"
PACKAGES = ("server", "harmony", "adapters", "demo")


def options() -> str:
    """A table for each group of options."""
    return "\n".join(f"## {title}\n\n{_option_table(names)}" for title, names in GROUPS.items())


def _option_table(names: tuple[str, ...]) -> str:
    rows = "".join(map(_option_row, map(option, names)))
    return f"| option | default | what it does |\n|---|---|---|\n{rows}"


def _option_row(each: Option) -> str:
    choices = f" Choices: {', '.join(f'`{choice}`' for choice in each.choices)}."
    text = each.description[0].upper() + each.description[1:]
    described = text + ("" if text.endswith(".") else ".") + (choices if each.choices else "")
    size = f" ({each.size})" if each.size else ""
    default = "" if each.default is None else f"`{each.default}`{size}"
    name = f"`{each.flag}`<br>`{each.variable}`" + ("<br>repeatable" if each.repeatable else "")
    described = re.sub(r"[|*]", r"\\\g<0>", described.replace(" (repeatable)", ""))
    described = re.sub(r"(?<![`\w-])--[a-z][a-z-]+", r"`\g<0>`", described)
    described = re.sub(r"docs/(\w+\.md)", r"[\g<0>](\1)", described)
    return f"| {name} | {default} | {described} |\n"


def modules() -> str:
    """A section for each folder: what it is for, and a line for each module."""
    folders = sorted(
        {path.parent for package in PACKAGES for path in (ROOT / package).rglob("*.py")},
        key=lambda folder: (PACKAGES.index(folder.relative_to(ROOT).parts[0]), folder),
    )
    return "\n".join(_folder(folder) for folder in folders if not _is_generated(folder))


def _is_generated(folder: Path) -> bool:
    return "migrations" in folder.parts


def _folder(folder: Path) -> str:
    name = folder.relative_to(ROOT).as_posix()
    about = summary(folder / "__init__.py")
    rows = "".join(
        f"| `{_dotted(path)}` | {summary(path)} |\n"
        for path in sorted(folder.glob("*.py"))
        if path.stem != "__init__"
    )
    table = f"\n| module | what it does |\n|---|---|\n{rows}" if rows else ""
    return f"## {name}\n\n{about}\n{table}"


def _dotted(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts)


def summary(path: Path) -> str:
    """The first paragraph of a module's docstring, as one line."""
    docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return " ".join(docstring.split("\n\n")[0].split()).replace("|", r"\|")


def metrics() -> str:
    """A table of all metrics."""
    rows = "".join(
        f"| `{each.name}` | {each.kind} | {', '.join(f'`{name}`' for name in each.labels)} |"
        f" {each.text} |\n"
        for each in DEFINITIONS
    )
    return f"| metric | type | labels | what it is |\n|---|---|---|---|\n{rows}"


PAGES: dict[str, Callable[[], str]] = {
    "options.md": options,
    "modules.md": modules,
    "metrics.md": metrics,
}


def generated(page: Path) -> str:
    """The page's text with its generated part made anew."""
    before, _, rest = page.read_text(encoding="utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{PAGES[page.name]()}\n{END}{after}"


def main() -> int:
    """The exit status."""
    status = 0
    for page in (DOCS / name for name in PAGES):
        text = generated(page)
        if text == page.read_text(encoding="utf-8"):
            continue
        if "--check" in sys.argv[1:]:
            print(f"docs/{page.name} is out of step: run `make docs`", file=sys.stderr)
            status = 1
        else:
            page.write_text(text, encoding="utf-8")
    return status


if __name__ == "__main__":
    sys.exit(main())
