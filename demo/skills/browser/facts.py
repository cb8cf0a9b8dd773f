"""Made-up websites: pages of sentences that each state something, and questions about them."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from demo.skills.browser.display import Page, markdown_page
from demo.skills.browser.site import is_telling
from demo.skills.case import Draw
from demo.skills.tasks import VERBS
from demo.skills.words import Split, names, nouns, words


@dataclass(frozen=True, slots=True)
class Form:
    """A kind of fact: its sentences, the questions to train on and those to evaluate with.

    The last sentence is for evaluation only. value: the slot that no question names.
    """

    sentences: tuple[str, ...]
    trained: tuple[str, ...]
    held_out: tuple[str, ...]
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


FORMS = (
    Form(
        (
            "The {a} of {e} is {v}.",
            "{e} has the {a} {v}.",
            "For {e} the {a} is {v}.",
            "As {a}, {e} takes {v}.",
        ),
        (
            "What is the {a} of {e}?",
            "What's the {a} of {e}?",
            "Tell me the {a} of {e}.",
            "{e}: what is the {a}?",
            "What {a} does {e} have?",
            "I need the {a} of {e}",
        ),
        ("Which {a} has {e}?", "Look up the {a} of {e}."),
        "v",
    ),
    Form(
        (
            "{e} opens at {t} on {d}.",
            "On {d} {e} opens at {t}.",
            "{e} opens its {a} at {t}.",
            "The doors of {e} open at {t}.",
        ),
        ("When does {e} open?", "At what time does {e} open?", "When is {e} open?"),
        ("Tell me when {e} opens.", "How early does {e} open?"),
        "t",
    ),
    Form(
        (
            "A {a} costs {n} euros at {e}.",
            "{e} asks {n} dollars for a {a}.",
            "{e} sells a {a} at {n}.",
        ),
        (
            "How much is a {a} at {e}?",
            "What do I pay for a {a} at {e}?",
            "Price of a {a} at {e}?",
            "What does {e} want for a {a}?",
        ),
        ("Find out how much a {a} is at {e}.", "{e}: how much for a {a}?"),
        "n",
    ),
    Form(
        ("{p} leads the {a} of {e}.", "The {a} of {e} is run by {p}.", "{p} owns the {a} of {e}."),
        ("Who leads the {a} of {e}?", "Who is behind the {a} of {e}?", "Who runs the {a} of {e}?"),
        ("Who is in charge of the {a} of {e}?",),
        "p",
    ),
    Form(
        ("{e} is a {a} near {c}.", "The {a} {e} lies in {c}.", "{c} is home to the {a} {e}."),
        ("Where is the {a} {e}?", "In which city is the {a} {e}?", "Where do I find the {a} {e}?"),
        ("Where does the {a} {e} lie?",),
        "c",
    ),
    Form(
        (
            "Use `{o}` to {k} the {a} of {e}.",
            "Run `{o}` to {k} the {a} of {e}.",
            "To {k} the {a} of {e}, set `{o}`.",
            "`{o}` is there to {k} the {a} of {e}.",
            "It takes `{o}` to {k} the {a} of {e}.",
        ),
        (
            "How do I {k} the {a} of {e}?",
            "How can I {k} the {a} of {e}?",
            "What do I need to {k} the {a} of {e}?",
            "I want to {k} the {a} of {e}",
        ),
        ("Is there a way to {k} the {a} of {e}?",),
        "o",
    ),
    Form(
        (
            "Set `{o}` to have {e} as the {a}.",
            "With `{o}` {e} is the {a}.",
            "{e} becomes the {a} with `{o}`.",
            "`{o}` makes {e} the {a}.",
        ),
        (
            "How do I use {e} as the {a}?",
            "How can {e} be the {a}?",
            "Can I have {e} as the {a}?",
            "How do I set {e} as the {a}?",
        ),
        ("How would I use {e} for the {a}?",),
        "o",
    ),
    Form(
        (
            "The limit of {e} is {n} {a}s.",
            "{e} keeps {n} {a}s at most.",
            "Up to {n} {a}s fit in {e}.",
            "There is room for {n} {a}s in {e}.",
        ),
        ("How many {a}s does {e} hold?", "How many {a}s fit in {e}?"),
        ("How many {a}s can {e} take?",),
        "n",
    ),
)
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_VERBS = tuple(verb for verb in VERBS if is_telling(verb))
_HOSTS = ("com", "org", "net", "io")


def draw_articles(draw: Draw, count: int, sizes: Sequence[int]) -> list[Article]:
    """`count` pages on different subjects of one website, with facts as many as one of `sizes`."""
    host = f"{_noun(draw)}.{draw.pick(_HOSTS)}"
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
    first = draw.pick(_names(draw.split))
    return first if draw.chance(0.5) else f"{first} {draw.pick(_names(draw.split))}"


def draw_fact(draw: Draw, subject: str, shared: Sequence[str]) -> Fact:
    """Something about a subject."""
    rng = draw.rng
    form = draw.pick(FORMS)
    slots = {
        "e": subject,
        "a": draw.pick(shared) if draw.chance(0.6) else _noun(draw),
        "k": draw.pick(_VERBS),
        "c": draw.pick(_names(draw.split)),
        "d": draw.pick(_DAYS),
        "n": str(rng.choice((rng.randint(2, 20), rng.randint(2, 999)))),
        "o": draw.pick(("--{}-{}", "--{}-{}", "{} {}")).format(_noun(draw), _noun(draw)),
        "p": draw.pick(_names(draw.split)),
        "t": f"{rng.randint(5, 20):02}:{rng.choice((0, 15, 30, 45)):02}",
        "v": draw.pick((draw.pick(words(draw.split)), str(rng.randint(2, 999)))),
    }
    trains = draw.split is Split.TRAIN
    question = draw.pick(form.trained if trains else form.held_out).format(**slots)
    sentence = draw.pick(form.sentences[:-1] if trains else form.sentences[-1:]).format(**slots)
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
    return draw.pick(_nouns(draw.split))


@cache
def _nouns(split: Split) -> tuple[str, ...]:
    return tuple(word for word in nouns(split) if is_telling(word) and word[-1] != "s")


@cache
def _names(split: Split) -> tuple[str, ...]:
    return tuple(word for word in names(split) if is_telling(word))
