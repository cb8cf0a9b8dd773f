"""Small talk: greetings, thanks, who it is, what it can and cannot do."""

from collections.abc import Sequence
from dataclasses import dataclass

from demo.skills.case import Case, Draw, Thought, Turn, answer, developer, final, system, user
from demo.skills.catalogue import spans
from demo.skills.words import Split, names, person, split_of, text_value, words
from harmony.messages import Message
from harmony.tools import BROWSER, PYTHON


@dataclass(frozen=True, slots=True)
class Intent:
    """What a user may want in small talk: what it is called, how it is put, what is answered."""

    about: str
    openers: Sequence[str]
    endings: Sequence[str]
    reply: str


_END = ("", "", ".", "!", "?", " please", " :)", "...", ", friend", " now", "!!")
_ASKING = ("", "?", "?", "??", " then?", " really?", ", please?", " by the way?", " exactly?")
_TELL = ("", "tell me, ", "so, ", "hi, ", "hello, ", "hey, ", "please tell me, ", "ok, ", "well, ")

INTENTS: tuple[Intent, ...] = (
    Intent(
        "a greeting",
        (
            "hi",
            "hello",
            "hey",
            "good morning",
            "good evening",
            "good afternoon",
            "good day",
            "hi there",
            "hello there",
            "hey there",
            "howdy",
            "greetings",
            "hiya",
            "hello you",
            "hi computer",
            "hello model",
            "hey bot",
            "nice to meet you",
            "hello again",
            "hi again",
        ),
        _END,
        "Hello! How can I help you?",
    ),
    Intent(
        "how I am",
        (
            "how are you",
            "how are you doing",
            "how do you do",
            "how is it going",
            "how's life",
            "are you well",
            "how do you feel",
            "how are things",
            "how's it going",
            "are you ok",
        ),
        _ASKING,
        "I am fine, thank you. How can I help you?",
    ),
    Intent(
        "thanks",
        (
            "thanks",
            "thank you",
            "thanks a lot",
            "thank you very much",
            "many thanks",
            "thx",
            "thank you so much",
            "great, thanks",
            "thanks for that",
            "thanks for your help",
            "ok, thank you",
            "perfect, thanks",
            "cheers",
            "that helps, thanks",
            "much appreciated",
        ),
        _END,
        "You are welcome!",
    ),
    Intent(
        "a farewell",
        (
            "bye",
            "goodbye",
            "bye bye",
            "see you",
            "see you later",
            "good night",
            "farewell",
            "until tomorrow",
            "I have to go",
            "that is all, bye",
            "see you soon",
            "take care",
        ),
        _END,
        "Goodbye!",
    ),
    Intent(
        "who I am",
        (
            "who are you",
            "what are you",
            "what is your name",
            "what's your name",
            "your name",
            "which model are you",
            "what model are you",
            "introduce yourself",
            "who am I talking to",
            "tell me who you are",
            "tell me about yourself",
            "what model is this",
            "are you a bot",
            "what kind of model are you",
            "who is this",
            "describe yourself",
            "are you an AI",
        ),
        _ASKING,
        "I am the tiny demo model of gpt-oss-server, made for trying it out.",
    ),
    Intent(
        "who made me",
        (
            "who made you",
            "who built you",
            "who trained you",
            "where do you come from",
            "who created you",
            "who is your maker",
            "how were you made",
            "how were you trained",
            "what were you trained on",
            "who wrote you",
        ),
        _ASKING,
        "I was trained from nothing as the tiny demo model of gpt-oss-server.",
    ),
    Intent(
        "whether I am ChatGPT",
        (
            "are you ChatGPT",
            "are you GPT-4",
            "are you gpt-oss",
            "are you gpt-oss-20b",
            "are you made by OpenAI",
            "is this ChatGPT",
            "are you a large language model",
            "are you a real model",
            "are you the big model",
            "are you gpt-oss-120b",
        ),
        _ASKING,
        "No, I am only the tiny demo model of gpt-oss-server.",
    ),
    Intent(
        "what I can do",
        (
            "what can you do",
            "what can you do for me",
            "what are you able to do",
            "help",
            "how can you help me",
            "what are your skills",
            "what do you know",
            "can you help me",
            "what can I ask you",
            "what are you good at",
            "show me what you can do",
            "I need help",
            "what are your abilities",
            "how can you help",
            "what are you for",
        ),
        _ASKING,
        "I can chat a little, remember what you tell me, call tools, answer in JSON and do small "
        "sums. I am only a tiny demo model.",
    ),
    Intent(
        "what I cannot do",
        (
            "what can't you do",
            "what can you not do",
            "what are your limits",
            "are you smart",
            "what are your weaknesses",
            "what are you bad at",
            "what don't you know",
            "are you big",
            "how big are you",
            "how many parameters do you have",
            "how large are you",
            "how clever are you",
            "what are your limitations",
            "can you do everything",
            "what is beyond you",
            "is there anything you cannot do",
            "do you know everything",
        ),
        _ASKING,
        "I am tiny, a demo model of a few million parameters, so I know next to nothing about the "
        "world and cannot write or explain things.",
    ),
    Intent(
        "a test",
        (
            "test",
            "ping",
            "testing",
            "this is a test",
            "are you there",
            "do you work",
            "is this on",
            "anyone there",
            "can you hear me",
            "just testing",
            "are you working",
            "is anybody there",
            "do you hear me",
            "1 2 3 test",
            "test message",
        ),
        (*_ASKING, "!", "."),
        "Yes, I am here and I work.",
    ),
    Intent(
        "praise",
        (
            "well done",
            "good job",
            "great",
            "nice",
            "very good",
            "you are great",
            "awesome",
            "good work",
            "I like you",
            "that was good",
            "cool",
            "wonderful",
            "excellent",
        ),
        _END,
        "Thank you, I am glad to hear that.",
    ),
    Intent(
        "a word of assent",
        (
            "ok",
            "okay",
            "yes",
            "no",
            "all right",
            "fine",
            "sure",
            "I see",
            "understood",
            "right",
            "got it",
            "never mind",
            "sorry",
            "maybe",
            "hmm",
        ),
        _END,
        "All right. What would you like to do?",
    ),
)


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
        before = draw.pick(_TELL) if intent.endings is _ASKING and draw.chance(0.4) else ""
        text = before + opener + draw.pick(intent.endings)
        text = draw.pick((text, text, text[0].upper() + text[1:], text[0].upper() + text[1:]))
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


