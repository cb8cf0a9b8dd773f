"""Varied pages for training: paragraphs, lists, tables, code and links around stated facts.

Held-out cases have none of this: they keep the plain pages of `facts`.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from demo.lexicon import lexicon
from demo.skills.browser.display import Page, markdown_page
from demo.skills.browser.facts import (
    DAYS,
    HOSTS,
    Form,
    forms,
    read_forms,
    telling_names,
    telling_nouns,
)
from demo.skills.browser.site import Site, is_telling, telling
from demo.skills.case import Draw
from demo.skills.phrases import capital
from demo.skills.tasks import VERBS
from demo.skills.words import Split, words

_HOSTS = (*HOSTS, "dev", "co.uk", "info")
_SIZES = (2, 3, 4, 5, 6, 8, 10, 16, 26, 34)
"""How many facts a page may have."""

_PATHS = ("", "", ".md", ".html", "/index.html")
_MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September",
    "October", "November", "December",
)  # fmt: skip
_MORE_VERBS = """
build check clean count fetch group hide inspect load mark paint pack parse pause probe reset
resume rotate scan sign sort split test trace trim validate watch wrap
"""
_UNITS = ("seconds", "minutes", "hours", "days", "weeks", "months", "years", "megabytes", "tokens")
_SCHEMES = ("https", "redis", "sqlite", "mysql", "file", "amqp", "http")
_ENDINGS = ("yaml", "toml", "json", "txt", "conf", "log", "ini", "md")
_TITLES = ("{0}", "{0}", "{0} {1}", "About {0}", "{0} and {1}", "{0}: {1}", "The {1} of {0}")
_FILLERS = (
    "This page is about {0}.",
    "Most people never have to think about this.",
    "What follows is for those who want to know more.",
    "Here is how it works in practice.",
    "There is more than one way to do it.",
    "Everything else stays as it was.",
    "See [{0}]({1}) for the rest.",
    "More about it: [{0}]({1}).",
    "The page on [{0}]({1}) has examples.",
    "Nothing of this is needed at the beginning.",
    "A word on {0} comes first.",
    "People often ask about that.",
    "In other cases, read [{0}]({1}).",
    "Some details are left out here.",
    "The list below is not complete.",
    "Both have their uses.",
    "It has been so for years.",
    "That is all there is to say about {0}.",
    "Please write to us if something is unclear.",
    "An example says more than many words.",
    "Older texts may say something else.",
    "This was written with care, but it may be out of date.",
)
_HEADS = ("name | value | meaning", "option | default | what it does", "what | how much | notes")
_CODE = ("{0} --{1} {2}", "$ {0} {1}", "{0} = {1}({2})", "{0}: {1}", "export {0}={1}", "# {0} {1}")
_AROUND = (
    "Hi, {}", "Look it up: {}", "{} Thanks!", "Search: {}",
    "One question: {}", "{} Please cite where it stands.", "From the pages: {}", "Quickly: {}",
    "I have to know this for tomorrow. {}", "{} I looked everywhere.", "Could you tell me? {}",
    "My colleague asks: {}", "Next question. {}",
)  # fmt: skip
_ABOUT = ("In {e}, {q}", "{e}: {q}", "{q} (in {e})", "About {e}: {q}")


@dataclass(frozen=True, slots=True)
class Stated:
    """A fact: its sentence, a question, the value that the question asks for, its page.

    question: as it is typed, with other words around it. core: the question alone. form: what kind
    of fact it is.
    """

    form: Form
    sentence: str
    question: str
    core: str
    value: str
    url: str
    title: str


@dataclass(frozen=True, slots=True)
class Place:
    """A website and the facts that its pages state."""

    site: Site
    stated: tuple[Stated, ...]


@cache
def all_forms() -> tuple[Form, ...]:
    """The training forms of `facts.txt`, and those of `statements.txt`."""
    return (*forms(Split.TRAIN), *read_forms("statements.txt", "-", "?"))


def draw_place(draw: Draw) -> Place:
    """A website of two to five pages, small and large ones."""
    root = f"{draw.pick(('https', 'https', 'file-search'))}://{noun(draw)}.{draw.pick(_HOSTS)}"
    pool = [noun(draw) for _ in range(draw.rng.randint(5, 9))]
    count = draw.rng.randint(2, 5)
    subjects = list(dict.fromkeys(subject(draw) for _ in range(count)))
    urls = [f"{root}/{noun(draw)}{draw.pick(_PATHS)}" for _ in subjects]
    taken: set[str] = set()
    pages: list[Page] = []
    stated: list[Stated] = []
    for about, url in zip(subjects, urls, strict=True):
        title = draw.pick(_TITLES).format(about, draw.pick(pool))
        title = capital(title)
        facts = [draw_stated(draw, about, pool, url, title) for _ in range(draw.pick(_SIZES))]
        facts = [one for one in facts if _is_new(one.core, taken)]
        stated += facts
        page = _markdown(draw, title, facts, pool, urls)
        pages.append(markdown_page(url, page))
    return Place(Site(pages), tuple(stated))


def _is_new(question: str, taken: set[str]) -> bool:
    is_new = question.lower() not in taken
    taken.add(question.lower())
    return is_new


def subject(draw: Draw) -> str:
    """What a page is about: names, a thing, a project or an acronym."""
    roll = draw.rng.random()
    if roll < 0.55:
        count = draw.pick((1, 1, 2, 2, 3))
        return " ".join(_name(draw) for _ in range(count))
    if roll < 0.8:
        return f"{noun(draw)} {noun(draw)}"
    if roll < 0.9:
        return f"{noun(draw)}-{noun(draw)}"
    return noun(draw)[:5].upper()


def draw_stated(
    draw: Draw,
    about: str,
    pool: Sequence[str],
    url: str = "",
    title: str = "",
    form: Form | None = None,
) -> Stated:
    """A fact in one of its wordings, and a question for it."""
    form = form or draw.pick(all_forms())
    slots = _slots(draw, about, pool)
    sentence = draw.pick(form.sentences).format(**slots)
    question = draw.pick(form.questions).format(**slots)
    if about.lower() not in question.lower() and draw.chance(0.25):
        question = draw.pick(_ABOUT).format(e=about, q=question)
    if not sentence.startswith(("|", "`")):
        sentence = capital(sentence)
    if draw.chance(0.2):
        question = question[0].lower() + question[1:].rstrip("?.")
    if draw.chance(0.03):
        question = question.lower()
    asked = draw.pick(_AROUND).format(question) if draw.chance(0.3) else question
    return Stated(form, sentence, asked, question, slots[form.value], url, title)


def _slots(draw: Draw, about: str, pool: Sequence[str]) -> dict[str, str]:
    rng = draw.rng
    first, second = rng.sample(pool, 2)
    if draw.chance(0.3):
        first = noun(draw)
    if draw.chance(0.15):
        first = f"{noun(draw)} {first}"
    return {
        "e": about,
        "a": first,
        "b": second,
        "k": draw.pick(_verbs()),
        "c": _name(draw),
        "d": draw.pick(DAYS),
        "n": str(rng.choice((rng.randint(2, 20), rng.randint(2, 999), rng.randint(1000, 99999)))),
        "o": _option(draw),
        "p": " ".join(_name(draw) for _ in range(draw.pick((1, 1, 2)))),
        "t": f"{rng.randint(0, 23):02}:{rng.choice((0, 15, 30, 45)):02}",
        "v": _value(draw),
        "u": f"{draw.pick(_SCHEMES)}://{noun(draw)}/{noun(draw)}",
        "f": f"{noun(draw)}/{noun(draw)}.{draw.pick(_ENDINGS)}",
        "x": f"{noun(draw).upper()}_{noun(draw).upper()}",
        "m": f"{rng.randint(1, 28)} {draw.pick(_MONTHS)} {rng.randint(1990, 2030)}",
        "q": f"{rng.randint(2, 600)} {draw.pick(_UNITS)}",
        "r": f"{rng.randint(0, 20)}.{rng.randint(0, 30)}",
        "s": _name(draw),
    }


def _option(draw: Draw) -> str:
    form = draw.pick(("--{0}-{1}", "--{0}-{1}", "--{0}", "{0} {1}", "{0}.{1}", "{0}_{1}()",
                      "{0} --{1}", "{0}: {1}", "make {0}", "--{0} {1}", "-{2} {0}"))  # fmt: skip
    return form.format(noun(draw), noun(draw), draw.pick("abcdefghkmnpqrstvwxyz"))


def _value(draw: Draw) -> str:
    roll = draw.rng.random()
    if roll < 0.5:
        return draw.pick(words(Split.TRAIN))
    if roll < 0.65:
        return f"{noun(draw)} {noun(draw)}"
    if roll < 0.8:
        return _name(draw)
    if roll < 0.9:
        return str(draw.rng.randint(2, 999))
    return f"{noun(draw)}_{noun(draw)}"


def _markdown(
    draw: Draw, title: str, facts: Sequence[Stated], pool: Sequence[str], urls: Sequence[str]
) -> str:
    lines = [f"# {title}", ""]
    rows = [one.sentence for one in facts if one.sentence.startswith("|")]
    said = [one.sentence for one in facts if not one.sentence.startswith("|")]
    while said:
        if len(lines) > 2 and draw.chance(0.3):
            lines += [f"{draw.pick(('##', '##', '###'))} {_heading(draw, pool)}", ""]
        count = draw.rng.randint(1, 5)
        lines += [*_block(draw, said[:count], pool, urls), ""]
        said = said[count:]
        if rows and draw.chance(0.4):
            lines += [*_table(draw, rows), ""]
            rows = []
    return "\n".join([*lines, *(_table(draw, rows) if rows else ())])


def _heading(draw: Draw, pool: Sequence[str]) -> str:
    text = draw.pick(("{0}", "{0} and {1}", "The {0}", "Using the {0}", "{0}s", "{1}: {0}"))
    text = text.format(*draw.rng.sample(pool, 2))
    return capital(text)


def _block(draw: Draw, said: Sequence[str], pool: Sequence[str], urls: Sequence[str]) -> list[str]:
    """A list, or a paragraph, with other sentences in between; sometimes code after it."""
    lines: list[str] = []
    if draw.chance(0.3):
        lines += [f"{draw.pick('-*')} {sentence}" for sentence in said]
    else:
        mixed: list[str] = []
        for sentence in said:
            mixed += [_filler(draw, pool, urls)] if draw.chance(0.3) else []
            mixed.append(sentence)
        lines.append(" ".join(mixed))
    if draw.chance(0.12):
        code = draw.pick(_CODE).format(*(noun(draw) for _ in range(3)))
        lines += ["", "```sh", code, "```"]
    return lines


def _filler(draw: Draw, pool: Sequence[str], urls: Sequence[str]) -> str:
    return draw.pick(_FILLERS).format(draw.pick(pool), draw.pick(urls).rsplit("/", 1)[-1])


def _table(draw: Draw, rows: Sequence[str]) -> list[str]:
    return [f"| {draw.pick(_HEADS)} |", "|---|---|---|", *rows]


def noun(draw: Draw) -> str:
    """A noun, mostly one that has a meaning."""
    return draw.pick(_known_nouns() if draw.chance(0.7) else telling_nouns(Split.TRAIN))


@cache
def _known_nouns() -> tuple[str, ...]:
    known = lexicon()[0]
    return tuple(word for word in telling_nouns(Split.TRAIN) if word in known)


def _name(draw: Draw) -> str:
    return draw.pick(telling_names(Split.TRAIN))


@cache
def _verbs() -> tuple[str, ...]:
    return tuple(sorted({verb for verb in {*VERBS, *_MORE_VERBS.split()} if is_telling(verb)}))


def asks_of(question: str, title: str) -> tuple[list[str], list[str]]:
    """The telling words of a question: all of them, and those that are not of a page's title."""
    asked = telling(question)
    known = {word.lower() for word in re.findall(r"\w+", title)}
    return asked, [word for word in asked if word.lower() not in known]
