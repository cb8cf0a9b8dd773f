"""This project's own documentation as a website, where the package lies in a checkout."""

import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from demo.skills.browser.display import Page, markdown_page
from demo.skills.browser.pages import noun
from demo.skills.browser.site import Site, is_telling, sections
from demo.skills.case import Draw
from demo.skills.phrases import capital
from demo.skills.words import Split, split_of

FOLDER = Path(__file__).resolve().parents[3] / "docs"
_HOST = "file-search://gpt-oss-server"
_FEWEST_PAGES = 3
_RESULTS = "demo.md"
"""The page that has the results of the evaluation, which would change with them."""
_MOST_CHARACTERS = 5000
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
_ASKED = (
    "How do I {0} the {1}?",
    "How do I {0} a {1}?",
    "How can I use {0} with {1}?",
    "How do I make the {0} {1}?",
    "How do I change {0}?",
    "How do I find {0} in the {1}?",
    "How do I configure {0} for {1}?",
    "How do I start with {0}?",
    "How do I stop {0}?",
    "How do {0} and {1} work together?",
    "How does the {0} handle {1}?",
    "How many {0} can a {1} have?",
    "How is the {0} of the {1} chosen?",
    "How large may the {0} be?",
    "What is {0}?",
    "What is the {0} of a {1}?",
    "What is meant by {0}?",
    "What happens with {0} if {1} is missing?",
    "What do I need for {0}?",
    "What can the {0} do about {1}?",
    "What does {0} mean for {1} and {2}?",
    "What are {0} for?",
    "Which {0} does the {1} have?",
    "Which {0} can I use?",
    "Which {0} is for {1}?",
    "Which setting is there for {0}?",
    "Where can I see the {0}?",
    "Where does the {0} keep {1}?",
    "Where do I find {0}?",
    "When is the {0} {1}?",
    "When do I need {0}?",
    "Why does {0} need a {1}?",
    "Why is there a {0}?",
    "Who can see the {0}?",
    "Can I use {0} without {1}?",
    "Can the {0} be {1}?",
    "Can several {0} share one {1}?",
    "Is {0} possible with {1}?",
    "Is there a limit of {0}?",
    "Does the server have {0}?",
    "Does {0} work for {1} and {2}?",
    "Do {0} cost {1}?",
    "I need {0} for my {1}",
    "I want to {0} {1}, what now?",
    "my {0} does not {1}",
    "{0} {1}",
    "{0} {1} {2}",
    "{0}",
    "{0} or {1}?",
    "{0}: how?",
    "Please tell me about the {0} of {1}.",
)
"""Questions that are asked in training alone."""
_FUNCTION_TEXT = """
also another anything because been before being below besides both cannot during each either
else even ever every everything except first four further gets given goes happens hence here
however instead into itself just keeps last later least less like likewise made makes many more
most mostly must need needs never next none nothing once only other others otherwise over own
rather says several shall since some something still such takes than them then these they those
though three thus together twice under unless until upon used uses using very whether while
whole within without would wrong
"""
_FUNCTION_WORDS = frozenset(_FUNCTION_TEXT.split())
"""Words that questions are not about, besides those that a search leaves out."""


@cache
def site(split: Split, folder: Path = FOLDER) -> Site | None:
    """The pages of a split; None where there are too few."""
    named = [path for path in sorted(folder.glob("*.md")) if path.name != _RESULTS]
    paths = [path for path in named if split_of(path.name) is split]
    if len(paths) < _FEWEST_PAGES:
        return None
    return Site([markdown_page(f"{_HOST}/{p.name}", p.read_text("utf-8")) for p in paths])


def draw_question(draw: Draw, pages: Site) -> tuple[str, int]:
    """A question about words that stand in one sentence of a page, and how many these are."""
    while True:
        picked = _subjects(draw.pick(_sentences(draw.pick(pages.pages).body)))
        template = draw.pick(_QUESTIONS[draw.split])
        count = template.count("{")
        if len(picked) >= count:
            places = sorted(draw.rng.sample(range(len(picked)), count))
            return template.format(*(picked[place] for place in places)), count


def renamed(draw: Draw, pages: Site) -> Site:
    """A website built as the documentation is, about other things: most of its words are others.

    A word becomes the same other word wherever it stands. So lines, tables and sentences are those
    of real pages, but no answer can be known beforehand.
    """
    others: dict[str, str] = {}

    def other(match: re.Match[str]) -> str:
        word = match[0]
        stem = word.lower().removesuffix("s")
        if not is_telling(word) or stem in _FUNCTION_WORDS or stem.endswith(("ed", "ing", "ly")):
            return word
        if stem not in others:
            others[stem] = noun(draw) if draw.chance(0.8) else stem
        new = others[stem] + ("s" if word.lower().endswith("s") else "")
        return new.upper() if word.isupper() else new.capitalize() if word[0].isupper() else new

    host = f"https://{noun(draw)}.{draw.pick(('com', 'org', 'dev'))}"
    made: list[Page] = []
    for page in draw.rng.sample(pages.pages, draw.rng.randint(2, 4)):
        parts = [text for _, text in sections(page.body)]
        first = draw.rng.randrange(len(parts))
        text = "\n\n".join([f"# {page.title}", *parts[first : first + draw.rng.randint(1, 5)]])
        text = re.sub(r"[A-Za-z]{4,}", other, text[:_MOST_CHARACTERS])
        made.append(markdown_page(f"{host}/{noun(draw)}.md", text))
    return Site(made)


def ask(draw: Draw, pages: Site) -> str:
    """A question about what a sentence of a page is about: often about neighbouring words."""
    while True:
        sentence = draw.pick(_sentences(draw.pick(pages.pages).body))
        picked = _subjects(sentence)
        template = draw.pick(_ASKED)
        count = template.count("{")
        if len(picked) > count:
            first = draw.rng.randrange(len(picked) - count)
            chosen = picked[first : first + count]
            if draw.chance(0.5):
                chosen = draw.rng.sample(picked, count)
            if draw.chance(0.3):
                chosen[0] = _with_neighbour(picked, chosen[0])
            text = template.format(*(_inflected(draw, word) for word in chosen))
            return text if draw.chance(0.2) else capital(text)


def _with_neighbour(picked: Sequence[str], word: str) -> str:
    at = picked.index(word)
    return f"{word} {picked[at + 1]}" if at + 1 < len(picked) else word


def _inflected(draw: Draw, word: str) -> str:
    """A word, sometimes in the plural or without it, as a search finds it, too."""
    if word.islower() and draw.chance(0.2):
        return word[:-1] if word.endswith("s") and not word.endswith("ss") else f"{word}s"
    return word


def _sentences(body: str) -> Sequence[str]:
    return re.split(r"(?<=[.:])\s|\n", body)


def _subjects(sentence: str) -> list[str]:
    """The words of a sentence that a question may be about."""
    words = dict.fromkeys(re.findall(r"(?<![\w`-])[A-Za-z]\w{3,}(?![\w`-])", sentence))
    return [word for word in words if is_telling(word) and word.lower() not in _FUNCTION_WORDS]
