"""Facts that the user stated some turns ago."""

from collections.abc import Sequence
from dataclasses import dataclass

from demo.skills import chat
from demo.skills.case import Case, Draw, Thought, Turn, answer, developer, final, system, user
from demo.skills.chat import small_talk
from demo.skills.phrases import worded
from demo.skills.words import Split, names, nouns, person, text_value
from harmony.messages import Message

_TELL = (
    "My {0} is {1}.",
    "my {0} is {1}",
    "The {0} is {1}.",
    "Remember that my {0} is {1}.",
    "Please remember: the {0} is {1}.",
    "Note that the {0} is {1}.",
    "By the way, my {0} is {1}.",
    "Keep in mind that the {0} is {1}.",
    "Hello, my {0} is {1}.",
    "Hi! My {0} is {1}",
)
_ASK = (
    "What is my {0}?",
    "what is the {0}?",
    "What's my {0}?",
    "What was the {0}?",
    "what was my {0} again?",
    "Do you remember my {0}?",
    "Tell me the {0}.",
    "Can you tell me my {0}?",
    "Which {0} did I tell you?",
    "Do you know the {0}?",
    "Remind me of my {0}.",
)
_NAMING = ("My name is {}.", "I am {}.", "I'm {}.", "Call me {}.", "Hi, I am {}.",
           "Hello, my name is {}.", "my name is {}", "Hi! I'm {}")  # fmt: skip
_WHO = ("What is my name?", "Who am I?", "What's my name?", "Do you know my name?",
        "what is my name", "Do you remember my name?", "Tell me my name.")  # fmt: skip
_COMMON = ("favourite colour", "city", "dog", "cat", "job", "hobby", "phone number", "birthday",
           "favourite food", "car", "favourite number", "password", "favourite book", "country",
           "team", "project", "street", "age", "email", "sister", "code word")  # fmt: skip


_COMPOSED = 0.4
_TOLD = (
    "[Hi, |Hello, |Well, |So, |Just so you know, |By the way, |For later: |Note: |Remember: |FYI, |"
    "I want to tell you that |You should know that |I think I said that ||||][my|the|our] {0} [is|"
    "is called|will be|is now|was always|must be|is still] {1}[.|.|!||, just so you know.]",
    "[I|We] [chose|took|picked|have|decided on|settled on|use] {1} [as|for] [my|the|our] {0}[.||!]",
    "[my|the|our] {0}[:| =| -] {1}[.||]",
    "{1} is [my|the|our] {0}[.|!||, remember that.]",
    "[Keep|Hold|Store|Note|Write down|Memorise|Do not forget] [that |this: ||]my {0} is {1}[.||!]",
    "When I ask for [my|the] {0}, [say|it is|the answer is] {1}[.||]",
)
_ASKED = (
    "[So |And |Now ||||][what|which] [is|was] [my|the|our] {0}[?| again?| now?||, please?]",
    "[Do you|Can you|Could you] [still know|recall|remember|tell me|say|repeat] [my|the|our] {0}?",
    "[Tell me|Say|Name|Give me|Remind me of|I forgot] [my|the|our] {0}[.||, please.| again.]",
    "[my|the|our] {0}[?|, please|, what was it?|, do you know it?|...?]",
    "What did I [say|tell you|write] about [my|the|our] {0}?",
    "[I wonder|I cannot remember|I would like to know|Please say] what [my|the|our] {0} [is|was][.|"
    "]",
    "[Someone asks for|I need|They want to know] [my|the|our] {0}[.|: what is it?|, which is?]",
)


@dataclass(frozen=True, slots=True)
class Fact:
    """A fact about the user: its subject and its value."""

    about: str
    value: str

    @property
    def noted(self) -> str:
        """The answer to the statement of the fact."""
        if self.about == "name":
            return f"Nice to meet you, {self.value}!"
        return f"Noted: your {self.about} is {self.value}."

    @property
    def recalled(self) -> str:
        """The answer to the question for the fact."""
        return f"Your {self.about} is {self.value}."


