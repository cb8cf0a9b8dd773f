"""Developer instructions: a language to greet in, words to begin or end with, capitals, a name."""

from collections.abc import Mapping
from dataclasses import dataclass

from demo.skills.case import Case, Draw, Thought, Turn, answer, developer, system, user
from demo.skills.chat import INTENTS, small_talk
from demo.skills.words import Split, person, text_value

GREETINGS = {
    "English": "Hello! How can I help you?",
    "German": "Hallo! Wie kann ich Ihnen helfen?",
    "French": "Bonjour ! Comment puis-je vous aider ?",
    "Spanish": "¡Hola! ¿En qué puedo ayudarle?",
    "Italian": "Ciao! Come posso aiutarti?",
    "Dutch": "Hallo! Hoe kan ik u helpen?",
    "Portuguese": "Olá! Como posso ajudar?",
    "Polish": "Cześć! Jak mogę pomóc?",
}
_FRAMES: Mapping[str, tuple[str, ...]] = {
    "language": (
        "Greet the user in {}.",
        "Always greet in {}.",
        "Answer greetings in {}.",
        "Say hello in {}.",
        "You are a friendly assistant. Greet the user in {}.",
        "When the user says hello, answer in {}.",
        "Your greeting must be in {}.",
        "Speak {} when you greet someone.",
    ),
    "prefix": (
        "Begin every answer with {}.",
        "Start every answer with {}.",
        "Every answer must begin with {}.",
        "Always start your answers with the words {}.",
        "Prefix each answer with {}.",
    ),
    "suffix": (
        "End every answer with {}.",
        "Finish every answer with {}.",
        "Every answer must end with {}.",
        "Always close your answers with the words {}.",
    ),
    "upper": (
        "Answer in upper case.",
        "Answer in capital letters.",
        "Write everything in upper case.",
        "Always use capital letters only.",
        "All answers must be in upper case letters.",
        "Shout: use capital letters for every answer.",
    ),
    "name": (
        "Your name is {}.",
        "You are {}.",
        "You are called {}.",
        "You are {}, a helpful assistant.",
        "You are a helpful assistant. Your name is {}.",
    ),
}
"""How the developer puts each kind of instruction."""

_WHO = ("What is your name?", "Who are you?", "what's your name?", "Tell me your name.",
        "who are you", "And what are you called?", "Introduce yourself.", "May I have your name?",
        "What are you called?", "How should I call you?")  # fmt: skip
_MORE: Mapping[str, tuple[str, ...]] = {
    "language": (
        "Users are greeted in {}.", "If somebody says hi, greet back in {}.",
        "Greetings are in {}.", "A hello from the user is answered in {}.",
        "For greetings, use {}.", "Welcome users in {}.",
        "Whatever language the user writes, your greeting is in {}.",
    ),
    "prefix": (
        "Put {} before every answer.", "Each reply starts with {}.", "Say {} first, then answer.",
        "Your answers begin with {}, always.", "Never answer without {} at the beginning.",
        "The first words of an answer are {}.", "Open each reply with {}.",
    ),
    "suffix": (
        "Put {} after every answer.", "Each reply ends with {}.", "Answer first, then say {}.",
        "Your answers end with {}, always.", "Never answer without {} at the end.",
        "The last words of an answer are {}.", "Add {} to the end of each reply.",
    ),
    "upper": (
        "Use upper case only.", "No small letters in your answers.", "Capitals only, please.",
        "Every letter of an answer is a capital one.", "Reply in ALL CAPS.",
        "CAPITAL LETTERS ONLY.",
        "Write answers as headlines are written: all in capital letters.",
    ),
    "name": (
        "The user knows you as {}.", "You go by the name of {}.", "People call you {}.",
        "Say that you are {} when somebody asks.", "Here your name is {}.", "I call you {}.",
        "You play the part of {}.",
    ),
}  # fmt: skip
_MORE_BEFORE = (
    "Be kind. ", "You help people. ", "Keep it short. ", "You work in an office. ", "Note: ",
    "# Rules\n", "One rule: ", "Mind this: ", "The one thing that matters: ",
)  # fmt: skip
_BEFORE = (
    "",
    "",
    "",
    "You are a helpful assistant. ",
    "Be polite. ",
    "Answer briefly. ",
)


@dataclass(frozen=True, slots=True)
class Rule:
    """An instruction: its kind, the words that matter in it, and how the developer puts it."""

    kind: str
    words: str
    text: str

    def exchange(self, draw: Draw) -> tuple[str, Turn]:
        """A message on which the rule shows, and the turn that follows the rule."""
        talk = tuple(i for i in INTENTS if self.kind != "language" or i.about == "a greeting")
        text, intent = small_talk(draw, talk)
        about = intent.about
        match self.kind:
            case "language":
                reply = GREETINGS[self.words]
            case "prefix":
                reply = f"{self.words} {intent.reply}"
            case "suffix":
                reply = f"{intent.reply} {self.words}"
            case "upper":
                reply = intent.reply.upper()
            case _:
                reply, text, about = f"I am {self.words}.", draw.pick(_WHO), "who I am"
        return text, answer(draw, _thought(about, self.text, reply), reply)


def draw_rule(draw: Draw) -> Rule:
    """Any instruction."""
    kind = draw.pick(
        ("language", "language", "prefix", "prefix", "suffix", "upper", "upper", "name")
    )
    match kind:
        case "language":
            words = draw.pick(tuple(GREETINGS))
        case "prefix" | "suffix":
            words = text_value(draw.rng, draw.split)
        case "upper":
            words = ""
        case _:
            words = person(draw.rng, draw.split)
    training = draw.split is Split.TRAIN
    before = draw.pick((*_BEFORE, *_MORE_BEFORE) if training else _BEFORE)
    frame = draw.pick((*_FRAMES[kind], *_MORE[kind]) if training else _FRAMES[kind])
    return Rule(kind, words, before + frame.format(words))


def case(draw: Draw) -> Case:
    """One instruction, and a message on which it shows."""
    rule = draw_rule(draw)
    text, turn = rule.exchange(draw)
    return Case("instructions", (system(draw), *developer(rule.text), user(text)), (turn,))


def _thought(about: str, text: str, reply: str) -> Thought:
    medium = f"This is {about}, and the instructions say: {text} So I answer that way."
    high = (
        f"1. I read the message: it is {about}. 2. The instructions say: {text} 3. The developer "
        f"stands above the user, so I have to do exactly what was said, and in this answer, too. "
        f"4. I check how that would look: {reply} 5. That is right, and nothing is missing in it. "
        f"6. So I answer that way."
    )
    return Thought(f"{about}.", medium, high)
