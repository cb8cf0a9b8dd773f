"""This project's own documentation as a website, where the package lies in a checkout."""

import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from demo.skills.browser.display import markdown_page
from demo.skills.browser.site import Site, is_telling
from demo.skills.case import Draw
from demo.skills.words import Split, split_of

FOLDER = Path(__file__).resolve().parents[3] / "docs"
_HOST = "file-search://gpt-oss-server"
_FEWEST_PAGES = 3
_QUESTIONS = {
    Split.TRAIN: (
        "How do I use {0} as the {1}?",
        "What about {0} and {1}?",
        "How does {0} work with {1}?",
        "What is {0} {1}?",
        "Tell me about {0} and {1}.",
        "Can I have {0} with {1}?",
        "What happens to {0} when there is {1}?",
        "Is {0} {1} there?",
        "what do I do for {0} {1}",
    ),
    Split.HELD_OUT: (
        "Where do I read about {0} and {1}?",
        "How do I get {0} for the {1}?",
        "What do you know about {0} {1}?",
    ),
}


@cache
def site(split: Split, folder: Path = FOLDER) -> Site | None:
    """The pages of a split; None where there are too few."""
    paths = [path for path in sorted(folder.glob("*.md")) if split_of(path.name) is split]
    if len(paths) < _FEWEST_PAGES:
        return None
    return Site([markdown_page(f"{_HOST}/{p.name}", p.read_text("utf-8")) for p in paths])


def draw_question(draw: Draw, pages: Site) -> str:
    """A question about two words that stand in one sentence of a page."""
    while True:
        picked = _words(draw.pick(_sentences(draw.pick(pages.pages).body)))
        if len(picked) >= 2:
            first, second = sorted(draw.rng.sample(range(len(picked)), 2))
            template = draw.pick(_QUESTIONS[draw.split])
            return template.format(picked[first], picked[second])


def _sentences(body: str) -> Sequence[str]:
    return re.split(r"(?<=[.:])\s|\n", body)


def _words(sentence: str) -> list[str]:
    words = dict.fromkeys(re.findall(r"(?<![\w`-])[A-Za-z]\w{3,}(?![\w`-])", sentence))
    return [word for word in words if is_telling(word)]
