"""Values of several words that have to be copied as they stand, for training.

Phrases with articles, titles, whole passages with marks and lines, and texts in other scripts.
Their words are drawn from the whole vocabulary, so that only copying helps. Many begin with a word
that is two tokens after a quote: it has to be spelt.
"""

import re
from collections.abc import Callable, Mapping
from functools import cache

from demo.skills.case import Draw
from demo.skills.catalogue.domains import values
from demo.skills.catalogue.files import lines
from demo.skills.phrases import capital, worded
from demo.skills.words import Split, names, nouns, script_words, spelt, words

_SPELT = 0.7
_ANY = 0.35
_PHRASES = (
    "{w}",
    "{w}",
    "{w} {w}",
    "{w} {w}",
    "{w} {w} {w}",
    "a {w}",
    "the {w}",
    "a {w} {w}",
    "a {w} {w}",
    "an {w}",
    "the {w} {w}",
    "the {w} {w}",
    "my {w}",
    "my {w} {w}",
    "our {w}",
    "some {w}",
    "no {w}",
    "a lack of {w}",
    "too much {w}",
    "{w} and {w}",
    "{w} or {w}",
    "{w}, {w} and {w}",
    "the {w} of the {w}",
    "a {w} for the {w}",
    "a {w} with {w}",
    "{w} in the {w}",
    "{w} of {w}",
    "{w} for {w}",
    "{w} without {w}",
    "{w} {n}",
    "{w} {n} {w}",
    "{w}-{w}",
    "{w} ({w})",
    "{w} to {w} the {w}",
    "how to {w} a {w}",
    "{w} the {w}",
    "{w} the {w} and the {w}",
    "another {w} {w}",
    "{N}'s {w}",
    "the {w} from {N}",
    "{w} {N}",
    "new {w} for {N}",
    "{w} about {N}",
)
_TITLES = (
    "{W}",
    "{W} {W}",
    "{W} {W}",
    "{W} {W} {W}",
    "The {W}",
    "The {W}",
    "The {W} {W}",
    "The {W} {W}",
    "The {W} {W} {W}",
    "A {W}",
    "A {W} {W}",
    "{W}'s {W}",
    "{W}'s {W}",
    "{W} & {W}",
    "{W} and {W}",
    "The {W} and the {W}",
    "{W} of {W}",
    "{W} of the {W}",
    "The {W} of {W}",
    "A {W} for {W}",
    "{W} in the {W}",
    "{W} for {W}",
    "{W}: {W} {W}",
    "{W} - {W}",
    "{W} {n}",
    "{W} No. {n}",
    "{n} {W}",
    "{W}, {W} and {W}",
    "My {W}",
    "Our {W} {W}",
    "{W} at the {W}",
    "{W} with {W}",
    "St. {W}",
    "{W} {w}",
    "{W} {w} {w}",
    "The {w} {w}",
    "{W}!",
    "{W} to {W}",
    "Dr. {W}",
    "Who {w} the {W}?",
)
_SENTENCES = (
    "The {w} [is|was|will be|looks|became] {w}[| again| for {w}], [and|but|so|while] {w} {w} {w}",
    "[I|We|They|You] {w} the {w} [in|at|of|with|from] {w}",
    "[Please|Kindly|Never|Always] {w} {w} {w} before {n} {w}",
    "{W} {w} {w} {w}, {w} {w} and {w} {w}",
    "{N} and {N} {w} {w} {w} on {w}",
    "There are {n} {w} in {N}[|: {w}, {w} and {w}]",
    "It's {w}, isn't it",
    "[Dear|Hi|Hello] {N}, {w} {w} {w} {w}",
    "{W} {w} ({w} {w}) {w} {w}",
    "[My|Our|This|That] {w} {w} {w} - {w} {w}",
    "If {w} {w}, then {w} {w} {w}",
    "{N} said: {w} {w} {w}",
    "Don't {w} {w}; {w} {w} it",
    "{w} {w} {w} {w} {w} {w}",
    "We're {w} at {n}:{n}",
    "{n} % of {w} {w} {w}",
    "{W} {w} {w} {w} {w} {w} {w} {w}, {w} {w} {w} {w} {w} {w}",
    "What [is|was] the {w} of {w}",
)
_NATURAL = ("sentence", "message", "note", "question", "task", "reason", "problem", "subject_line")
_ENDS = (".", ".", ".", ".", "!", "?", "...", ":", "", "", "!!", " :)")
_MARKED = (
    "**{p}** {s}",
    "*{p}* {s}",
    "{s} **{p}**",
    "_{p}_: {s}",
    "`{c}` {s}",
    "{s} `{c}`",
    "# {t}\n\n{s}",
    "# {t}\n{s} *{p}* {w}.",
    "## {t}\n\n- {p}\n- {p}\n- {p}",
    "{s}\n\n{s}",
    "{s}\n{s}\n{s}",
    "- {p}\n- {p}",
    "* {p}\n* **{p}**\n* {p}",
    "1. {p}\n2. {p}\n3. {p}",
    "> {s}\n\n{s}",
    "[{p}](https://{w}.com/{w})",
    "{s} [{p}](https://{w}.org)",
    "<b>{p}</b> {s}",
    "<h1>{t}</h1><p>{s}</p>",
    "<p>{s} <i>{p}</i></p>",
    "~~{p}~~ {s}",
    "{p}\n{p}\n{p}",
    "| {w} | {w} |\n|---|---|\n| {n} | {w} |",
    "{w},{w},{w}\n{n},{w},{n}\n{n},{w},{n}",
    "{w}: {p}\n{w}: {n}\n{w}: {p}",
    "### {t}\n\n{s} **{p}** {s}\n\n- [ ] {p}\n- [x] {p}",
    "#{w} #{w} {s}",
    "@{w} {s}",
    "Dear {N},\n\n{s}\n\n{t}",
    "{c}",
    "{c}\n{c}",
    "{s}\n\n{c}",
    '"{p}" {s}',
    '{s} "{p}".',
    "\N{PARTY POPPER} {s}",
    "{s} \N{THUMBS UP SIGN}",
)
_CODE = (
    "{w}({w})",
    "{w}.{w}({n})",
    "{w} = {n}",
    "{w}_{w} = {w} + {n}",
    "def {w}({w}):\n    return {w} * {n}",
    "for {w} in {w}: {w}({w})",
    "if {w} > {n}:\n    {w} = {n}",
    "let {w} = {n};",
    "const {w} = ({w}) => {w} + {n};",
    "SELECT {w} FROM {w} WHERE {w} = {n}",
    "print('{w}')",
    "{w} --{w} {w}.txt",
    "[{n}, {n}, {n}]",
    "import {w}",
    "return {w}[{n}]",
    "{w} && {w}",
    "git {w} -{w}",
)
_SCRIPTS = (
    "a-zßàâäçèéêëíñóôöùúûü",
    "a-ząćęłńóśźżčřšžůěáőű",
    "\u0430-\u044f\u0451",
    "\u03ac-\u03ce",
    "\u3041-\u309f",
    "\u30a1-\u30ff",
    "\u4e00-\u9fff",
    "\uac00-\ud7a3",
    "\u0621-\u064a",
    "\u05d0-\u05ea",
    "\u0904-\u0939\u093e-\u094d",
    "\u0e01-\u0e4e",
)
_UNSPACED = "\u3041\u30a1\u4e00\u0e01"
_QUOTES = (
    ('"', '"'),
    ('"', '"'),
    ('"', '"'),
    ("'", "'"),
    ("'", "'"),
    ("\u201c", "\u201d"),
    ("\u2018", "\u2019"),
    ("\u201e", "\u201c"),
    ("\u00ab", "\u00bb"),
    ("`", "`"),
    ('"""', '"""'),
    ("```\n", "\n```"),
    ("<", ">"),
    ("<<", ">>"),
    ("(", ")"),
    ("[", "]"),
    ("<text>", "</text>"),
    ("\n\n", "\n\n"),
    ("\n", "\n"),
    ("---\n", "\n---"),
)


