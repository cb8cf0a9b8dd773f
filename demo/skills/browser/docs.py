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
        "How can {0} be the {1}?",
        "What about {0} and {1}?",
        "What about {0}?",
        "Where is {0} set?",
        "What is the {0} for?",
        "How can I configure {0}?",
        "How can I change the {0} of {1}?",
        "Does {0} need {1}?",
        "When does {0} {1}?",
        "How many {0} are there for {1}?",
        "What does {0} have to do with {1} and {2}?",
        "How can I {0} the {1} of {2}?",
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


def draw_question(draw: Draw, pages: Site) -> tuple[str, int]:
    """A question about words that stand in one sentence of a page, and how many these are."""
    while True:
        picked = _words(draw.pick(_sentences(draw.pick(pages.pages).body)))
        template = draw.pick(_QUESTIONS[draw.split])
        count = template.count("{")
        if len(picked) >= count:
            places = sorted(draw.rng.sample(range(len(picked)), count))
            return template.format(*(picked[place] for place in places)), count


def _sentences(body: str) -> Sequence[str]:
    return re.split(r"(?<=[.:])\s|\n", body)


def _words(sentence: str) -> list[str]:
    words = dict.fromkeys(re.findall(r"(?<![\w`-])[A-Za-z]\w{3,}(?![\w`-])", sentence))
    return [word for word in words if is_telling(word)]
