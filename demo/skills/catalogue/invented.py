"""Kinds of functions that are made up for one case: a deed, a thing, and some parameters.

What the function is called and what the request says are different words of like meaning. There is
no end to these kinds, so the model can only learn to compare what words mean.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache

from demo.skills.case import Draw
from demo.skills.catalogue import related
from demo.skills.catalogue.files import blocks, read, read_folder
from demo.skills.catalogue.kinds import (
    PLACEHOLDER,
    Kind,
    Parameter,
    Request,
    parse_parameter,
    parse_request,
)
from demo.skills.phrases import capital
from demo.skills.words import Split, aligned, nouns

_REQUESTS = 6
_COMMON = "common.txt"
_UNALIGNED = 0.2
_THE = ("the ", "the ", "the ", "my ", "our ", "this ", "")
_COMMANDS = (
    "{v} {n}",
    "{v} {n}",
    "{v} {n}",
    "I want to {v} {n}",
    "I need to {v} {n}",
    "I have to {v} {n}",
    "I'd like to {v} {n}",
    "I was about to {v} {n} myself",
    "help me {v} {n}",
    "is it possible to {v} {n}",
    "how can I {v} {n}",
    "it's time to {v} {n}",
    "let's {v} {n}",
    "we must {v} {n}",
    "my boss told me to {v} {n}",
    "somebody should {v} {n}",
    "{n} is what I want to {v}",
    "will you {v} {n}",
    "don't forget to {v} {n}",
    "one should {v} {n}",
    "try to {v} {n}",
    "your job: {v} {n}",
    "{n}: {v} it",
    "about {n}, {v} it",
)
_THINGS = (
    "{n}",
    "{n}, please",
    "it's about {n}",
    "something has to be done about {n}",
    "I have a question about {n}",
    "I need something for {n}",
    "anything on {n}",
    "it has to do with {n}",
    "I'm here because of {n}",
    "{n} again",
    "I keep thinking of {n}",
    "my problem is {n}",
    "do what you can for {n}",
    "can you do something with {n}",
)
_CLAUSE = re.compile(
    r"(I|I'm|I'd|we|we're|there|it|it's|its|my|our|the \w+ (is|are|should)|that's|don't|nobody|so"
    r"|only|just|\{\w+\} (is|are|will|takes|needs|asked|wrote|guests)|because|but|by \w+ing)\b"
)


@dataclass(frozen=True, slots=True)
class _Deed:
    names: tuple[str, ...]
    said: tuple[str, ...]
    frames: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Aspect:
    """A parameter that functions about anything may have, and requests that mention its value."""

    parameter: Parameter
    mentions: tuple[Request, ...]


@cache
def _deeds() -> tuple[_Deed, ...]:
    return tuple(
        _Deed(tuple(names.split("|")), tuple(said.split("|")), tuple(frames))
        for names, said, *frames in blocks(read("deeds.txt"))
    )


@cache
def read_aspects() -> dict[str, tuple[Aspect, ...]]:
    """The aspects of each file, by the file's name."""
    return {
        name: tuple(_aspect(*block) for block in blocks(content))
        for name, content in read_folder("aspects").items()
    }


def _any_aspect(draw: Draw) -> Aspect:
    """Half the time one that very many functions have."""
    files = read_aspects()
    others = [name for name in files if name != _COMMON]
    return draw.pick(files[_COMMON if draw.chance(0.5) else draw.pick(others)])


def _aspect(head: str, *mentions: str) -> Aspect:
    parameter = parse_parameter(head)
    known = {parameter.name: parameter}
    return Aspect(parameter, tuple(parse_request(text, known) for text in mentions))


@dataclass(frozen=True, slots=True)
class _Theme:
    """Words for one thing: in a function's name, in its description, in requests."""

    name: str
    about: str
    said: tuple[str, ...]


def invented(draw: Draw) -> Kind:
    """A kind of its own."""
    return _kind(draw, _deed(draw), _compound(draw))


def family(draw: Draw, count: int) -> list[Kind]:
    """`count` kinds that do different things to one thing."""
    theme = _compound(draw)
    return [_kind(draw, deed, theme, alone=False) for deed in draw.rng.sample(_deeds(), count)]


def extra(draw: Draw, taken: Sequence[Parameter], count: int) -> list[Parameter]:
    """Optional parameters that no request mentions, beside those `taken`."""
    return _optional(_drawn(draw, count, taken))


def _optional(aspects: Sequence[Aspect]) -> list[Parameter]:
    return [replace(aspect.parameter, optional=True) for aspect in aspects]


