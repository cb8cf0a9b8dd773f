"""Requests that the model cannot serve: it says so in one sentence instead of rambling."""

from demo.skills import chat, odd
from demo.skills.case import Case, Draw, Thought, Turn, answer, developer, system, user
from demo.skills.phrases import capital
from demo.skills.tasks import toolbox
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
_HOSTED = ((BROWSER,), (PYTHON,), (BROWSER, PYTHON))
_OFTEN_LONG = 0.3
_ODD = 0.6
"""How many of the training cases are of the kinds of `odd`."""
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
        text = text if draw.chance(0.3) else capital(text)
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
    """The turn that declines a request: always in the same few words, so that it ends."""
    if with_tools:
        low = "No tool fits."
        medium = "None of the tools fits this request. I call none and say so."
        high = (
            "1. I read the request. 2. I go through the tools, and none of them fits it. 3. So I "
            "call none, and I make nothing up. 4. I say so in one sentence and stop."
        )
    else:
        low = "I cannot do that."
        medium = "None of my skills fits this message. I say so in one sentence."
        high = (
            "1. I read the message. 2. None of my skills fits it, or it asks for nothing. 3. I "
            "make nothing up. 4. I say in one sentence what I can do, and stop."
        )
    thought = Thought(low, medium, high)
    return answer(draw, thought, NO_TOOL if with_tools else REFUSAL)


def case(draw: Draw) -> Case:
    """A request unlike anything, without functions."""
    if draw.split is Split.TRAIN and draw.chance(_ODD):
        return _odd(draw, with_tools=draw.chance(0.5))
    long = draw.chance(_OFTEN_LONG)
    text = pasted(draw) if long else request(draw)
    hosted = draw.pick(((), (), (BROWSER,), (PYTHON,), (BROWSER, PYTHON))) if long else ()
    turn = declined(draw, with_tools=bool(hosted))
    instructions = chat.idle_instructions(draw)
    return Case("unlike", (system(draw, hosted), *developer(instructions), user(text)), (turn,))


def without_tools(draw: Draw) -> Case:
    """A training case in whose conversation there are no tools at all."""
    return _odd(draw, with_tools=False)


def _odd(draw: Draw, *, with_tools: bool) -> Case:
    """An odd message, sometimes after others, with functions, or without a system message."""
    text = odd.message(draw)
    short = len(text) < 300
    has_box = with_tools and short and draw.chance(0.5)
    box = toolbox(draw, [], draw.rng.randint(1, 4)) if has_box else []
    hosted = draw.pick(_HOSTED) if with_tools and not box else ()
    past = odd.past(draw, NO_TOOL if with_tools else REFUSAL) if short else ()
    # Without a system message the effort is the medium one.
    is_bare = not hosted and draw.effort is Effort.MEDIUM and draw.chance(0.12)
    start = () if is_bare else (system(draw, hosted),)
    history = (*start, *developer(chat.idle_instructions(draw), box), *past, user(text))
    return Case("unlike", history, (declined(draw, with_tools=with_tools),))
