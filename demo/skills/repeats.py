"""Wishes to hear the last answer again, or a part of what was said, in composed wordings.

For training alone: the evaluation has such wishes among its echoes (`demo.skills.chat`).
"""

import re
from collections.abc import Sequence

from demo.skills.case import Draw, Turn, answer, final, user
from demo.skills.chat import thought
from demo.skills.phrases import worded
from demo.skills.words import nouns, person, text_value
from harmony.messages import Message

_END = "[||.|?|, please|!|, thanks]"
_WHOLE = (
    "[say|tell me|write|show me|send|read out|print|state] [that|this|the answer|the last sentence|"
    "your answer|what you said|the last message] [again|once more|another time"
    "|a second time]" + _END,
    "[pardon|come again|what|sorry|excuse me|huh|say what|how was that|once more|again|I beg your "
    "pardon|what was that|what did you say|and again|what did I just read]" + _END,
    "I [did not hear|missed|did not get|forgot|could not read|did not catch] [that|what you said|"
    "the answer|your answer|the last part]" + _END,
    "[repeat|recite|restate|echo|copy] [your answer|what you said|the last line|your words"
    "|the last "
    "answer|yourself|this|your message|the sentence]" + _END,
    "[please |could you ][answer|write|read|tell me|send] [that|this] [again|anew|a second time]"
    + _END,
    "[your last answer|the last thing you said|the same answer], [again|once more|please|word by "
    "word]" + _END,
)
_PART = (
    "[just|only|nothing but|no more than|simply|merely] the {}" + _END,
    "[what|which] {} was [it|that|there|in it]" + _END,
    "what [is|was] the {}[| again| in that| you said| there]" + _END,
    "[tell me|name|write|say|I need|I want|send|show me|extract|pick out|I only want"
    "|read out] [just"
    " |only |nothing but ||]the {}[| alone| again| by itself| without the rest| of that]" + _END,
    "[and |so ||]the {} [again|alone|only|is enough|by itself|will do]" + _END,
    "[no sentence|without words|in short|shorter|less text|skip the rest], [just"
    "|only] the {}" + _END,
    "[repeat|copy|echo] [just|nothing but] the {}" + _END,
)
_ABOUT = ("What about {}?", "How is {}?", "Where is {}?", "What is {}?", "Tell me about {}.",
          "And {}?", "What do you know about {}?", "Any news of {}?", "Who has {}?")  # fmt: skip
_STATEMENTS = (
    "[The|My|Your|Our] {thing} [is|was|costs|weighs|has|shows] {number}.",
    "[It|That|This] [is|was|makes|costs] {number}.",
    "{name} [has|is at|owns|wants|got|paid|needs|holds] {number}[| {noun}].",
    "[The {noun} of|The answer of] {name} is {number}.",
    "{number} [belongs to|is for|was sent by|goes to] {name}.",
    "[The result|The value|The total|The score] [is|was] {number}[| for {name}].",
    "[It was|That is|I saw] {name}[| with {number}| at {number}| in the {noun}].",
    "There are {number} {noun}[| for {name}| with {name}].",
)
_LOOPED = 0.15
"""How often the answer in the history says the same several times, as a model in a loop does. It is
said once then: a model that copies all of it seldom ends."""

_NUMBER = re.compile(r"\d+(?:\.\d+)?")

Exchange = tuple[Message, tuple[Turn, ...]]


def repeated(draw: Draw, said: str) -> Exchange:
    """The wish to hear what was said again, or the only number in it, and the answer."""
    numbers = _NUMBER.findall(said)
    if len(numbers) == 1 and numbers[0] != said and draw.chance(0.5):
        return part(draw, "number", numbers[0])
    return _exchange(draw, worded(draw, draw.pick(_WHOLE)), said)


def part(draw: Draw, kind: str, value: str) -> Exchange:
    """The wish to hear a part of what was said alone, and the answer."""
    return _exchange(draw, worded(draw, draw.pick(_PART)).format(kind), value)


def _exchange(draw: Draw, text: str, wanted: str) -> Exchange:
    text = draw.pick((text, text[0].upper() + text[1:]))
    turn = answer(draw, thought("a wish to hear it again", wanted), wanted)
    return user(text), (turn,)


def heard(draw: Draw, count: int) -> tuple[Sequence[Message], list[Exchange]]:
    """A question and a statement as they stand in a history, then `count` wishes about it.

    A whole answer to be repeated is the last one, once if it says the same several times; parts are
    those of the statement.
    """
    thing = text_value(draw.rng, draw.split)
    parts = {"number": str(draw.rng.randint(0, 9999)), "name": person(draw.rng, draw.split)}
    form = worded(draw, draw.pick(_STATEMENTS))
    said = form.format(thing=thing, noun=draw.pick(nouns(draw.split)), **parts)
    known = [kind for kind in parts if f"{{{kind}}}" in form]
    exchanges: list[Exchange] = []
    last = said
    for _ in range(count):
        if known and draw.chance(0.6):
            kind = draw.pick(known)
            last = parts[kind]
            exchanges.append(part(draw, kind, last))
        else:
            exchanges.append(_exchange(draw, worded(draw, draw.pick(_WHOLE)), last))
    times = draw.rng.randint(2, 6) if draw.chance(_LOOPED) else 1
    shown = draw.pick(("", " ", "\n")).join([said] * times)
    return (user(draw.pick(_ABOUT).format(thing)), final(shown)), exchanges
