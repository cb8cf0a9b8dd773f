"""How people put their requests: politeness, a sentence before, a slip of the keyboard."""

import re
from collections.abc import Callable

from demo.skills.case import Draw
from demo.skills.catalogue import related
from demo.skills.catalogue.kinds import PLACEHOLDER
from demo.skills.phrases import capital

_QUESTION = re.compile(
    r"(what|how|is|are|am|was|will|where|when|who|which|can|do|does|did|could|should|has|have|why"
    r"|would|shall|any chance)\b",
    re.IGNORECASE,
)
_COMMANDS = frozenset((
    "add", "arrange", "ask", "begin", "block", "book", "bring", "buy", "calculate", "call",
    "cancel", "change", "charge", "check", "clean", "clear", "close", "convert", "copy", "count",
    "create", "cut", "decline", "delete", "dim", "download", "draft", "email", "exchange", "fetch",
    "find", "fly", "forward", "get", "give", "go", "heat", "help", "hold", "invite", "keep", "let",
    "list", "lock", "look", "lower", "make", "mark", "message", "move", "mute", "open", "order",
    "pay", "pin", "plan", "play", "print", "put", "read", "record", "remind", "remove", "rename",
    "rent", "reply", "report", "reserve", "run", "save", "schedule", "search", "sell", "send",
    "set", "share", "shift", "show", "shut", "sign", "snooze", "start", "stop", "subscribe",
    "switch", "take", "tell", "text", "track", "transfer", "turn", "unlock", "update", "upgrade",
    "wake", "warm", "warn", "water", "work", "write",
))  # fmt: skip
_BEFORE = ("please", "can you", "could you", "I want you to", "would you", "I'd like you to")
_AFTER = (" please", ", please", ", thanks", ", thank you", " now", " for me")
_GREETINGS = ("Hi", "Hello", "Hey", "Good morning", "Hi there", "Good evening")
_STATES = (
    "at work", "at home", "in the car", "on the train", "in a meeting", "on my way home",
    "with friends", "in a hurry", "a bit tired", "alone today", "still in bed", "out with the dog",
)  # fmt: skip
_UNTIL = ("", "", " until six", " right now", " all day", " until noon", " at the moment", " again")
_REMARKS = (
    "It's been a long day.",
    "I have a question.",
    "One more thing.",
    "I need your help.",
    "My hands are full.",
    "I almost forgot.",
    "Sorry to bother you.",
    "This should be easy.",
    "I hope you can do this.",
    "Quick one.",
    "Okay, next.",
)
_CLOSINGS = ("Thanks.", "Thank you!", "That would help me.", "Many thanks.", "I'd be glad.")


def with_slip(draw: Draw, template: str) -> str:
    """The template with one of its longer words misspelt; placeholders stay."""
    spans = [match.span() for match in PLACEHOLDER.finditer(template)]
    found = [
        match.start()
        for match in re.finditer(r"\b[a-z]{5,}\b", template)
        if not any(start <= match.start() < end for start, end in spans)
    ]
    if not found:
        return template
    at = draw.pick(found) + draw.rng.randint(1, 3)
    slip = draw.pick((template[at + 1] + template[at], template[at + 1], template[at] * 2))
    doubled = slip == template[at] * 2
    return template[:at] + slip + template[at + (1 if doubled else 2) :]


def as_written(draw: Draw, request: str, language: str = "en") -> str:
    """The request, its placeholders still in it, as one person or another would write it."""
    text = request
    if language == "en" and text.split(" ")[0].lower() in _COMMANDS and draw.chance(0.4):
        text = f"{draw.pick(_BEFORE)} {text}"
    question = language == "en" and _QUESTION.match(text) is not None
    # After a value, these words could belong to it.
    if language == "en" and not question and text[-1].isalnum() and draw.chance(0.12):
        text += draw.pick(_AFTER)
    if _open_end(text):
        text += draw.pick(("?", "?", "")) if question else draw.pick(("", "", ".", ".", "!"))
    if not text.startswith("{") and draw.chance(0.75):
        text = capital(text)
    if language == "en" and draw.chance(0.15):
        text = f"{_opening(draw)} {text}"
    if language == "en" and text[-1] in ".!?" and draw.chance(0.06):
        text += f" {draw.pick(_CLOSINGS)}"
    return text


def _open_end(text: str) -> bool:
    return text[-1].isalnum() or text[-1] == "}"


