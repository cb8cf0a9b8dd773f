"""The built-in tool `python`: sums and small programs, whose code runs and whose output is read."""

import math
import operator
from collections.abc import Callable
from datetime import date, timedelta

from demo.skills import calls, chat, programs
from demo.skills.case import (
    Case,
    Draw,
    Exchange,
    Thought,
    Turn,
    answer,
    developer,
    hosted_call,
    hosted_result,
    system,
    thinks,
    user,
)
from demo.skills.drills import joined
from demo.skills.programs import Job
from demo.skills.results import draw_outcome
from demo.skills.tasks import ask, draw_task, toolbox
from demo.skills.words import Split, words
from harmony.messages import Effort, FunctionTool, Message, ToolNamespace
from harmony.tools import BROWSER, PYTHON

NO_OUTPUT = "[No output. Print a value, or end the cell with it, to see it.]"

_UNDEFINED = (
    "---------------------------------------------------------------------------\n"
    "NameError                                 Traceback (most recent call last)\n"
    "Cell In[1], line 1\n"
    "----> 1 {code}\n\n"
    "NameError: name '{name}' is not defined"
)
_UNMATCHED = (
    "  Cell In[1], line {line}\n    {code}\n    {mark}\nSyntaxError: unmatched '{bracket}'\n"
)
"""IPython's tracebacks of cells of one line without an import, and with a bracket too many."""

_PROGRAMS = 0.5
_MANY = {Effort.LOW: 9, Effort.MEDIUM: 7, Effort.HIGH: 4}


ASK = {
    Split.TRAIN: (
        "What is {}?",
        "what is {}",
        "How much is {}?",
        "how much is {}",
        "Calculate {}.",
        "calculate {}",
        "Compute {}",
        "{}",
        "{} = ?",
        "Work out {} for me.",
        "Please calculate {}.",
        "I need {}.",
        "Tell me {}",
        "Use python: {}",
        "what's {}",
        "{}?",
        "Please work out {}",
        "Give me {}.",
        "I want to know {}",
        "Find {}.",
        "Could you work out {}?",
        "{} is how much?",
        "Let python tell me {}.",
        "Run this: {}",
        "Evaluate {}.",
        "And {}?",
        "now {}",
        "Quick: {}",
        "I would like to have {}, please.",
        "Do you know {}?",
        "My homework: {}",
        "Exactly how much is {}?",
        "value of {}",
    ),
    Split.HELD_OUT: ("What's {}?", "Can you compute {}?", "The result of {}, please.", "Solve {}."),
}
_OPERATORS: tuple[tuple[str, tuple[str, ...], Callable[[int, int], int]], ...] = (
    ("+", (" + ", "+", " plus "), operator.add),
    ("-", (" - ", "-", " minus "), operator.sub),
    ("*", (" * ", "*", " x ", " times ", " \N{MULTIPLICATION SIGN} ", " multiplied by "),
     operator.mul),
    ("**", (" ** ", "^", " to the power of "), operator.pow),
    ("%", (" % ", " mod ", " modulo "), operator.mod),
    ("//", (" // ",), operator.floordiv),
)  # fmt: skip


def case(draw: Draw) -> Case:
    """Something to compute, sometimes after other things, or a request that needs no python."""
    if draw.chance(0.15):
        return _without_python(draw)
    if draw.chance(0.2):
        return _mending(draw)
    exchanges = [_exchange(draw, job) for job in _jobs(draw)]
    start = _start(draw)
    made = joined(start, exchanges)
    return Case("python", made.history, made.turns)


def drill(draw: Draw) -> Case:
    """Many things to compute in one conversation."""
    jobs: list[Job] = []
    while len(jobs) < _MANY[draw.effort]:
        jobs += _jobs(draw)
    start = _start(draw)
    return joined(start, [_exchange(draw, job) for job in jobs])


def _jobs(draw: Draw) -> list[Job]:
    if draw.split is Split.TRAIN and draw.chance(_PROGRAMS):
        said, code, output = programs.program(draw)
        return [Job(programs.worded_request(draw, said, ASK[draw.split]), code, output)]
    roll = draw.rng.random()
    if roll < 0.55:
        return [_sum(draw)]
    if roll < 0.65:
        return _named_value(draw)
    return [draw.pick((_of_list, _of_list, _of_word, _of_dates, _of_math, _share, _in_base))(draw)]


def _exchange(draw: Draw, job: Job) -> Exchange:
    """The request, the turn that runs the code, and the one that reads its output."""
    medium = "The user wants something computed. Python is there, so I write a cell and run it."
    high = (
        "1. The user wants something computed. 2. Python is there, so I write a cell and run it. "
        "3. I keep the numbers as they are in the request. 4. I turn only the words into "
        "operators. 5. The last line of the cell is the value that I want to see."
    )
    turn = _run(draw, Thought("Python.", medium, high), job)
    return user(job.request), (turn, _read(draw, job))