def draw_fact(draw: Draw, taken: Sequence[str]) -> Fact:
    """A fact about something that is not among `taken`."""
    while True:
        fact = _draw_fact(draw)
        if fact.about not in taken:
            return fact


def _draw_fact(draw: Draw) -> Fact:
    roll = draw.rng.random()
    if roll < 0.25:
        return Fact("name", person(draw.rng, draw.split))
    about = draw.pick(_COMMON if roll < 0.55 else nouns(draw.split))
    if draw.chance(0.2):
        return Fact(about, str(draw.rng.randint(1, 9999)))
    if draw.chance(0.3):
        return Fact(about, draw.pick(names(draw.split)))
    return Fact(about, text_value(draw.rng, draw.split))


def statement(draw: Draw, fact: Fact) -> str:
    """A sentence of the user that states the fact."""
    if fact.about == "name":
        return draw.pick(_NAMING).format(fact.value)
    if draw.split is Split.TRAIN and draw.chance(_COMPOSED):
        return worded(draw, draw.pick(_TOLD)).format(fact.about, fact.value)
    return draw.pick(_TELL).format(fact.about, fact.value)


def asked(draw: Draw, fact: Fact) -> str:
    """A question of the user for the fact."""
    if draw.split is Split.TRAIN and draw.chance(_COMPOSED):
        return worded(draw, draw.pick(_ASKED)).format(fact.about)
    return draw.pick(_WHO) if fact.about == "name" else draw.pick(_ASK).format(fact.about)


def untold(draw: Draw, taken: Sequence[str]) -> tuple[Message, tuple[Turn, ...]]:
    """A question for a fact that was not told, and the turn that says so."""
    about = draw_fact(draw, taken).about
    text = f"You have not told me your {about}."
    turn = answer(draw, _thought(about, text), text)
    return user(asked(draw, Fact(about, ""))), (turn,)


def _thought(about: str, text: str) -> Thought:
    medium = f"The user speaks of the {about}. I look back at what was said about it: {text}"
    high = (
        f"{medium} I go through the whole conversation once more, from its beginning to its end, "
        f"to be sure that it was not changed later on. It was not. No tool is needed. So the "
        f"answer is this: {text}"
    )
    return Thought(f"The {about}.", medium, high)


def noting(draw: Draw, fact: Fact) -> Turn:
    """The turn that acknowledges a fact."""
    return answer(draw, _thought(fact.about, fact.noted), fact.noted)


def recalling(draw: Draw, fact: Fact) -> Turn:
    """The turn that recalls a fact."""
    return answer(draw, _thought(fact.about, fact.recalled), fact.recalled)


def case(draw: Draw) -> Case:
    """One to four facts, small talk between them, then a question or another fact."""
    facts: list[Fact] = []
    messages: list[Message] = []
    for _ in range(draw.pick((1, 1, 2, 2, 3, 4))):
        fact = draw_fact(draw, [f.about for f in facts])
        facts.append(fact)
        messages += (user(statement(draw, fact)), final(fact.noted))
        if draw.chance(0.3):
            text, intent = small_talk(draw)
            messages += (user(text), final(intent.reply))
    instructions = chat.idle_instructions(draw)
    start = (system(draw), *developer(instructions))
    if draw.chance(0.2):
        fact = draw_fact(draw, [f.about for f in facts])
        turn = noting(draw, fact)
        past = messages if draw.chance(0.5) else []
        return Case(
            "recall", (*start, *past, user(statement(draw, fact))), (turn,), teach_history=True
        )
    if draw.chance(0.1):
        question, turns = untold(draw, [f.about for f in facts])
        return Case("recall", (*start, *messages, question), turns, teach_history=True)
    fact = draw.pick(facts)
    history = (*start, *messages, user(asked(draw, fact)))
    return Case("recall", history, (recalling(draw, fact),), teach_history=True)