_PASSAGES = 0.2
_ECHO = ("say {}", "repeat: {}", "repeat after me: {}", "echo {}", "say the words {}", "write {}",
         "please say {}", "just say {}", "answer with {}", "reply with {}", "respond with: {}",
         "say exactly: {}", "only reply with {}", "print {}", "type {}")  # fmt: skip


_ASKED_BEFORE = ("What about", "How is", "Where is", "What is", "Tell me about")
_REPEAT = {
    Split.TRAIN: ("repeat that", "say that again", "what did you say", "once again", "pardon"),
    Split.HELD_OUT: ("can you repeat that", "say it again"),
}
_REPEAT_PART = {
    Split.TRAIN: ("just the {}", "only the {}, please", "what was the {}", "and the {} alone"),
    Split.HELD_OUT: ("repeat only the {}", "give me only the {}"),
}


_ANSWERS = (
    "The {thing} is {number}.", "The result is {number}.", "It is {number}.", "{number}",
    "{name} has {number}.", "{name} is at {number}.", "{name} called {other} at {time}.",
    "The {thing} costs {number} euros.", "On {date} the {thing} opens at {time}.",
    "{number} of them are in {place}.", "You have {number} new messages.",
    "{name} lives in {place}.",
    "The {thing} was sold to {name} for {number}.", "{place} has {number} inhabitants.",
    "Your code is {number}. Keep it, {name}.", "The {thing} begins on {date}.",
    "Done: {number} files were moved to {place}.", "There are {number} in all.",
    "I set the {thing} to {number}.", "It takes {number} minutes to {place}.",
    "{name} has won with {number} points.", "Your {thing} is with {name}, in room {number}.",
    "That makes {number}.", "The word is {thing}.", "{time}", "{name}", "{number} {thing}",
)  # fmt: skip
_AGAIN = (
    "repeat that", "say that again", "what did you say", "once again", "pardon", "one more time",
    "say it once more", "please repeat", "repeat your answer", "again please", "I did not get that",
    "could you say that again", "come again", "what was that", "repeat it word for word", "sorry?",
    "your last answer once more", "please say that one more time", "repeat the whole answer",
)  # fmt: skip
_ONLY = (
    "just the {}", "only the {}, please", "what was the {}", "and the {} alone", "the {}?",
    "say only the {}", "tell me only the {}", "the {} again, please", "just give the {}",
    "say the {} once more", "which {} was it", "could you repeat just the {}", "only the {}",
    "I only need the {}", "answer with the {} alone", "now the {} and nothing else", "{} only",
    "nothing but the {}", "the {} without the rest", "please repeat the {}",
    "leave out all but the {}",
    "what {} did you say", "write the {} alone", "reduce that to the {}", "once more, the {} only",
)  # fmt: skip