def _run(draw: Draw, thought: Thought, job: Job) -> Turn:
    """The turn that runs the job's cell."""
    messages = (thinks(thought.at(draw.effort)), hosted_call("python", job.code))
    return Turn(messages, (hosted_result("python", job.output),))


def _read(draw: Draw, job: Job) -> Turn:
    if job.output == NO_OUTPUT:
        medium = "The cell has run and has nothing to show. I tell the user that it is done."
        high = (
            f"{medium} No other cell is needed, since there was no error. The name is known in "
            "the next cells, too. The answer should be short, and that is all that I have to say."
        )
        return answer(draw, Thought("Done.", medium, high), f"Done: {job.code}.")
    medium = f"The output is {job.output}. That is what the user asked for, so I say it."
    high = (
        f"{medium} I keep it as it is, from its beginning to its end, and add nothing of my own. "
        f"No other cell is needed, since there was no error. The answer is {job.output}."
    )
    return answer(draw, Thought("Read.", medium, high), f"The result is {job.says}.")


def _mending(draw: Draw) -> Case:
    """A cell that failed stands in the history; it is written once more, without its fault."""
    job = draw.pick((_of_list, _of_dates, _of_math, _in_base, _of_word))(draw)
    if "import" in job.code and draw.chance(0.6):
        broken = job.code.split("\n", 1)[1]
        name = "date" if "date." in broken else "math"
        problem = _UNDEFINED.format(code=broken, name=name)
    else:
        broken = job.code + draw.pick(")]")
        last = broken.rsplit("\n", 1)[-1]
        problem = _UNMATCHED.format(
            line=broken.count("\n") + 1,
            code=last,
            mark=" " * (len(last) - 1) + "^",
            bracket=broken[-1],
        )
    medium = "The cell failed. I read what the traceback says and write it once more, mended."
    high = (
        f"{medium} An import may be missing, or a bracket may be too many. The rest of the cell "
        "is what the user asked for, so I keep it and run the whole cell again."
    )
    turn = _run(draw, Thought("Mend it.", medium, high), job)
    start = (*_start(draw), user(job.request))
    failed = (hosted_call("python", broken), hosted_result("python", problem))
    return Case("python", (*start, *failed), (turn, _read(draw, job)))


def _sum(draw: Draw) -> Job:
    """A sum of two or three numbers, as it stands or in words."""
    sign, spoken, apply = draw.rng.choices(_OPERATORS, (24, 20, 34, 8, 8, 6))[0]
    left, right = _number(draw), _number(draw)
    if sign == "**":
        left, right = draw.rng.randint(2, 99), draw.rng.randint(2, 9)
    elif sign in ("%", "//"):
        right = draw.rng.randint(2, 999)
    value = apply(left, right)
    text, code = f"{left}{draw.pick(spoken)}{right}", f"{left} {sign} {right}"
    if sign in "+-*" and draw.chance(0.2):
        last = draw.rng.randint(2, 999)
        more, spoken, apply = draw.pick(_OPERATORS[:2])
        text, code = f"{text}{draw.pick(spoken)}{last}", f"{code} {more} {last}"
        value = apply(value, last)
    elif sign in "+-" and draw.chance(0.2):
        last = draw.rng.randint(2, 999)
        text, code = f"({text}) * {last}", f"({code}) * {last}"
        value *= last
    return Job(draw.pick(ASK[draw.split]).format(text), code, str(value))


def _number(draw: Draw) -> int:
    return draw.rng.randint(2, 10 ** draw.rng.choice((2, 3, 3, 4, 4, 5, 6)))


def _named_value(draw: Draw) -> list[Job]:
    """A value that gets a name in one cell, and is used in the next one."""
    name, value = draw.pick("abcknxyz"), _number(draw)
    forms = ("Set {} to {}.", "Store in {} the number {}.", "Let {} be {}.")
    held_out = ("Put into {} the value {}.",)
    first = draw.pick(forms if draw.split is Split.TRAIN else held_out).format(name, value)
    sign, spoken, apply = draw.pick(_OPERATORS[:3])
    other = draw.rng.randint(2, 99)
    text = f"{name}{draw.pick(spoken)}{other}"
    request = draw.pick(ASK[draw.split]).format(text)
    code, output = f"{name} {sign} {other}", str(apply(value, other))
    return [Job(first, f"{name} = {value}", NO_OUTPUT), Job(request, code, output)]


_LISTS: tuple[tuple[str, str, Callable[[list[int]], object]], ...] = (
    ("the sum of {}", "sum({})", sum),
    ("the greatest of {}", "max({})", max),
    ("the largest number of {}", "max({})", max),
    ("the smallest of {}", "min({})", min),
    ("{} in order", "sorted({})", sorted),
    ("{}, sorted", "sorted({})", sorted),
    ("the product of {}", "import math\nmath.prod({})", math.prod),
    ("the greatest common divisor of {}", "import math\nmath.gcd(*{})", lambda n: math.gcd(*n)),
)


