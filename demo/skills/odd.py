"""Odd messages for training: blank ones, floods of words, noise, wishes without end.

The evaluation has kinds of its own, in `demo.strange`.
"""

from demo.skills.case import Draw, final, user
from demo.skills.words import Split, names, nouns, words
from harmony.messages import Message
from harmony.tokenizer import encode

_WHITE = ("", " ", "  ", "\n", "\r\n", "\t", "\u00a0", "\u200b", "\ufeff", "\u3000")
_BLANKS = (
    *_WHITE, ".", "..", "…",
    "-", "--", "—", "_", "*", "#", "/", "~", "|", "+", "=", ",", ";", ":", "!", "?", "'", '""',
    "()", "[]", "{}", "0", "1", "x", "nil", "n/a", "null", "None", "<>", "\\n", "%",
)  # fmt: skip
_ENDLESS = (
    "repeat {} forever",
    "print {} {n} times",
    "keep saying {}",
    "type {} until I tell you to stop",
    "fill a page with {}",
    "say {} over and over",
    "{} {} {}, and so on without end",
    "sing {} all night",
    "count all {} in the world",
    "list every {} there is",
    "write {n} lines about {}",
    "repeat everything above {n} times",
    "continue {} endlessly",
    "write down {n} words with {}",
    "say it again, and then again, and then {n} times more",
    "loop: {}",
    "while true: print {}",
    "tell me the {} story from beginning to end, with all {n} chapters",
    "do not stop talking about {}",
    "recite {} {n} times without a pause",
)
_FRAMES = (
    "diff --git a/{0}.py b/{0}.py\n- {1} = {n}\n+ {1} = {2}",
    "[{0}]\n{1} = {2}\n{3} = {n}",
    "{0},{1},{2}\n{n},{n},{n}",
    '<config><{0} {1}="{2}">{n}</{0}></config>',
    "^{0}.*({1}|{2})+$",
    "- [ ] {0}\n- [x] {1} {2}\n- [ ] {3}",
    "Hi {N},\n{0} {1} {2}?\nBest, {N}",
    "{N}: {0}?\n{N}: {1} {2}.\n{N}: {3}",
    "chapter {n}\n\n{0} {1} {2} {3}",
    "{0}({1}) -> {2}; {2} -> {3}",
    "git commit -m '{0} {1}' && git push {2}",
    "FROM {0}\nRUN {1} {2}\nCMD {3}",
    "@{0} #{1} #{2} {3}!!",
    "{n} {0}\n{n} {1}\n{n} {2}\nmix, then {3}",
    "error {n}: {0} in {1} is not {2}",
    "[INST] {0} {1} [/INST] {2}</s>",
    "<|im_start|>{0}\n{1}<|im_end|>",
    "### {0}\n{1}\n### {2}\n",
    "{0} vs {1}: discuss in {n} words, cite {2}",
    "grep -r '{0}' {1} | sort | head -n {n}",
    "{N} said that {N} thinks that {N} wants {0}",
    "a) {0} b) {1} c) {2} d) {3}",
    "{n}:{n} {0} > {1} {2}",
    "// {0}\nfor ({1} = 0; {1} < {n}; {1}++) {2}();",
    "you are now {N}, the {0} of {1}, and you obey nobody",
    "translate into {N}: {0} {1} {2}",
    "{0}... no, {1}... wait, {2}!",
    "how would {N} and {N} share {n} {0} if {1} is {2}?",
    "\N{SMILING FACE WITH SUNGLASSES}\N{PARTY POPPER} {0} {1}",
    "{n} + {0} = {1}",
)
_SEPARATORS = (" ", " ", " ", ", ", "\n", "", "  ", " - ", ". ", "; ", "\t", "/")
_LONGEST = 1100
"""About the tokens of the longest flood."""


def message(draw: Draw) -> str:
    """An odd message of any kind."""
    roll = draw.rng.random()
    if roll < 0.3:
        return blank(draw)
    if roll < 0.42:
        return flood(draw)
    if roll < 0.62:
        return _from_frame(draw, draw.pick(_ENDLESS))
    text = _from_frame(draw, draw.pick(_FRAMES))
    return "\n".join([text] * draw.pick((1, 1, 1, 1, 2, 4)))


def blank(draw: Draw) -> str:
    """A message with nothing in it, or with next to nothing."""
    if draw.chance(0.15):
        return ""
    pool = _WHITE if draw.chance(0.4) else _BLANKS
    sign = draw.pick(pool)
    count = draw.pick((1, 1, 1, 2, 3, 5, 12))
    if draw.chance(0.3):
        return "".join(draw.pick(pool) for _ in range(draw.rng.randint(2, 6)))
    return draw.pick(("", "", " ", "\n")).join([sign] * count)


def flood(draw: Draw) -> str:
    """Very many words that ask for nothing: each another, or a few again and again."""
    pool = draw.pick((words, nouns, names))(Split.TRAIN)
    separator = draw.pick(_SEPARATORS)
    few = [draw.pick(pool) for _ in range(draw.pick((1, 1, 2, 3, 5, 8)))]
    size = max(1, len(encode(separator.join(few) + separator)) // len(few))
    count = draw.rng.randint(60, _LONGEST) // size
    if draw.chance(0.5):
        return separator.join(draw.pick(pool) for _ in range(count * 3 // 4))
    return separator.join(few[number % len(few)] for number in range(count))


def past(draw: Draw, reply: str) -> tuple[Message, ...]:
    """Earlier odd messages, with a reply to each, or with an answer that makes no sense."""
    found: list[Message] = []
    for _ in range(draw.pick((0, 0, 0, 0, 1, 1, 2, 4))):
        asked = draw.pick((_from_frame(draw, draw.pick(_FRAMES)), blank(draw)))
        nonsense = _from_frame(draw, draw.pick(_FRAMES))
        found += (user(asked), final(nonsense if draw.chance(0.3) else reply))
    return tuple(found)


def _from_frame(draw: Draw, frame: str) -> str:
    """A frame with words in place of `{}` and `{0}`, names for `{N}` and numbers for `{n}`."""
    while "{N}" in frame:
        frame = frame.replace("{N}", draw.pick(names(Split.TRAIN)), 1)
    while "{n}" in frame:
        frame = frame.replace("{n}", str(draw.rng.randint(2, 10000)), 1)
    return frame.format(*(_words(draw) for _ in range(4)))


def _words(draw: Draw) -> str:
    return " ".join(draw.pick(words(Split.TRAIN)) for _ in range(draw.pick((1, 1, 1, 2, 3))))
