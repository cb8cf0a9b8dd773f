"""Records of a subject and some of its traits: "Anna Berg, aged 40, works as a nurse"."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from demo.skills.case import Draw
from demo.skills.catalogue.kinds import Kind, Request
from demo.skills.composed.quantities import quantity
from demo.skills.composed.traits import Subject, Trait, subjects
from demo.skills.phrases import capital, enumerated
from demo.skills.words import names, nouns

_COUNTS = {1: 10, 2: 30, 3: 30, 4: 17, 5: 9, 6: 4}
_MEASURED = frozenset(("thing", "machine", "place", "animal"))
_OFTEN_MEASURED = 0.35
_UNNAMED = 0.15
_OPTIONAL = 0.2
_PRESENTED = ("This is", "Meet", "Here comes", "There is", "Let me tell you about", "Consider",
              "You may know", "I have heard of", "We have", "Take", "I think of", "New:", "Look at",
              "Today we talk about", "Our list has", "Somebody asked about", "I saw")  # fmt: skip
_FRONT = ("As far as I know", "By the way", "According to the list", "To be honest",
          "They say that", "I hear that", "It seems that", "Everyone knows that",
          "For the record", "As you know", "In short", "Yes", "Well", "So",
          "I was told that", "It is true that",
          "The note says that", "I learnt by phone that", "Tonight", "Yesterday", "Sadly",
          "Luckily", "Meanwhile", "Once more", "Nowadays", "Of course",
          "Good news", "Please note")  # fmt: skip
_BEHIND = ("as far as I know", "they say", "I think", "by the way", "if I am not mistaken",
           "as everybody knows", "as usual", "at least for now", "it seems", "I hear")  # fmt: skip

_WHEN = ("", "", "", "", "Tonight ", "Today ", "Yesterday ", "Sadly ", "Luckily ", "Again ", "Now ")
_REVERSED = ("{traits}, this must be {name}.", "{traits}: {name}.",
             "{traits} - we speak of {name}.",
             "Who is meant by {traits}? It can only be {name}.", "{traits}, {name}",
             "{traits} = {name}",
             "I only wrote down {traits}, but it was {name}.", "{traits}! You mean {name}.",
             "Found under {traits}: {name}.", "We look for {traits}. {name} it is.")  # fmt: skip

Style = Callable[[Draw, str, str, Sequence[Trait]], str]


def kind(draw: Draw, sentences: int) -> Kind:
    """A kind of record about one subject, with as many sentences that hold its values."""
    subject = draw.pick(list(subjects().values())[:-1])
    traits = _drawn(draw, subject, draw.weighted(_COUNTS))
    named = not draw.chance(_UNNAMED)
    asked = [_perhaps_optional(draw, trait) for trait in traits]
    parameters = [trait.parameter for trait in asked]
    if named:
        parameters.insert(draw.pick((0, 0, draw.rng.randint(0, len(parameters)))), subject.name)
    requests = tuple(Request(_said(draw, subject, named, asked)) for _ in range(sentences))
    noun = draw.pick(subject.nouns)
    about = (f"A {noun}", f"Data of the {noun}", f"What is known about a {noun}", f"One {noun}")
    called = (noun, f"{noun}_{draw.pick(('record', 'entry', 'data', 'facts', 'card'))}")
    return Kind(called, about, tuple(parameters), requests)


def _drawn(draw: Draw, subject: Subject, count: int) -> list[Trait]:
    free = [t for t in subject.traits if t.parameter.name not in subject.name.names]
    traits = [trait.drawn(draw) for trait in draw.rng.sample(free, count)]
    if subject.label in _MEASURED and draw.chance(_OFTEN_MEASURED):
        traits[draw.rng.randrange(count)] = quantity(draw)
    return traits


def _perhaps_optional(draw: Draw, trait: Trait) -> Trait:
    optional = draw.chance(_OPTIONAL)
    return replace(trait, parameter=replace(trait.parameter, optional=optional))


def _said(draw: Draw, subject: Subject, named: bool, traits: Sequence[Trait]) -> str:
    told = [t for t in traits if not t.parameter.optional or draw.chance(0.5)]
    if not named and not told:
        told = list(traits[:1])
    draw.rng.shuffle(told)
    name, pronoun = _called(draw, subject, named), draw.pick(subject.pronouns)
    return draw.pick(_STYLES)(draw, name, pronoun, told)


def _called(draw: Draw, subject: Subject, named: bool) -> str:
    """The subject as sentences name it."""
    noun = draw.pick(subject.nouns)
    if not named:
        if draw.chance(0.3):  # a name that nobody asks for
            other = draw.pick(names(draw.split))
            return draw.pick((other, f"the {noun} {other}"))
        return draw.pick((f"the {noun}", f"my {noun}", f"this {noun}", f"our {noun}"))
    name = f"{{{subject.name.name}}}"
    other = f"{name}, a {draw.pick(nouns(draw.split))} {noun},"
    return draw.pick((name, name, name, f"the {noun} {name}", f"my {noun} {name}", other,
                      f"our {noun} {name}", f"{name}, the {noun},",
                      f"a {noun} called {name}"))  # fmt: skip


def small(text: str) -> str:
    """The text with a small letter in front, but for the word I."""
    return text if text.startswith("I ") else text[:1].lower() + text[1:]


def _told(draw: Draw, name: str, pronoun: str, traits: Sequence[Trait]) -> str:
    """Clauses with verbs, in one sentence or several."""
    if not traits:
        return _presented(draw, name, pronoun, traits)
    size = draw.rng.randint(1, 3)
    groups = [traits[at : at + size] for at in range(0, len(traits), size)]
    who, texts = name, []
    for group in groups:
        clauses = enumerated([trait.verb(draw) for trait in group])
        texts.append(_framed(draw, f"{who} {clauses}"))
        who = pronoun
    return " ".join(texts)


def _framed(draw: Draw, text: str) -> str:
    if draw.chance(0.12):
        front = draw.pick(_FRONT)
        text = f"{front}{'' if front.endswith('that') else ','} {small(text)}"
    if draw.chance(0.07):
        text = f"{text}, {draw.pick(_BEHIND)}"
    return capital(text) + draw.pick((".", ".", ".", "!"))


def _appended(draw: Draw, name: str, pronoun: str, traits: Sequence[Trait]) -> str:
    """What follows the name between commas, then clauses."""
    at = draw.rng.randint(0, len(traits))
    parts = [name.rstrip(","), *(trait.adjunct(draw) for trait in traits[:at])]
    rest = traits[at:]
    if not rest:
        return capital(", ".join(parts)) + draw.pick((".", ".", ""))
    comma = "," if at else ""
    return _told(draw, ", ".join(parts) + comma, pronoun, rest)


def _fronted(draw: Draw, name: str, pronoun: str, traits: Sequence[Trait]) -> str:
    """A trait before the name: "Aged 40, Anna works as a nurse"."""
    if len(traits) < 2:
        return _appended(draw, name, pronoun, traits)
    rest = small(_told(draw, name, pronoun, traits[1:]))
    return capital(
        f"{draw.pick(_WHEN)}{traits[0].adjunct(draw)}{draw.pick((',', ',', ':'))} {rest}"
    )


def _reversed(draw: Draw, name: str, pronoun: str, traits: Sequence[Trait]) -> str:
    """All traits before the name: "Aged 40, a nurse, this must be Anna"."""
    if not traits:
        return _presented(draw, name, pronoun, traits)
    parts = [trait.adjunct(draw) for trait in traits]
    text = draw.pick((", ".join(parts), enumerated(parts)))
    form = draw.pick(_REVERSED)
    return capital(form.replace("{traits}", text).replace("{name}", name.rstrip(",")))


def _presented(draw: Draw, name: str, pronoun: str, traits: Sequence[Trait]) -> str:
    """Somebody is presented: "Meet Anna, a nurse"."""
    at = draw.rng.randint(0, min(2, len(traits)))
    parts = [f"{draw.pick(_PRESENTED)} {name.rstrip(',')}", *(t.adjunct(draw) for t in traits[:at])]
    text = capital(", ".join(parts)) + "."
    return f"{text} {_told(draw, pronoun, pronoun, traits[at:])}" if traits[at:] else text


def _noted(draw: Draw, name: str, pronoun: str, traits: Sequence[Trait]) -> str:
    """A note: the values with names or without."""
    del pronoun
    notes = [trait.note(draw) if draw.chance(0.6) else trait.adjunct(draw) for trait in traits]
    parts = [name.rstrip(","), *notes]
    if draw.chance(0.3):
        draw.rng.shuffle(parts)
    between = draw.pick((", ", ", ", "; ", " - ", "\n", " | ", " / ", ". "))
    return capital(between.join(parts)) + draw.pick(("", "", "."))


def _headed(draw: Draw, name: str, pronoun: str, traits: Sequence[Trait]) -> str:
    """The name, a colon, and the rest."""
    del pronoun
    notes = [draw.pick((t.adjunct, t.note, t.verb))(draw) for t in traits]
    return capital(f"{name.rstrip(',')}: {', '.join(notes)}") if notes else f"{name.rstrip(',')}."


def _listed(draw: Draw, name: str, pronoun: str, traits: Sequence[Trait]) -> str:
    """Statements about traits by their names: "The age of Anna is 40"."""
    del pronoun
    texts = []
    for number, trait in enumerate(traits):
        words = draw.pick(trait.parameter.names).replace("_", " ")
        value = trait.note(draw).rsplit("{", 1)[1]
        whose = f"{words} of {name.rstrip(',')}" if number == 0 else words
        texts.append(f"The {whose} is {{{value}.")
    return " ".join(texts) or f"{name.rstrip(',')}."


def _questioned(draw: Draw, name: str, pronoun: str, traits: Sequence[Trait]) -> str:
    """A question that names the subject, then clauses."""
    question = draw.pick(("Do you know {}?", "Have you heard of {}?", "Who remembers {}?",
                          "What about {}?", "Did I mention {}?", "{}? Of course."))  # fmt: skip
    text = capital(question.replace("{}", name.rstrip(",")))
    return f"{text} {_told(draw, pronoun, pronoun, traits)}" if traits else text


_STYLES: tuple[Style, ...] = (
    _told,
    _told,
    _told,
    _appended,
    _appended,
    _fronted,
    _reversed,
    _presented,
    _noted,
    _headed,
    _listed,
    _questioned,
)