def _of_list(draw: Draw) -> Job:
    numbers = [draw.rng.randint(1, 999) for _ in range(draw.rng.randint(3, 6))]
    listed = ", ".join(map(str, numbers))
    spoken = listed if draw.chance(0.5) else " and ".join(listed.rsplit(", ", 1))
    text, code, apply = draw.pick(_LISTS)
    request = draw.pick(ASK[draw.split]).format(text.format(spoken))
    return Job(request, code.format(f"[{listed}]"), repr(apply(numbers)))


_WORDS: tuple[tuple[str, str, Callable[[str], object]], ...] = (
    ("the length of the word {}", 'len("{}")', len),
    ("the number of letters in {}", 'len("{}")', len),
    ("the word {} backwards", '"{}"[::-1]', lambda word: word[::-1]),
    ("{} in capital letters", '"{}".upper()', str.upper),
    ("the letters of {} in order", 'sorted("{}")', sorted),
)


def _of_word(draw: Draw) -> Job:
    word = draw.pick(words(draw.split))
    text, code, apply = draw.pick(_WORDS)
    request = draw.pick(ASK[draw.split]).format(text.format(word))
    return Job(request, code.format(word), repr(apply(word)))


def _of_dates(draw: Draw) -> Job:
    first = date(draw.rng.randint(1990, 2030), draw.rng.randint(1, 12), draw.rng.randint(1, 28))
    last = first + timedelta(draw.rng.randint(3, 900))
    line = "from datetime import date\n"
    if draw.chance(0.5):
        code = f'{line}date.fromisoformat("{first}").strftime("%A")'
        text, output = f"the weekday of {first}", repr(first.strftime("%A"))
    else:
        code = f'{line}(date.fromisoformat("{last}") - date.fromisoformat("{first}")).days'
        text = f"the number of days from {first} to {last}"
        output = str((last - first).days)
    return Job(draw.pick(ASK[draw.split]).format(text), code, output)


def _of_math(draw: Draw) -> Job:
    roots = draw.rng.randint(2, 999)
    few = draw.rng.randint(3, 15)
    text, code, value = draw.pick(
        (
            (f"the square root of {roots * roots}", f"math.sqrt({roots * roots})", float(roots)),
            (f"the factorial of {few}", f"math.factorial({few})", math.factorial(few)),
            (f"{few}!", f"math.factorial({few})", math.factorial(few)),
        )
    )
    request = draw.pick(ASK[draw.split]).format(text)
    return Job(request, f"import math\n{code}", repr(value))


def _share(draw: Draw) -> Job:
    share, whole = draw.rng.randint(1, 99), draw.rng.randint(2, 9999)
    text = draw.pick(
        (f"{share} % of {whole}", f"{share}% of {whole}", f"{share} percent of {whole}")
    )
    request = draw.pick(ASK[draw.split]).format(text)
    return Job(request, f"{whole} * {share} / 100", repr(whole * share / 100))


def _in_base(draw: Draw) -> Job:
    number = draw.rng.randint(2, 9999)
    text, code, output = draw.pick(
        (
            (f"{number} in binary", f"bin({number})", bin(number)),
            (f"{number} in hexadecimal", f"hex({number})", hex(number)),
        )
    )
    return Job(draw.pick(ASK[draw.split]).format(text), code, repr(output))


def _without_python(draw: Draw) -> Case:
    """Small talk, or a request for a function that is there beside python."""
    if draw.chance(0.4):
        text, intent = chat.small_talk(draw)
        start = _start(draw)
        return Case("python", (*start, user(text)), (chat.reply(draw, intent),))
    task, outcome = draw_task(draw), draw_outcome(draw)
    box = toolbox(draw, [task], draw.rng.randint(1, 3))
    turns = calls.answered(draw, task, outcome)
    start = (system(draw, (PYTHON,)), *developer(_instructions(draw), box))
    return Case("python", (*start, user(ask(draw, task.request))), turns)


def _start(draw: Draw) -> tuple[Message, ...]:
    """What stands before the first request; in training sometimes with other tools, too."""
    hosted: tuple[ToolNamespace, ...] = (PYTHON,)
    box: list[FunctionTool] = []
    if draw.split is Split.TRAIN:
        hosted = (BROWSER, PYTHON) if draw.chance(0.25) else hosted
        box = toolbox(draw, [], draw.rng.randint(1, 3)) if draw.chance(0.15) else box
    return (system(draw, hosted), *developer(_instructions(draw), box))


def _instructions(draw: Draw) -> str | None:
    return draw.pick((None, None, None, "You are a helpful assistant.", "Use python for sums."))