def _opening(draw: Draw) -> str:
    roll = draw.rng.random()
    if roll < 0.35:
        return draw.pick(_GREETINGS) + draw.pick((",", ".", "!"))
    if roll < 0.75:
        start = draw.pick(("I am", "I'm"))
        return f"{start} {draw.pick(_STATES)}{draw.pick(_UNTIL)}."
    return draw.pick(_REMARKS)


_REWORDED, _WORD = 0.3, 0.3
_CHATTY, _ASIDE = 0.15, 0.05
_BEFORE_ALL = {
    "en": (
        "so,",
        "well,",
        "ok,",
        "right,",
        "um,",
        "next thing:",
        "listen,",
        "you know what,",
        "just a small thing:",
        "if it's no trouble,",
        "before I forget:",
        "as I said,",
        "one moment...",
        "sorry, me again.",
        "here is what I want:",
        "my request:",
        "user request:",
        "I'd be grateful for this:",
        "now",
        "and",
        "also,",
        "perhaps you can do this:",
        "I don't know if you can, but",
        "first of all,",
        "last one for today:",
        "no idea how this works, so:",
        "dear assistant,",
        "yo,",
        "alright,",
    ),
    "de": ("Hallo,", "bitte", "also,", "kurze Frage:", "Guten Tag!", "ach ja,", "und jetzt:"),
    "fr": ("Bonjour,", "Salut,", "alors,", "dis,", "une petite chose :", "encore une chose :"),
    "es": ("Hola,", "oye,", "por favor,", "una cosa:", "buenas,", "otra cosa:"),
}
_AFTER_ALL = {
    "en": (
        "if you can",
        "as soon as you can",
        "would be great",
        "that's all",
        "ok",
        "will you",
        "thx",
        "pls",
        "cheers",
        "and be careful",
        "I can't do it from here",
        "I trust you",
        "it would make my day",
        "that's what I need",
    ),
    "de": ("bitte", "danke", "wenn es geht", "sonst nichts"),
    "fr": ("s'il te plaît", "merci", "si c'est possible", "c'est tout"),
    "es": ("por favor", "gracias", "si puedes", "nada más"),
}
_ASIDES = (
    "My neighbour has two cats and a parrot.",
    "I only slept four hours.",
    "It's Monday, what do you expect.",
    "The coffee here costs 5 euros, imagine.",
    "I told my brother the same thing yesterday.",
    "My phone is at 7 percent.",
    "I'm typing this with one hand.",
    "There are 30 people in this queue.",
    "My train is 20 minutes late, as always.",
    "I have been up since six.",
    "We talked about it last week, remember?",
    "The last assistant got it wrong three times.",
    "My daughter is watching me type.",
    "It's raining cats and dogs where I am.",
    "I hope my spelling is okay.",
    "You did this well the last time.",
    "I'd do it myself, but my arm hurts.",
    "Nobody else answers me today.",
)


def reworded(draw: Draw, template: str) -> str:
    """The template, at times with other words of like meaning; placeholders stay."""
    if not draw.chance(_REWORDED):
        return template

    def other(match: re.Match[str]) -> str:
        found = related.related(match[0]) if draw.chance(_WORD) else ()
        return draw.pick(found) if found else match[0]

    return _outside(template, lambda text: re.sub(r"\b[a-z]{4,}\b", other, text))


def chatty(draw: Draw, template: str, language: str) -> str:
    """The request, at times with talk around it that does not matter, or carelessly typed."""
    text = template
    if draw.chance(_CHATTY):
        text = f"{draw.pick(_BEFORE_ALL[language])} {text}"
        text = text if draw.chance(0.5) else capital(text)
    if draw.chance(_CHATTY / 2):
        text = f"{text.rstrip('.!?')}, {draw.pick(_AFTER_ALL[language])}"
    if language == "en" and draw.chance(_ASIDE):
        aside = draw.pick(_ASIDES)
        ended = text if text[-1] in ".!?" else f"{text}."
        text = f"{aside} {text}" if draw.chance(0.6) else f"{ended} {aside}"
    if draw.chance(0.06):
        text = _outside(text, str.lower)
    if draw.chance(0.06):
        text = _outside(text, lambda part: part.replace("'", ""))
    return text


def _outside(template: str, change: Callable[[str], str]) -> str:
    """The template, changed outside its placeholders."""
    made, at = "", 0
    for match in PLACEHOLDER.finditer(template):
        made += change(template[at : match.start()]) + match[0]
        at = match.end()
    return made + change(template[at:])