def word(draw: Draw) -> str:
    """A word in small letters, or one of the words that are spelt in JSON, of any language."""
    if draw.chance(_SPELT):
        common, every = spelt(Split.TRAIN)
        return draw.pick(every if draw.chance(_ANY) else common).lower()
    return draw.pick(words(Split.TRAIN) if draw.chance(0.5) else nouns(Split.TRAIN))


def phrase(draw: Draw) -> str:
    """One to five words, at times with an article that belongs to them."""
    return _expanded(draw, draw.pick(_PHRASES))


def title(draw: Draw) -> str:
    """A name as books, bands and places have."""
    return _expanded(draw, draw.pick(_TITLES))


def passage(draw: Draw) -> str:
    """A text of one or more sentences, with marks, lines, code, or in another script."""
    while True:
        text = _passage(draw).strip()
        if 1 < len(text) < 260:
            return text


def _passage(draw: Draw) -> str:
    roll = draw.rng.random()
    if roll < 0.25:
        return foreign(draw)
    if roll < 0.5:
        return _marked(draw, draw.pick(_MARKED))
    if roll < 0.6:
        return phrase(draw) if draw.chance(0.6) else title(draw)
    count = draw.pick((1, 1, 1, 1, 2, 2, 3))
    return draw.pick((" ", " ", " ", "\n")).join(sentence(draw) for _ in range(count))


