"""Developer instructions: a language to greet in, words to begin or end with, capitals, a name."""

from demo.skills.case import Case, Draw, Thought, answer, developer, system, user
from demo.skills.chat import INTENTS, small_talk
from demo.skills.words import person, text_value

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
_LANGUAGE = (
    "Greet the user in {}.",
    "Always greet in {}.",
    "Answer greetings in {}.",
    "Say hello in {}.",
    "You are a friendly assistant. Greet the user in {}.",
    "When the user says hello, answer in {}.",
    "Your greeting must be in {}.",
    "Speak {} when you greet someone.",
)
_PREFIX = (
    "Begin every answer with {}.",
    "Start every answer with {}.",
    "Every answer must begin with {}.",
    "Always start your answers with the words {}.",
    "Prefix each answer with {}.",
)
_SUFFIX = (
    "End every answer with {}.",
    "Finish every answer with {}.",
    "Every answer must end with {}.",
    "Always close your answers with the words {}.",
)
_UPPER = (
    "Answer in upper case.",
    "Answer in capital letters.",
    "Write everything in upper case.",
    "Always use capital letters only.",
    "All answers must be in upper case letters.",
    "Shout: use capital letters for every answer.",
)
_NAMED = (
    "Your name is {}.",
    "You are {}.",
    "You are called {}.",
    "You are {}, a helpful assistant.",
    "You are a helpful assistant. Your name is {}.",
)
_WHO = ("What is your name?", "Who are you?", "what's your name?", "Tell me your name.",
        "who are you", "And what are you called?", "Introduce yourself.", "May I have your name?",
        "What are you called?", "How should I call you?")  # fmt: skip
_BEFORE = ("", "", "", "You are a helpful assistant. ", "Be polite. ", "Answer briefly. ")


def case(draw: Draw) -> Case:
    """One instruction, and a message on which it shows."""
    kind = draw.pick(
        ("language", "language", "prefix", "prefix", "suffix", "upper", "upper", "name")
    )
    talk = tuple(i for i in INTENTS if kind != "language" or i.about == "a greeting")
    text, intent = small_talk(draw, talk)
    match kind:
        case "language":
            language = draw.pick(tuple(GREETINGS))
            told, said = draw.pick(_LANGUAGE).format(language), GREETINGS[language]
        case "prefix":
            words = text_value(draw.rng, draw.split)
            told, said = draw.pick(_PREFIX).format(words), f"{words} {intent.reply}"
        case "suffix":
            words = text_value(draw.rng, draw.split)
            told, said = draw.pick(_SUFFIX).format(words), f"{intent.reply} {words}"
        case "upper":
            told, said = draw.pick(_UPPER), intent.reply.upper()
        case _:
            name = person(draw.rng, draw.split)
            told, said, text = draw.pick(_NAMED).format(name), f"I am {name}.", draw.pick(_WHO)
    told = draw.pick(_BEFORE) + told
    about = "who I am" if kind == "name" else intent.about
    history = (system(draw), *developer(told), user(text))
    return Case("instructions", history, (answer(draw, _thought(about, told, said), said),))


def _thought(about: str, told: str, said: str) -> Thought:
    medium = f"This is {about}, and the instructions say: {told} So I answer that way."
    high = (
        f"I read the message: it is {about}. {medium} The developer stands above the user, so I "
        f"have to do what was said: {told} I check how that would look: {said} That is right."
    )
    return Thought(f"{about}.", medium, high)
