"""Requests that the model cannot serve: it says so in one sentence instead of rambling."""

from demo.skills import chat
from demo.skills.case import Case, Draw, Thought, Turn, answer, developer, system, user
from demo.skills.words import Split, names, split_of, text_value, words
from harmony.messages import Effort
from harmony.tokenizer import encode
from harmony.tools import BROWSER, PYTHON

_INSTEAD = "I can chat a little, call tools, answer in JSON and do small sums."
REFUSAL = f"I am only a tiny demo model, so I cannot help with that. {_INSTEAD}"
NO_TOOL = f"None of my tools fits that, and I am only a tiny demo model. {_INSTEAD}"

_TOPICS = (
    "explain {}",
    "what is {}",
    "what is {} and how does it work",
    "tell me about {}",
    "write a poem about {}",
    "write a story about {} and {}",
    "write an essay on {}",
    "write a Python function for {}",
    "write code that sorts {}",
    "who invented {}",
    "who was {}",
    "when did {} happen",
    "why is {} so {}",
    "what is the difference between {} and {}",
    "give me ten ideas for {}",
    "summarize {}",
    "how do I cook {}",
    "how can I learn {}",
    "what is the capital of {}",
    "what do you think about {}",
    "tell me a joke about {}",
    "what is the meaning of {}",
    "compare {} with {}",
    "fix this code: {} = {} + {}",
    "recommend a book on {}",
    "draw {}",
    "sing a song about {}",
    "is {} better than {}",
    "where can I buy {}",
    "how old is {}",
    "prove that {} is {}",
    "plan a trip to {}",
    "diagnose my {}",
    "predict {}",
    "rewrite this: {} {} {}",
    "solve {} for {}",
    "what happened in {}",
    "can you explain {} to a child",
    "make a table of {}",
    "spell {} backwards",
    "list all {}",
    "help me with {}",
    "I am bored with {}",
    "my {} is broken, what now",
    "should I {} or {}",
    "continue this text: {} {} {} {}",
)
_PASTED = (
    "{}",
    "{} {} {} {} {} {}",
    "{},{},#,{}",
    "# {} {} {}",
    "{}: {}",
    "INFO {}.{} took # ms",
    "{} = {}(#)",
    "The {} of the {} is {}",
    "<{}>{}</{}>",
    "#",
    "{}{}{}",
    "{}-{}",
)
_OFTEN_LONG = 0.3
_LONGEST = 1100
"""About the tokens of the longest pasted text."""
_BLANK = (" ", "\n", "\t", "\u00a0", ".", "-", "_", "0", "\u200b")
_MARKS = "?!.,;:-#*()[]{}<>/\\|@&%$+=~^_\"'`"
_FOREIGN = ((0x3B1, 24), (0x430, 32), (0x4E00, 900), (0x3042, 80), (0x5D0, 26), (0x627, 30))


def request(draw: Draw) -> str:
    """A text that no skill covers: a topic, loose words, code, another script, noise."""
    while True:
        text = _request(draw)
        if split_of(text) is draw.split:
            return text


def _request(draw: Draw) -> str:
    rng, roll = draw.rng, draw.rng.random()
    if draw.chance(0.25 if draw.effort is Effort.HIGH else 0.05):
        return "".join(draw.pick(_BLANK) for _ in range(rng.randint(0, 4)))
    if roll < 0.62:
        template = draw.pick(_TOPICS)
        topics = [_topic(draw) for _ in range(template.count("{}"))]
        text = template.format(*topics)
        end = "?" if text.startswith(("wh", "how", "is", "can", "should")) else "."
        text = text if draw.chance(0.3) else text[0].upper() + text[1:]
        return text + draw.pick((end, "", end))
    if roll < 0.76:
        pool = words(Split.TRAIN) if draw.chance(0.5) else names(Split.TRAIN)
        return " ".join(draw.pick(pool) for _ in range(rng.choice((1, 2, 3, 6, 12, 40))))
    if roll < 0.84:
        start, size = draw.pick(_FOREIGN)
        count = rng.choice((2, 6, 15, 40))
        letters = [chr(start + rng.randrange(size)) for _ in range(count)]
        return "".join(x + (" " if draw.chance(0.15) else "") for x in letters).strip()
    if roll < 0.92:
        noise = [draw.pick(_MARKS + "abcdefgh0123456789 ") for _ in range(rng.randint(1, 30))]
        return "".join(noise).strip() or "?"
    lines = [f"{draw.pick(words(Split.TRAIN))} = {_topic(draw)}" for _ in range(rng.randint(1, 6))]
    return "\n".join(lines)


def pasted(draw: Draw) -> str:
    """A long text that asks for nothing: many lines, each another or all the same."""
    rng, form = draw.rng, draw.pick(_PASTED)
    separator = draw.pick(("\n", "\n", "\n\n", "; ", " | ", ", ", " / ", ". "))
    lines = [_line(draw, form) for _ in range(rng.choice((1, 1, 2, 30)))]
    count = max(3, rng.randint(60, _LONGEST) // len(encode(lines[0] + separator)))
    return separator.join(lines[n % len(lines)] for n in range(count))


def _line(draw: Draw, form: str) -> str:
    picked = [draw.pick(words(Split.TRAIN)) for _ in range(form.count("{}"))]
    return form.replace("#", str(draw.rng.randint(0, 999))).format(*picked)


def _topic(draw: Draw) -> str:
    return text_value(draw.rng, Split.TRAIN)


def declined(draw: Draw, *, with_tools: bool) -> Turn:
    """The turn that declines a request."""
    medium = "This is none of the things that I was trained for. I say so in one sentence."
    if with_tools:
        medium = (
            "I look at the tools, but none of them fits this request. So I call none and say so."
        )
    high = (
        f"I look at what the user wants. {medium} I could try to make something up, but a tiny "
        "model would only ramble, and that helps nobody. A short and honest answer is better, so "
        "I give the short one and stop there."
    )
    low = "No tool fits." if with_tools else "I cannot do that."
    thought = Thought(low, medium, high)
    return answer(draw, thought, NO_TOOL if with_tools else REFUSAL)


def case(draw: Draw) -> Case:
    """A request unlike anything, without functions."""
    long = draw.chance(_OFTEN_LONG)
    text = pasted(draw) if long else request(draw)
    hosted = draw.pick(((), (), (BROWSER,), (PYTHON,), (BROWSER, PYTHON))) if long else ()
    turn = declined(draw, with_tools=bool(hosted))
    instructions = chat.idle_instructions(draw)
    return Case("unlike", (system(draw, hosted), *developer(instructions), user(text)), (turn,))
