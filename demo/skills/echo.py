"""Echoes: what the user gives, a count, or the last answer once more, whole or a part of it.

In training most wishes to hear it again are composed. The evaluation has wordings of its own.
"""

import re
from collections.abc import Sequence

from demo.skills.case import Case, Draw, Exchange, answer, final, system, user
from demo.skills.catalogue import spans
from demo.skills.chat import past_talk, thought
from demo.skills.phrases import capital, worded
from demo.skills.words import Split, names, nouns, person, text_value
from harmony.messages import Message
from harmony.tools import BROWSER, PYTHON

_PASSAGES, _DOUBLED = 0.2, 0.2
_COMPOSED = 0.7
_ECHO = ("say {}", "repeat: {}", "repeat after me: {}", "echo {}", "say the words {}", "write {}",
         "please say {}", "just say {}", "answer with {}", "reply with {}", "respond with: {}",
         "say exactly: {}", "only reply with {}", "print {}", "type {}")  # fmt: skip
_COUNT = ("count to {}", "count from 1 to {}", "count up to {}")
_ASKED_BEFORE = ("What about", "How is", "Where is", "What is", "Tell me about")
_REPEAT = {
    Split.TRAIN: ("repeat that", "say that again", "what did you say", "once again", "pardon"),
    Split.HELD_OUT: ("can you repeat that", "say it again"),
}
_REPEAT_PART = {
    Split.TRAIN: ("just the {}", "only the {}, please", "what was the {}", "and the {} alone"),
    Split.HELD_OUT: ("repeat only the {}", "give me only the {}"),
}

_END = "[||.|?|, please|!|, thanks]"
_WHOLE = (
    "[say|tell me|write|show me|send|read out|print|state] [that|this|the answer|the last sentence|"
    "your answer|what you said|the last message] [again|once more|another time|"
    "a second time]" + _END,
    "[pardon|come again|what|sorry|excuse me|huh|say what|how was that|once more|again|I beg your "
    "pardon|what was that|what did you say|and again|what did I just read]" + _END,
    "I [did not hear|missed|did not get|forgot|could not read|did not catch] [that|what you said|"
    "the answer|your answer|the last part]" + _END,
    "[repeat|recite|restate|echo|copy] [your answer|what you said|the last line|your words|the "
    "last answer|yourself|this|your message|the sentence]" + _END,
    "[please |could you ][answer|write|read|tell me|send] [that|this] [again|anew|a second time]"
    + _END,
    "[your last answer|the last thing you said|the same answer], [again|once more|please|word by "
    "word]" + _END,
)
_PART = (
    "[just|only|nothing but|no more than|simply|merely] the {}" + _END,
    "[what|which] {} was [it|that|there|in it]" + _END,
    "what [is|was] the {}[| again| in that| you said| there]" + _END,
    "[tell me|name|write|say|I need|I want|send|show me|extract|pick out|I only want|read out] "
    "[just |only |nothing but ||]the {}[| alone| again| by itself| without the rest|"
    " of that]" + _END,
    "[and |so ||]the {} [again|alone|only|is enough|by itself|will do]" + _END,
    "[no sentence|without words|in short|shorter|less text|skip the rest], [just|"
    "only] the {}" + _END,
    "[repeat|copy|echo] [just|nothing but] the {}" + _END,
    "[leave out all but the {}|reduce that to the {}|{} only|the {} without the rest]" + _END,
)
_ABOUT = ("What about {}?", "How is {}?", "Where is {}?", "What is {}?", "Tell me about {}.",
          "And {}?", "What do you know about {}?", "Any news of {}?", "Who has {}?")  # fmt: skip
_STATEMENTS = (
    "[The|My|Your|Our] {thing} [is|was|costs|weighs|has|shows] {number}[|||| euros].",
    "[It|That|This] [is|was|makes|costs] {number}.",
    "{name} [has|is at|owns|wants|got|paid|needs|holds] {number}[| {noun}].",
    "[The {noun} of|The answer of] {name} is {number}.",
    "{number} [belongs to|is for|was sent by|goes to] {name}.",
    "[The result|The value|The total|The score] [is|was] {number}[| for {name}].",
    "[It was|That is|I saw] {name}[| with {number}| at {number}| in the {noun}].",
    "There are {number} {noun}[| for {name}| with {name}].",
    "[{number}|{number} {thing}|{time}|{name}|{date}]",
    "{name} called {other} at {time}.",
    "[On {date} the {thing} opens at {time}|The {thing} begins on {date}].",
    "[{name} lives in {place}|{place} has {number} inhabitants|{number} of them are in {place}].",
    "[Done: {number} files were moved to {place}|It takes {number} minutes to {place}].",
    "The {thing} was sold to {name} for {number}.",
    "[Your code is {number}. Keep it, {name}|Your {thing} is with {name}, in room {number}].",
)
_LOOPED = 0.15
"""How often the answer in the history says the same several times, as a model in a loop does. It is
said once then: a model that copies all of it seldom ends."""

_NUMBER = re.compile(r"\d+(?:\.\d+)?")