def sentence(draw: Draw) -> str:
    """A sentence that somebody would say, or one of any words."""
    if draw.chance(0.35):
        text = draw.pick(values(draw.pick(_NATURAL), Split.TRAIN))
    else:
        text = _expanded(draw, worded(draw, draw.pick(_SENTENCES)))
    if draw.chance(0.8):
        text = capital(text)
    return text + draw.pick(_ENDS) if text[-1].isalnum() else text


def foreign(draw: Draw) -> str:
    """A sentence in another language, or words of its script."""
    if draw.chance(0.4):
        text = draw.pick(_foreign())
        return f"{text} {draw.pick(_foreign())}" if draw.chance(0.2) else text
    letters = draw.pick(_SCRIPTS)
    pool = script_words(letters, Split.TRAIN)
    count = draw.pick((1, 2, 3, 4, 5, 7))
    drawn = [draw.pick(pool) for _ in range(count)]
    if letters[0] in _UNSPACED:
        text = "".join(one + ("\u3001" if draw.chance(0.15) else "") for one in drawn)
        return text.rstrip("\u3001") + draw.pick(("", "", "\u3002", "\uff01", "\uff1f"))
    text = " ".join(one + ("," if draw.chance(0.15) else "") for one in drawn).rstrip(",")
    text = capital(text) if draw.chance(0.7) else text
    return text + draw.pick(("", "", ".", "!", "?"))


def quoted(draw: Draw, text: str) -> str:
    """The text as a request sets it apart."""
    while True:
        before, after = draw.pick(_QUOTES)
        if after.strip() and after.strip() in text:
            continue
        if "\n" in text and len(before) == 1 and before in "<([" and draw.chance(0.9):
            continue
        return f"{before}{text}{after}"


def _marked(draw: Draw, form: str) -> str:
    makers: Mapping[str, Callable[[Draw], str]] = {
        "{p}": phrase,
        "{s}": sentence,
        "{t}": title,
        "{c}": _code,
    }

    def made(match: re.Match[str]) -> str:
        return makers[match[0]](draw)

    return _expanded(draw, re.sub(r"\{[pstc]\}", made, form))


def _code(draw: Draw) -> str:
    return _expanded(draw, draw.pick(_CODE))


def _expanded(draw: Draw, form: str) -> str:
    """The form with words for `{w}`, with a capital for `{W}`, names and numbers."""

    def one(match: re.Match[str]) -> str:
        match match[1]:
            case "w":
                return word(draw)
            case "W":
                return word(draw).capitalize()
            case "N":
                return draw.pick(names(Split.TRAIN))
            case _:
                return str(draw.rng.randint(1, draw.pick((9, 99, 2030))))

    return re.sub(r"\{([wWNn])\}", one, form)


@cache
def _foreign() -> tuple[str, ...]:
    return tuple(lines("foreign.txt"))


def person(draw: Draw) -> str:
    """A name of one or two words that are spelt in JSON."""
    common, every = spelt(Split.TRAIN)
    pool = every if draw.chance(_ANY) else common
    return " ".join(draw.pick(pool).capitalize() for _ in range(draw.pick((1, 1, 2))))


MADE: Mapping[str, Callable[[Draw], str]] = {
    "word": word,
    "text": phrase,
    "title": title,
    "person": person,
}
"""The types of values that are made here, and what makes them."""