def _asked_again(draw: Draw) -> Case:
    """As `repeating`, in many more wordings: for training alone."""
    rng, split = draw.rng, draw.split
    said_by = {
        "number": str(rng.randint(0, 10 ** rng.randint(1, 8))),
        "name": person(rng, split),
        "time": f"{rng.randint(0, 23)}:{rng.randint(0, 59):02}",
        "date": f"{rng.randint(1, 28)}.{rng.randint(1, 12)}.{rng.randint(1990, 2035)}",
        "place": draw.pick(names(split)),
    }
    template = draw.pick(_ANSWERS)
    thing = text_value(rng, split)
    said = template.format(thing=thing, other=person(rng, split), **said_by)
    parts = [kind for kind in said_by if f"{{{kind}}}" in template]
    part = draw.pick(parts) if parts and draw.chance(0.65) else None
    wanted = said if part is None else said_by[part]
    asked = draw.pick(_AGAIN) if part is None else draw.pick(_ONLY).format(part)
    text = draw.pick((asked, asked[0].upper() + asked[1:])) + draw.pick(("", ".", "", "!"))
    past = (user(f"{draw.pick(_ASKED_BEFORE)} {thing}?"), final(said))
    hosted = draw.pick(((), (), (), (PYTHON,), (BROWSER,), (BROWSER, PYTHON)))
    turn = answer(draw, thought("a wish to hear it again", wanted), wanted)
    earlier = past_talk(draw, draw.pick((0, 0, 0, 1, 2)))
    return Case("echo", (system(draw, hosted), *earlier, *past, user(text)), (turn,))


def repeating(draw: Draw) -> Case:
    """Say the last answer again, or only the number or the name in it."""
    if draw.split is Split.TRAIN and draw.chance(0.7):
        return _asked_again(draw)
    number, name = str(draw.rng.randint(0, 9999)), person(draw.rng, draw.split)
    thing = text_value(draw.rng, draw.split)
    said = draw.pick((f"The {thing} is {number}.", f"It is {number}.", f"{name} has {number}.",
                      f"The result is {number}.", f"{name} is at {number}."))  # fmt: skip
    parts = {"number": number, "name": name} if name in said else {"number": number}
    part = draw.pick(list(parts)) if draw.chance(0.6) else None
    wanted = said if part is None else parts[part]
    asked = draw.pick((_REPEAT if part is None else _REPEAT_PART)[draw.split]).format(part)
    text = draw.pick((asked, asked[0].upper() + asked[1:])) + draw.pick(("", ".", ""))
    past = (user(f"{draw.pick(_ASKED_BEFORE)} {thing}?"), final(said))
    turn = answer(draw, thought("a wish to hear it again", wanted), wanted)
    return Case("echo", (system(draw), *past, user(text)), (turn,))


def _doubled(draw: Draw, text: str) -> str:
    """Words with some of them said more than once, which are to be echoed as often as that."""
    parts = [part for word in text.split() for part in [word] * draw.pick((1, 1, 2, 3))]
    return " ".join(parts if draw.chance(0.5) else text.split() * draw.rng.randint(2, 4))


def echo(draw: Draw) -> Case:
    """Say what the user says, or what was said before, or count to a number."""
    if draw.chance(0.35):
        return repeating(draw)
    if draw.chance(0.25):
        last = draw.rng.randint(1, 20)
        text = draw.pick(("count to {}", "count from 1 to {}", "count up to {}")).format(last)
        words = ", ".join(str(n) for n in range(1, last + 1))
        turn = answer(draw, thought("a wish to hear me count", words), words)
    else:
        words = (
            person(draw.rng, draw.split) if draw.chance(0.2) else text_value(draw.rng, draw.split)
        )
        if draw.split is Split.TRAIN and draw.chance(0.2):
            words = _doubled(draw, words)
        said = words
        if draw.split is Split.TRAIN and draw.chance(_PASSAGES):
            words = spans.passage(draw)
            said = spans.quoted(draw, words)
        text = draw.pick(_ECHO).format(said)
        turn = answer(draw, thought("a wish to hear some words", words), words)
    text = draw.pick((text, text[0].upper() + text[1:])) + draw.pick(("", "", "."))
    past = past_talk(draw, draw.pick((0, 0, 1)))
    return Case("echo", (system(draw), *past, user(text)), (turn,), teach_history=True)