def extended(draw: Draw, kind: Kind) -> Kind:
    """The kind with a further optional parameter, and some more requests that mention it."""
    (aspect,) = _drawn(draw, 1, kind.parameters)
    (parameter,) = _optional([aspect])
    plain = [request for request in kind.requests if request.language == "en"]
    longer = [_longer(draw, draw.pick(plain), aspect) for _ in range(len(plain) // 2 + 1)]
    parameters, requests = (*kind.parameters, parameter), (*kind.requests, *longer)
    return replace(kind, parameters=parameters, requests=requests)


def _longer(draw: Draw, request: Request, aspect: Aspect) -> Request:
    mention = _mention(draw, aspect, alike=True)
    joined = _with_mention(draw, request.text.rstrip(".?!"), mention.text)
    return Request(joined, "en", (*request.fixed, *mention.fixed))


def _deed(draw: Draw) -> _Deed:
    if draw.chance(0.6):
        return draw.pick(_deeds())
    short, verbs = draw.pick(related.deeds())
    said = tuple(draw.pick(verbs) for _ in range(3))
    return _Deed((draw.pick(short),), said, ())


def _compound(draw: Draw) -> _Theme:
    """A thing of one word, or of two: the kitchen lamp, which requests call the light of the flat.

    Other functions may share one of the two.
    """
    first = _theme(draw)
    if draw.chance(0.7):
        return first
    second = _theme(draw)
    said = tuple(
        draw.pick(
            ("{0} {1}", "{0} {1}", "{1} of the {0}", "{1} for the {0}", "{1} in the {0}")
        ).format(one, other)
        for one, other in zip(first.said, second.said, strict=True)
    )
    return _Theme(f"{first.name}_{second.name}", f"{first.about} {second.about}", said)


def _theme(draw: Draw) -> _Theme:
    short, things = draw.pick(related.themes())
    name = draw.pick(short)
    others = [thing for thing in things if thing != name] if draw.chance(0.85) else [name]
    said = tuple(draw.pick(others) for _ in range(3))
    return _Theme(name, name if draw.chance(0.4) else draw.pick(things), said)


def _kind(draw: Draw, deed: _Deed, theme: _Theme, *, alone: bool = True) -> Kind:
    """alone: whether no other function is about the thing, so that it may be the whole name."""
    parameters, mentions = _parameters(draw)
    about = f"{draw.pick(deed.said).capitalize()} {draw.pick(('the ', 'a ', ''))}{theme.about}"
    if draw.chance(0.2):
        about += draw.pick((" of the user", " in the system", " for a customer", " of this app"))
    requests = tuple(_request(draw, deed, theme, mentions) for _ in range(_REQUESTS))
    return Kind((_name(draw, deed, theme, alone=alone),), (about,), parameters, requests)


def _name(draw: Draw, deed: _Deed, theme: _Theme, *, alone: bool) -> str:
    while True:
        verb = draw.pick(deed.names)
        roll = draw.rng.random()
        if roll < 0.7:
            name = f"{verb}_{theme.name}"
        elif roll < 0.8:
            name = f"{theme.name}_{verb}"
        elif roll < 0.9 or not alone:
            things = "".join(part.capitalize() for part in theme.name.split("_"))
            name = f"{verb.split('_')[0]}{things}"
        else:
            name = theme.name
        if aligned(name) or draw.chance(_UNALIGNED):
            return name


def _parameters(draw: Draw) -> tuple[tuple[Parameter, ...], list[Aspect]]:
    made: list[Aspect] = []
    taken: list[Parameter] = []
    for _ in range(draw.pick((0, 1, 1, 2, 2, 2, 3, 3, 4))):
        roll = draw.rng.random()
        if roll < 0.6:
            found = _drawn(draw, 1, taken)
        elif roll < 0.8:
            found = [_labelled(draw)]
        else:
            found = [_choice(draw)]
        if found[0].parameter.name not in {name for one in taken for name in one.names}:
            made += found
            taken += [found[0].parameter]
    return tuple(taken), made


def _drawn(draw: Draw, count: int, taken: Sequence[Parameter]) -> list[Aspect]:
    """Aspects whose parameters share no name with each other and with those `taken`."""
    names = {name for parameter in taken for name in parameter.names}
    found: list[Aspect] = []
    while len(found) < count:
        aspect = _any_aspect(draw)
        if not names & set(aspect.parameter.names):
            found.append(aspect)
            names |= set(aspect.parameter.names)
    return found


def _labelled(draw: Draw) -> Aspect:
    """A parameter that requests call by another word of like meaning."""
    theme = _theme(draw)
    type_ = draw.pick(("int", "number", "word", "name", "text", "date", "person", "code"))
    parameter = Parameter((theme.name,), type_, draw.chance(0.3))
    value, known = f"{{{theme.name}}}", {theme.name: parameter}
    forms: tuple[str, ...] = (
        "{n} {x}",
        "the {n} is {x}",
        "{n}: {x}",
        "with {n} {x}",
        "{n} = {x}",
        "{x} as {n}",
        "{x} is the {n}",
        "with {x} for the {n}",
        "and a {n} of {x}",
    )
    if type_ in ("int", "number"):
        forms = (*forms, "{x} {n}", "with {x} {n}", "for {x} {n}", "{x} {n}")
    texts = [draw.pick(forms).format(n=draw.pick(theme.said), x=value) for _ in range(4)]
    return Aspect(parameter, tuple(parse_request(text, known) for text in texts))


def _choice(draw: Draw) -> Aspect:
    """A choice or a flag, that words of like meaning decide."""
    names = nouns(Split.TRAIN)
    if draw.chance(0.3):
        theme = _theme(draw)
        parameter = Parameter((theme.name,), "bool", draw.chance(0.5))
        sure = ("with {n}", "and {n}", "{n} please", "I want {n}", "{n} included", "add {n}")
        not_ = ("without {n}", "no {n}", "I don't want {n}", "leave out {n}", "not {n}", "skip {n}")
        mentions = [
            Request(draw.pick(forms).format(n=said), fixed=((theme.name, truth),))
            for said in theme.said
            for forms, truth in ((sure, True), (not_, False))
        ]
        return Aspect(parameter, tuple(mentions))
    themes: list[_Theme] = []
    for _ in range(draw.rng.randint(2, 5)):
        theme = _theme(draw)
        if not any(related.topics(theme.name) & related.topics(one.name) for one in themes):
            themes.append(theme)
    general = ("kind", "type", "mode", "category", "class", "option", "style", "variant", "group")
    name = draw.pick(general) if draw.chance(0.5) else draw.pick(names)
    choices = tuple((theme.name, theme.name) for theme in themes)
    parameter = Parameter((name,), "enum", draw.chance(0.4), choices)
    forms = ("{n}", "with {n}", "as {n}", "like {n}", "I think of {n}", "the {n} one", "{n} it is")
    mentions = [
        Request(draw.pick(forms).format(n=said), fixed=((name, theme.name),))
        for theme in themes
        for said in theme.said
    ]
    return Aspect(parameter, tuple(mentions))


def _request(draw: Draw, deed: _Deed, theme: _Theme, aspects: Sequence[Aspect]) -> Request:
    """A request that mentions all that it must, and some of what it may."""
    thing = draw.pick(_THE) + draw.pick(theme.said)
    roll = draw.rng.random()
    if deed.frames and roll < 0.45:
        text = draw.pick(deed.frames).replace("{n}", draw.pick(theme.said))
    elif deed.frames or roll < 0.8:
        text = draw.pick(_COMMANDS).format(v=draw.pick(deed.said), n=thing)
    else:
        text = draw.pick(_THINGS).format(n=thing)
    chosen = [a for a in aspects if not a.parameter.optional or draw.chance(0.5)]
    draw.rng.shuffle(chosen)
    fixed: list[tuple[str, str | int | float | bool]] = []
    alike = len({_sort(aspect.parameter) for aspect in chosen}) < len(chosen)
    last = ""
    for aspect in chosen:
        mention = _mention(draw, aspect, alike=alike)
        fixed += mention.fixed
        if mention.text.startswith(":") or mention.text[0] == '"':
            text, last = text + last, f" {mention.text}".replace(" :", ":")
        else:
            text = _with_mention(draw, text, mention.text)
    return Request(text + last, "en", tuple(fixed))


def _mention(draw: Draw, aspect: Aspect, *, alike: bool) -> Request:
    if not alike:
        return draw.pick(aspect.mentions)
    telling = [m for m in aspect.mentions if re.search("[a-z]", PLACEHOLDER.sub("", m.text))]
    return draw.pick(telling or aspect.mentions)


def _sort(parameter: Parameter) -> str:
    if parameter.type in ("int", "number"):
        return "number"
    return parameter.type if parameter.type in ("date", "time", "enum", "bool") else "text"


def _with_mention(draw: Draw, text: str, mention: str) -> str:
    """A request that also mentions an argument, before or after the rest."""
    if "..." in mention:
        before = mention.replace(" ...", "")
        start = before + ("" if before[-1] in ".:,;" else ",")
        return f"{start} {capital(text) if start[-1] == '.' else text}"
    if not _CLAUSE.match(mention):
        return text + draw.pick((" ", " ", " ", ", ")) + mention
    roll = draw.rng.random()
    if roll < 0.04:
        return f"{text}\n{mention}"
    if roll < 0.15:
        return f"{mention}, {text}"
    if roll < 0.35:
        return f"{capital(mention)}. {capital(text)}"
    if roll < 0.7:
        return f"{text}, {mention}"
    sentence = mention if mention.startswith("{") else capital(mention)
    return f"{text}. {sentence}"
