"""Made-up websites: pages of sentences that each state something, and questions about them."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from demo.skills.browser.display import Page, markdown_page
from demo.skills.browser.site import is_telling
from demo.skills.case import Draw
from demo.skills.catalogue.files import blocks, read
from demo.skills.tasks import VERBS
from demo.skills.words import Split, names, nouns, words


@dataclass(frozen=True, slots=True)
class Form:
    """A kind of fact: its sentences and its questions. value: the slot that no question names."""

    sentences: tuple[str, ...]
    questions: tuple[str, ...]
    value: str


@dataclass(frozen=True, slots=True)
class Fact:
    """A sentence, a question that it answers, what the question is about, and the value."""

    sentence: str
    question: str
    topic: str
    value: str


@dataclass(frozen=True, slots=True)
class Article:
    """A page and the facts on it."""

    page: Page
    facts: tuple[Fact, ...]


@cache
def forms(split: Split) -> tuple[Form, ...]:
    """The kinds of facts of a split, read from `demo/data/facts.txt`.

    A block each: the slot of the value, then sentences behind `-` and questions behind `?`; those
    behind `--` and `??` are for evaluation. `#` begins a comment.
    """
    return read_forms("facts.txt", *(("-", "?") if split is Split.TRAIN else ("--", "??")))


def read_forms(name: str, said: str, asked: str) -> tuple[Form, ...]:
    """The forms of a file: sentences stand behind the sign `said`, questions behind `asked`."""
    found = []
    for value, *lines in blocks(read(name)):
        marked = [line.partition(" ") for line in lines]
        sentences = tuple(text for sign, _, text in marked if sign == said)
        questions = tuple(text for sign, _, text in marked if sign == asked)
        if sentences and questions:
            found.append(Form(sentences, questions, value))
    return tuple(found)


DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_VERBS = tuple(verb for verb in VERBS if is_telling(verb))
HOSTS = ("com", "org", "net", "io")


def draw_articles(draw: Draw, count: int, sizes: Sequence[int]) -> list[Article]:
    """`count` pages on different subjects of one website, with facts as many as one of `sizes`."""
    host = f"{_noun(draw)}.{draw.pick(HOSTS)}"
    scheme = draw.pick(("https", "file-search"))
    shared = [_noun(draw) for _ in range(6)]
    subjects: dict[str, None] = {}
    while len(subjects) < count:
        subjects[draw_subject(draw)] = None
    return [
        _article(draw, f"{scheme}://{host}", subject, shared, draw.pick(sizes))
        for subject in subjects
    ]


def draw_subject(draw: Draw) -> str:
    """What a page is about: one or two words."""
    first = draw.pick(telling_names(draw.split))
    return first if draw.chance(0.5) else f"{first} {draw.pick(telling_names(draw.split))}"


def draw_fact(draw: Draw, subject: str, shared: Sequence[str]) -> Fact:
    """Something about a subject."""
    rng = draw.rng
    form = draw.pick(forms(draw.split))
    slots = {
        "e": subject,
        "a": draw.pick(shared) if draw.chance(0.6) else _noun(draw),
        "k": draw.pick(_VERBS),
        "c": draw.pick(telling_names(draw.split)),
        "d": draw.pick(DAYS),
        "n": str(rng.choice((rng.randint(2, 20), rng.randint(2, 999)))),
        "o": draw.pick(("--{}-{}", "--{}-{}", "{} {}")).format(_noun(draw), _noun(draw)),
        "p": draw.pick(telling_names(draw.split)),
        "t": f"{rng.randint(5, 20):02}:{rng.choice((0, 15, 30, 45)):02}",
        "v": draw.pick((draw.pick(words(draw.split)), str(rng.randint(2, 999)))),
    }
    question = draw.pick(form.questions).format(**slots)
    sentence = draw.pick(form.sentences).format(**slots)
    if draw.chance(0.2):
        question = question[0].lower() + question[1:].rstrip("?.")
    return Fact(sentence, question, subject, slots[form.value])


def _article(draw: Draw, site: str, subject: str, shared: Sequence[str], size: int) -> Article:
    title = f"{subject} {_noun(draw)}" if draw.chance(0.4) else subject
    facts: list[Fact] = []
    lines = [f"# {title}", ""]
    while len(facts) < size:
        if facts and draw.chance(0.3):
            lines += [f"## {_noun(draw).capitalize()}", ""]
        group = [draw_fact(draw, subject, shared) for _ in range(draw.rng.randint(1, 3))]
        facts += group
        if draw.chance(0.3):
            lines += [f"- {fact.sentence}" for fact in group] + [""]
        else:
            lines += [" ".join(fact.sentence for fact in group), ""]
    path = f"{_noun(draw)}{draw.pick(('', '.md', '.html'))}"
    return Article(markdown_page(f"{site}/{path}", "\n".join(lines)), tuple(facts))


def _noun(draw: Draw) -> str:
    return draw.pick(telling_nouns(draw.split))


@cache
def telling_nouns(split: Split) -> tuple[str, ...]:
    """The nouns of a split in the singular that a search makes sense for."""
    return tuple(word for word in nouns(split) if is_telling(word) and word[-1] != "s")


@cache
def telling_names(split: Split) -> tuple[str, ...]:
    """The names of a split that a search makes sense for."""
    return tuple(word for word in names(split) if is_telling(word))
