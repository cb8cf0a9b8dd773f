"""How people put their requests: politeness, a sentence before, a slip of the keyboard."""

import re

from demo.skills.case import Draw
from demo.skills.catalogue.kinds import PLACEHOLDER

_QUESTION = re.compile(
    r"(what|how|is|are|am|was|will|where|when|who|which|can|do|does|did|could|should|has|have|why"
    r"|would|shall|any chance)\b",
    re.IGNORECASE,
)
_COMMANDS = frozenset(
    [
        "add",
        "arrange",
        "ask",
        "begin",
        "block",
        "book",
        "bring",
        "buy",
        "calculate",
        "call",
        "cancel",
        "change",
        "charge",
        "check",
        "clean",
        "clear",
        "close",
        "convert",
        "copy",
        "count",
        "create",
        "cut",
        "decline",
        "delete",
        "dim",
        "download",
        "draft",
        "email",
        "exchange",
        "fetch",
        "find",
        "fly",
        "forward",
        "get",
        "give",
        "go",
        "heat",
        "help",
        "hold",
        "invite",
        "keep",
        "let",
        "list",
        "lock",
        "look",
        "lower",
        "make",
        "mark",
        "message",
        "move",
        "mute",
        "open",
        "order",
        "pay",
        "pin",
        "plan",
        "play",
        "print",
        "put",
        "read",
        "record",
        "remind",
        "remove",
        "rename",
        "rent",
        "reply",
        "report",
        "reserve",
        "run",
        "save",
        "schedule",
        "search",
        "sell",
        "send",
        "set",
        "share",
        "shift",
        "show",
        "shut",
        "sign",
        "snooze",
        "start",
        "stop",
        "subscribe",
        "switch",
        "take",
        "tell",
        "text",
        "track",
        "transfer",
        "turn",
        "unlock",
        "update",
        "upgrade",
        "wake",
        "warm",
        "warn",
        "water",
        "work",
        "write",
    ]
)
_BEFORE = ("please", "can you", "could you", "I want you to", "would you", "I'd like you to")
_AFTER = (" please", ", please", ", thanks", ", thank you", " now", " for me")
_GREETINGS = ("Hi", "Hello", "Hey", "Good morning", "Hi there", "Good evening")
_STATES = (
    "at work",
    "at home",
    "in the car",
    "on the train",
    "in a meeting",
    "on my way home",
    "with friends",
    "in a hurry",
    "a bit tired",
    "alone today",
    "still in bed",
    "out with the dog",
)
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


def worded(draw: Draw, request: str, language: str = "en") -> str:
    """The request, its placeholders still in it, as one person or another would write it."""
    text = request
    if language == "en" and text.split(" ")[0].lower() in _COMMANDS and draw.chance(0.4):
        text = f"{draw.pick(_BEFORE)} {text}"
    question = language == "en" and _QUESTION.match(text) is not None
    if language == "en" and not question and _open_end(text) and draw.chance(0.12):
        text += draw.pick(_AFTER)
    if _open_end(text):
        text += draw.pick(("?", "?", "")) if question else draw.pick(("", "", ".", ".", "!"))
    if not text.startswith("{") and draw.chance(0.75):
        text = text[0].upper() + text[1:]
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