def case(draw: Draw) -> Case:
    """Say what the user says, or what was said before, or count to a number."""
    if draw.chance(0.35):
        return repeating(draw)
    if draw.chance(0.25):
        last = draw.rng.randint(1, 20)
        text = draw.pick(_COUNT).format(last)
        words = ", ".join(str(n) for n in range(1, last + 1))
        turn = answer(draw, thought("a wish to hear me count", words), words)
    else:
        words, said = _words(draw)
        text = draw.pick(_ECHO).format(said)
        turn = answer(draw, thought("a wish to hear some words", words), words)
    text = draw.pick((text, capital(text))) + draw.pick(("", "", "."))
    past = past_talk(draw, draw.pick((0, 0, 1)))
    return Case("echo", (system(draw), *past, user(text)), (turn,), teach_history=True)


def _words(draw: Draw) -> tuple[str, str]:
    """Words that are to be said, and how a request gives them."""
    words = person(draw.rng, draw.split) if draw.chance(0.2) else text_value(draw.rng, draw.split)
    if draw.split is Split.TRAIN and draw.chance(_DOUBLED):
        words = _doubled(draw, words)
    if draw.split is Split.TRAIN and draw.chance(_PASSAGES):
        passage = spans.passage(draw)
        return passage, spans.quoted(draw, passage)
    return words, words


def _doubled(draw: Draw, text: str) -> str:
    """Words with some of them said more than once, which are to be echoed as often as that."""
    parts = [part for word in text.split() for part in [word] * draw.pick((1, 1, 2, 3))]
    return " ".join(parts if draw.chance(0.5) else text.split() * draw.rng.randint(2, 4))


def repeating(draw: Draw) -> Case:
    """Say the last answer again, or only a part of it, such as the number or the name."""
    if draw.split is Split.TRAIN and draw.chance(_COMPOSED):
        past, [(request, turns)] = heard(draw, 1)
        hosted = draw.pick(((), (), (), (PYTHON,), (BROWSER,), (BROWSER, PYTHON)))
        earlier = past_talk(draw, draw.pick((0, 0, 0, 1, 2)))
        return Case("echo", (system(draw, hosted), *earlier, *past, request), turns)
    number, name = str(draw.rng.randint(0, 9999)), person(draw.rng, draw.split)
    thing = text_value(draw.rng, draw.split)
    said = draw.pick((f"The {thing} is {number}.", f"It is {number}.", f"{name} has {number}.",
                      f"The result is {number}.", f"{name} is at {number}."))  # fmt: skip
    parts = {"number": number, "name": name} if name in said else {"number": number}
    part = draw.pick(list(parts)) if draw.chance(0.6) else None
    wanted = said if part is None else parts[part]
    asked = draw.pick((_REPEAT if part is None else _REPEAT_PART)[draw.split]).format(part)
    text = draw.pick((asked, capital(asked))) + draw.pick(("", ".", ""))
    past = (user(f"{draw.pick(_ASKED_BEFORE)} {thing}?"), final(said))
    turn = answer(draw, thought("a wish to hear it again", wanted), wanted)
    return Case("echo", (system(draw), *past, user(text)), (turn,))


def repeated(draw: Draw, said: str) -> Exchange:
    """The wish to hear what was said again, or the only number in it, and the answer."""
    numbers = _NUMBER.findall(said)
    if len(numbers) == 1 and numbers[0] != said and draw.chance(0.5):
        return _part(draw, "number", numbers[0])
    return _whole(draw, said)


def _part(draw: Draw, kind: str, value: str) -> Exchange:
    """The wish to hear a part of what was said alone, and the answer."""
    return _wish(draw, worded(draw, draw.pick(_PART)).format(kind), value)


def _whole(draw: Draw, said: str) -> Exchange:
    return _wish(draw, worded(draw, draw.pick(_WHOLE)), said)


def _wish(draw: Draw, text: str, wanted: str) -> Exchange:
    text = draw.pick((text, capital(text)))
    return user(text), (answer(draw, thought("a wish to hear it again", wanted), wanted),)


def heard(draw: Draw, count: int) -> tuple[Sequence[Message], list[Exchange]]:
    """A question and a statement as they stand in a history, then `count` wishes about it.

    A whole answer to be repeated is the last one, once if it says the same several times; parts are
    those of the statement.
    """
    rng, split = draw.rng, draw.split
    thing = text_value(rng, split)
    parts = {
        "number": str(rng.randint(0, 10 ** rng.randint(1, 8))),
        "name": person(rng, split),
        "time": f"{rng.randint(0, 23)}:{rng.randint(0, 59):02}",
        "date": f"{rng.randint(1, 28)}.{rng.randint(1, 12)}.{rng.randint(1990, 2035)}",
        "place": draw.pick(names(split)),
    }
    form = worded(draw, draw.pick(_STATEMENTS))
    other, noun = person(rng, split), draw.pick(nouns(split))
    said = form.format(thing=thing, noun=noun, other=other, **parts)
    known = [kind for kind in parts if f"{{{kind}}}" in form]
    exchanges: list[Exchange] = []
    last = said
    for _ in range(count):
        if known and draw.chance(0.6):
            kind = draw.pick(known)
            last = parts[kind]
            exchanges.append(_part(draw, kind, last))
        else:
            exchanges.append(_whole(draw, last))
    times = rng.randint(2, 6) if draw.chance(_LOOPED) else 1
    # Copies with nothing between them are a longer number or word where no full stop ends them.
    between = ("", " ", "\n") if said.endswith(".") else (" ", "\n")
    shown = draw.pick(between).join([said] * times)
    return (user(draw.pick(_ABOUT).format(thing)), final(shown)), exchanges
