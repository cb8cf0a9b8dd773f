"""Small talk: greetings, thanks, who it is, what it can and cannot do."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from demo.skills.case import Case, Draw, Thought, Turn, answer, developer, final, system, user
from demo.skills.catalogue.files import blocks, read
from demo.skills.phrases import capital
from demo.skills.words import split_of, text_value, words
from harmony.messages import Message


@dataclass(frozen=True, slots=True)
class Intent:
    """What a user may want in small talk: what it is called, how it is put, what is answered.

    kind: how the message ends, a key of `_ENDINGS`.
    """

    about: str
    openers: Sequence[str]
    kind: str
    reply: str


_QUESTION = ("", "?", "?", "??", " then?", " really?", ", please?", " by the way?", " exactly?")
_ENDINGS = {
    "statement": ("", "", ".", "!", "?", " please", " :)", "...", ", friend", " now", "!!"),
    "question": _QUESTION,
    "either": (*_QUESTION, "!", "."),
}
_TELL = ("", "tell me, ", "so, ", "hi, ", "hello, ", "hey, ", "please tell me, ", "ok, ", "well, ")


def _intents() -> Iterator[Intent]:
    """The intents in `demo/data/small_talk.txt`."""
    for head, *openers, reply in blocks(read("small_talk.txt")):
        about, kind = head.split(": ")
        yield Intent(about, tuple(" | ".join(openers).split(" | ")), kind, reply)


INTENTS = tuple(_intents())

_IDLE = (
    "You are an assistant for {}.",
    "You help people with {}.",
    "You are an expert in {}.",
    "You work for {}. Be polite.",
    "This is a conversation about {}.",
    "You are a coding agent for {}. Be concise.",
    "Use plain words. The topic is {}.",
)
_RULES = (
    "Always mind the",
    "Never touch the",
    "- Prefer",
    "- Avoid",
    "Be careful with the",
    "# The",
)


def small_talk(draw: Draw, intents: Sequence[Intent] = INTENTS) -> tuple[str, Intent]:
    """A user's text and the intent behind it."""
    while True:
        intent = draw.pick(intents)
        opener = draw.pick(intent.openers)
        before = draw.pick(_TELL) if intent.kind == "question" and draw.chance(0.4) else ""
        text = before + opener + draw.pick(_ENDINGS[intent.kind])
        text = draw.pick((text, text, capital(text), capital(text)))
        text = text.upper() if draw.chance(0.03) else text
        if split_of(text) is draw.split:
            return text, intent


def thought(about: str, reply: str) -> Thought:
    """Reasoning before a short answer."""
    medium = f"This is {about}. No tool is needed, so I simply answer it in a friendly way."
    high = (
        f"1. I read the message: it is {about}. 2. No tool is needed, so I simply answer it in a "
        f"friendly way. 3. I look at the instructions once more, and there is nothing else that I "
        f"have to keep in mind here. 4. The answer should be short. 5. I will say this: {reply}"
    )
    return Thought(f"{about}.", medium, high)


def reply(draw: Draw, intent: Intent) -> Turn:
    """The turn that answers an intent."""
    return answer(draw, thought(intent.about, intent.reply), intent.reply)


def past_talk(draw: Draw, exchanges: int) -> tuple[Message, ...]:
    """Earlier small talk, as it stands in a history."""
    messages: list[Message] = []
    for _ in range(exchanges):
        text, intent = small_talk(draw)
        messages += (user(text), final(intent.reply))
    return tuple(messages)


def idle_instructions(draw: Draw) -> str | None:
    """Developer instructions that change nothing about the answer, some of them long."""
    if draw.chance(0.7):
        return draw.pick((None, None, None, "You are a helpful assistant.", "Answer briefly."))
    topic = text_value(draw.rng, draw.split)
    if draw.chance(0.7):
        return draw.pick(_IDLE).format(topic)
    count = draw.rng.randint(5, 60)
    rules = (f"{draw.pick(_RULES)} {draw.pick(words(draw.split))}." for _ in range(count // 3))
    return "\n".join([draw.pick(_IDLE).format(topic), *rules])


def case(draw: Draw) -> Case:
    """Small talk, mostly at the beginning, sometimes after other small talk."""
    past = past_talk(draw, draw.pick((0, 0, 0, 1, 2, 3)))
    text, intent = small_talk(draw)
    history = (system(draw), *developer(idle_instructions(draw)), *past, user(text))
    return Case("chat", history, (reply(draw, intent),), teach_history=True)
