"""Small programs for the tool `python`, put together by rules: for training alone.

Where the numbers come from, which of them count, what becomes of each, and what is made of all of
them: the request says these parts in one order or another, and the cell has them as a generator
or as a loop. Other programs are about texts, words in a list, and dates. Numbers of the request
stand in the code as they are (`range(3, 50 + 1)`), so that they can be copied.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from demo.skills.case import Draw
from demo.skills.catalogue import spans
from demo.skills.phrases import capital, worded
from demo.skills.words import Split, names

_LONGEST = 90
"""In letters: programs with more output are drawn again."""


@dataclass(frozen=True, slots=True)
class Job:
    """Something to compute: the request, the code of the cell, what the cell returns."""

    request: str
    code: str
    output: str

    @property
    def says(self) -> str:
        """The output as an answer has it: texts without quotes."""
        return self.output.strip("'")


Program = tuple[str, str]
"""What is wanted, and the code."""

_ORDERS = (
    "[write|run|make|use] [a|some] [python|Python] [program|code|script|loop] [for|that gives] {}",
    "[write|run] [code|a program] that [computes|calculates|works out|finds|gives] {}",
    "in python: {}",
    "[show|print|output|return] {}",
    "[I wonder|I'd like to know|find out|determine|check] [what is |]{}",
    "[do|can] you [know|compute|determine|work out] {}?",
    "[use|with] the interpreter[:| to get|, give me] {}",
    "{}, [by a program|computed|exactly|in code|please]",
)


def worded_request(draw: Draw, said: str, asks: Sequence[str]) -> str:
    """A request for what is `said`, in one of the ways in `asks` or in one for programs."""
    form = worded(draw, draw.pick(_ORDERS)) if draw.chance(0.45) else draw.pick(asks)
    text = form.replace("{}", said)
    return text if draw.chance(0.3) else capital(text)


def program(draw: Draw) -> tuple[str, str, str]:
    """What is wanted, the code of a cell, and its output."""
    kinds: dict[Callable[[Draw], Program], float] = {
        _of_range: 40,
        _of_numbers: 14,
        _of_text: 14,
        _of_names: 10,
        _of_date: 12,
        _formula: 10,
    }
    while True:
        said, code = draw.weighted(kinds)(draw)
        output = shown(code)
        if output is not None and len(output) <= _LONGEST:
            return worded(draw, said), code, output


def shown(code: str) -> str | None:
    """What the cell shows: the value of its last line; None if that fails."""
    *before, last = code.split("\n")
    known: dict[str, Any] = {}
    try:
        exec("\n".join(before), known)
        return repr(eval(last, known))
    except (ArithmeticError, ValueError, IndexError):
        return None


# Numbers of a range: source, condition, change, result.

_CONDITIONS = (
    ("even ", "n % 2 == 0"),
    ("odd ", "n % 2 == 1"),
)
_BEHIND = (
    (
        "[[divisible by|that are multiples of|which are divisible by] {}|that {} divides]",
        "n % {} == 0",
    ),
    ("[not divisible by|that are no multiples of] {}", "n % {} != 0"),
    ("[that end in|ending in|whose last digit is] {}", "n % 10 == {}"),
    ("[that contain|with] the digit {}", '"{}" in str(n)'),
)
_CHANGES = (
    ("the squares of", "n ** 2"),
    ("the squares of", "n ** 2"),
    ("the cubes of", "n ** 3"),
    ("the square roots of", "n ** 0.5"),
    ("the reciprocals of", "1 / n"),
    ("the doubles of", "2 * n"),
    ("the halves of", "n / 2"),
    ("the fourth powers of", "n ** 4"),
    ("twice", "2 * n"),
    ("three times", "3 * n"),
    ("the digit sums of", "sum(map(int, str(n)))"),
    ("the lengths of", "len(str(n))"),
    ("the last digits of", "n % 10"),
)
_RESULTS = (
    ("[the sum of|the total of|all together,|summed up,|add up]", "sum({})"),
    ("[the sum of|the total of]", "sum({})"),
    ("[the sum of|the total of]", "sum({})"),
    ("[a list of|the list of|all of|each of|list]", "list({})"),
    ("the [greatest|largest|maximum] of", "max({})"),
    ("the [smallest|least|minimum] of", "min({})"),
    ("[the product of|multiply]", "import math\nmath.prod({})"),
    ("the [mean|average] of", "import statistics\nstatistics.mean({})"),
)


def _range(draw: Draw) -> tuple[str, str]:
    """The words for a range, and its code."""
    first = draw.pick((1, 1, 1, 0, 2, draw.rng.randint(3, 99)))
    last = first + draw.rng.randint(4, draw.pick((10, 30, 100, 500)))
    said = draw.pick(
        (
            f"[the |all |||]{{kind}}[numbers|integers] from {first} [to|up to|till] {last}",
            f"[the |all ||]{{kind}}[numbers|integers] between {first} and {last}",
            f"[the |all ||]{{kind}}numbers {first} to {last}",
            f"{first} to {last}",
            f"{first}..{last}",
        )
        if first != 1 or draw.chance(0.6)
        else (
            f"[the |all ||]{{kind}}[numbers|integers] [up to|until|to] {last}",
            f"the first {last} [numbers|integers]",
        )
    )
    return said, f"range({first}, {last} + 1)"


def _of_range(draw: Draw) -> Program:
    roll = draw.rng.random()
    if roll < 0.15:
        return _primes(draw)
    said, source = _range(draw)
    conditions: list[str] = []
    if "{kind}" in said and draw.chance(0.4):
        kind, code = draw.pick(_CONDITIONS)
        said = said.replace("{kind}", kind)
        conditions.append(code)
    elif "first" not in said and draw.chance(0.35):
        words, code = draw.pick(_BEHIND)
        by = draw.rng.randint(2, 9)
        said += f" {words.replace('{}', str(by))}"
        conditions.append(code.replace("{}", str(by)))
    said = said.replace("{kind}", "")
    if conditions and draw.chance(0.3):
        where = f" if {conditions[0]}"
        count = f"sum(1 for n in {source}{where})"
        return f"[how many of {said} there are|the number of {said}|count {said}]", count
    words, value = draw.pick(_CHANGES) if draw.chance(0.6) else ("", "n")
    result, form = draw.pick(_RESULTS)
    said = f"{result} {words} {said}".replace("  ", " ")
    if value == "n" and not conditions:
        return said, form.format(source)
    where = f" if {conditions[0]}" if conditions else ""
    if form == "sum({})" and draw.chance(0.3):
        return f"{said}[, with|, by|, in] a loop", _loop(source, conditions, value)
    inner = f"{value} for n in {source}{where}"
    return said, f"[{inner}]" if form == "list({})" else form.format(inner)


def _loop(source: str, conditions: Sequence[str], value: str) -> str:
    lines = ["total = 0", f"for n in {source}:"]
    deep = "    "
    for condition in conditions:
        lines.append(f"{deep}if {condition}:")
        deep += "    "
    return "\n".join([*lines, f"{deep}total += {value}", "total"])


_PRIME = "[n for n in range({}, {} + 1) if all(n % d for d in range(2, n))]"


def _primes(draw: Draw) -> Program:
    last = draw.rng.randint(5, 120)
    count = draw.rng.randint(3, 40)
    base, most = draw.rng.randint(2, 12), draw.rng.randint(3, 9)
    found = _PRIME.format(2, last)
    return draw.pick(
        (
            (f"[all|the|a list of the] [primes|prime numbers] [up to|until] {last}", found),
            (f"[how many|the number of] primes there are [up to|until] {last}", f"len({found})"),
            (f"the sum of [the|all] [primes|prime numbers] [up to|until] {last}", f"sum({found})"),
            (f"[whether {last} is prime|is {last} a prime number]",
             f"all({last} % d for d in range(2, {last}))"),
            (f"[the factors|the divisors|all divisors] of {last}",
             f"[d for d in range(1, {last} + 1) if {last} % d == 0]"),
            (f"the first {count} [Fibonacci numbers|numbers of the Fibonacci sequence]",
             f"a, b, found = 0, 1, []\nfor _ in range({count}):\n    found.append(a)\n"
             "    a, b = b, a + b\nfound"),
            (f"[Fibonacci number {count}|number {count} of the Fibonacci sequence]",
             f"a, b = 0, 1\nfor _ in range({count}):\n    a, b = b, a + b\na"),
            (f"the [multiplication table|multiples] of {last} up to {count} times",
             f"[{last} * n for n in range(1, {count} + 1)]"),
            (f"the powers of {base} from 1 to {most}",
             f"[{base} ** n for n in range(1, {most} + 1)]"),
            (f"[how many steps {last} takes|the steps of {last}] in the Collatz [sequence|problem]",
             f"n, steps = {last}, 0\nwhile n > 1:\n    n = n // 2 if n % 2 == 0 else 3 * n + 1\n"
             "    steps += 1\nsteps"),
        )
    )  # fmt: skip


# Numbers of a list.

_LISTS = (
    ("the [mean|average] of {}", "import statistics\nstatistics.mean({})"),
    ("the median of {}", "import statistics\nstatistics.median({})"),
    ("the sum of the squares of {}", "sum(n ** 2 for n in {})"),
    ("the squares of {}", "[n ** 2 for n in {}]"),
    ("{} doubled", "[2 * n for n in {}]"),
    ("{} from the largest to the smallest", "sorted({}, reverse=True)"),
    ("{}, sorted downwards", "sorted({}, reverse=True)"),
    ("{} backwards", "{}[::-1]"),
    ("{} without doubles", "sorted(set({}))"),
    ("the range of {}", "max({}) - min({})"),
    ("the even ones of {}", "[n for n in {} if n % 2 == 0]"),
    ("the odd ones of {}", "[n for n in {} if n % 2 == 1]"),
    ("how many of {} are over #", "sum(1 for n in {} if n > #)"),
    ("which of {} are below #", "[n for n in {} if n < #]"),
    ("{}, each plus #", "[n + # for n in {}]"),
    ("{}, each times #", "[n * # for n in {}]"),
    ("the second largest of {}", "sorted({})[-2]"),
    ("the running totals of {}", "from itertools import accumulate\nlist(accumulate({}))"),
    ("the differences in {}", "a = {}\n[y - x for x, y in zip(a, a[1:])]"),
    ("the least common multiple of {}", "import math\nmath.lcm(*{})"),
    ("the mean of {}, rounded to # digits", "round(sum({}) / len({}), #)"),
    ("the place of the largest of {}", "a = {}\na.index(max(a))"),
)


def _of_numbers(draw: Draw) -> Program:
    most = draw.pick((20, 99, 99, 999))
    numbers = [draw.rng.randint(1, most) for _ in range(draw.rng.randint(3, 8))]
    listed = ", ".join(map(str, numbers))
    # Brackets are choices in wordings, so a list has none.
    said = draw.pick((listed, listed, " and ".join(listed.rsplit(", ", 1)), f"({listed})",
                      listed.replace(", ", ","), listed.replace(",", "")))  # fmt: skip
    words, code = draw.pick(_LISTS)
    other = str(draw.rng.randint(2, 9) if "digits" in words else draw.rng.randint(2, most))
    words = worded(draw, words).replace("#", other)
    return words.replace("{}", said), code.replace("#", other).replace("{}", f"[{listed}]")


# Texts.

_TEXTS = (
    ("the number of words in {}", "len({}.split())"),
    ("how many words {} has", "len({}.split())"),
    ("how [often|many times] {c} [is|occurs|stands] in {}", "{}.count({c})"),
    ("the number of {c} in {}", "{}.count({c})"),
    ("{} [backwards|reversed|from behind]", "{}[::-1]"),
    ("the words of {} in reverse order", '" ".join({}.split()[::-1])'),
    ("the words of {} in alphabetical order", "sorted({}.split())"),
    ("{} in [capitals|capital letters|upper case]", "{}.upper()"),
    ("{} in [small letters|lower case]", "{}.lower()"),
    ("{} with a capital in each word", "{}.title()"),
    ("the number of [letters|characters] in {}", "len({})"),
    ("how long {} is", "len({})"),
    ("the vowels in {}", '[c for c in {} if c in "aeiou"]'),
    ("how many vowels {} has", 'sum(c in "aeiou" for c in {})'),
    ("the longest word of {}", "max({}.split(), key=len)"),
    ("the first letters of {}", "[w[0] for w in {}.split()]"),
    ("{} without spaces", '{}.replace(" ", "")'),
    ("{} with {c} [left out|removed|taken out]", '{}.replace({c}, "")'),
    ("[whether {} is|is {}] a palindrome", "{} == {}[::-1]"),
    ("the length of each word of {}", "[len(w) for w in {}.split()]"),
    ("{} # times", "{} * #"),
    ("the first # letters of {}", "{}[:#]"),
    ("the last # letters of {}", "{}[-#:]"),
    ("the different letters of {}", "sorted(set({}))"),
    ("the letter that is most frequent in {}",
     "from collections import Counter\nCounter({}).most_common(1)[0]"),
)  # fmt: skip


def _of_text(draw: Draw) -> Program:
    text = " ".join(spans.word(draw) for _ in range(draw.pick((1, 1, 2, 3, 4, 5))))
    words, code = draw.pick(_TEXTS)
    letter, count = draw.pick(text.replace(" ", "")), str(draw.rng.randint(2, 5))
    quote = draw.pick(("'", '"', '"', ""))
    words = worded(draw, words).replace("{c}", draw.pick((letter, f'"{letter}"', f"'{letter}'")))
    words = words.replace("#", count).replace("{}", f"{quote}{text}{quote}")
    code = code.replace("{c}", f'"{letter}"').replace("#", count)
    return words, code.replace("{}", f'"{text}"')


_NAMED = (
    ("{} in [alphabetical order|order|the order of the alphabet]", "sorted({})"),
    ("{} from [the shortest to the longest|short to long]", "sorted({}, key=len)"),
    ("the longest of {}", "max({}, key=len)"),
    ("the shortest of {}", "min({}, key=len)"),
    ("{} [joined by|with] a [hyphen|dash] between them", '"-".join({})'),
    ("{} as one text with commas", '", ".join({})'),
    ("the first letters of {}", "[w[0] for w in {}]"),
    ("the lengths of {}", "[len(w) for w in {}]"),
    ("the lengths of {} by name", "{w: len(w) for w in {}}"),
    ("{} in [capitals|capital letters]", "[w.upper() for w in {}]"),
    ("{} backwards", "{}[::-1]"),
    ("[a numbered list of|number] {}", "list(enumerate({}, 1))"),
    ("all pairs of {}", "from itertools import combinations\nlist(combinations({}, 2))"),
    ("[which of {} have|those of {} with] more than # letters", "[w for w in {} if len(w) > #]"),
    ("how many of {} there are", "len({})"),
)


def _of_names(draw: Draw) -> Program:
    called, count = draw.chance(0.5), draw.rng.randint(2, 5)
    drawn = [draw.pick(names(Split.TRAIN)) if called else spans.word(draw) for _ in range(count)]
    words, code = draw.pick(_NAMED)
    number = str(draw.rng.randint(3, 7))
    said = draw.pick((", ".join(drawn), " and ".join(", ".join(drawn).rsplit(", ", 1))))
    listed = ", ".join(f'"{one}"' for one in drawn)
    code = code.replace("#", number).replace("{}", f"[{listed}]")
    return worded(draw, words).replace("#", number).replace("{}", said), code


# Dates.

_FROM = "from datetime import date, timedelta\n"
_DATES = (
    ("the date # days [after|from] {d}", "str({D} + timedelta(days=#))"),
    ("# days after {d}", "str({D} + timedelta(days=#))"),
    ("the [day|date] # days before {d}", "str({D} - timedelta(days=#))"),
    ("the date # weeks after {d}", "str({D} + timedelta(weeks=#))"),
    ("{d} plus # days", "str({D} + timedelta(days=#))"),
    ("the weekday of {d}", '{D}.strftime("%A")'),
    ("[which weekday|what day of the week] {d} [is|was]", '{D}.strftime("%A")'),
    ("the weekday # days after {d}", '({D} + timedelta(days=#)).strftime("%A")'),
    ("the number of days [between {d} and {e}|from {d} to {e}]", "({E} - {D}).days"),
    ("how many days [lie between {d} and {e}|there are from {d} to {e}]", "({E} - {D}).days"),
    ("the weeks from {d} to {e}", "({E} - {D}).days // 7"),
    ("the day of the year of {d}", '{D}.strftime("%j")'),
    ("the [calendar week|number of the week] of {d}", "{D}.isocalendar()[1]"),
    ("the month of {d} in words", '{D}.strftime("%B")'),
    ("{d} as [day.month.year|day, month and year]", '{D}.strftime("%d.%m.%Y")'),
    ("whether {y} is a leap year", "import calendar\ncalendar.isleap({y})"),
    ("[is {y}|was {y}] a leap year", "import calendar\ncalendar.isleap({y})"),
    ("the leap years from {y} to {z}",
     "import calendar\n[n for n in range({y}, {z} + 1) if calendar.isleap(n)]"),
    ("how many leap years there are from {y} to {z}",
     "import calendar\nsum(calendar.isleap(n) for n in range({y}, {z} + 1))"),
)  # fmt: skip


def _of_date(draw: Draw) -> Program:
    words, code = draw.pick(_DATES)
    rng = draw.rng
    year = rng.randint(1950, 2035)
    later = year + rng.randint(1, 30)
    first, last = (f"{y}-{rng.randint(1, 12):02}-{rng.randint(1, 28):02}" for y in (year, year + 1))
    count = str(rng.randint(2, draw.pick((9, 99, 365))))
    marks = {"{d}": first, "{e}": last, "{y}": str(year), "{z}": str(later), "#": count}
    words = worded(draw, words)
    code = code.replace("{D}", f'date.fromisoformat("{first}")')
    code = code.replace("{E}", f'date.fromisoformat("{last}")')
    for mark, text in marks.items():
        words, code = words.replace(mark, text), code.replace(mark, text)
    return words, code if code.startswith("import") else f"{_FROM}{code}"


# Formulas of daily life and of school.

_FORMULAS = (
    ("{a} [rounded|] to # digits", "round({a}, #)"),
    ("{a} divided by {b}, rounded to # digits", "round({a} / {b}, #)"),
    ("{a} plus # percent", "{a} * (100 + #) / 100"),
    ("{a} [minus|less] # percent", "{a} * (100 - #) / 100"),
    ("{a} at # percent [for|over] {k} years", "round({a} * (1 + # / 100) ** {k}, 2)"),
    (
        "what {a} [grows|adds up] to in {k} years at # percent",
        "round({a} * (1 + # / 100) ** {k}, 2)",
    ),
    (
        "the area of a circle with [a |]radius [of |]{k}",
        "import math\nround(math.pi * {k} ** 2, 2)",
    ),
    ("the circumference of a circle with radius {k}", "import math\nround(2 * math.pi * {k}, 2)"),
    ("the hypotenuse of {k} and #", "import math\nmath.hypot({k}, #)"),
    ("the remainder of {a} by {k}", "{a} % {k}"),
    ("{a} in [base|the base] 8", "oct({a})"),
    ("the [sum of the digits|digit sum] of {a}", "sum(int(d) for d in str({a}))"),
    ("the number of digits of {a}", "len(str({a}))"),
    ("the digits of {a} backwards", "int(str({a})[::-1])"),
    ("how many ways there are to [choose|pick|take] # of {m}", "import math\nmath.comb({m}, #)"),
    ("{m} choose #", "import math\nmath.comb({m}, #)"),
    ("the greatest common divisor of {a} and {b}", "import math\nmath.gcd({a}, {b})"),
    ("{k} degrees Celsius in Fahrenheit", "{k} * 9 / 5 + 32"),
    ("{a} minutes in hours and minutes", "divmod({a}, 60)"),
    ("the [natural |]logarithm of {a}", "import math\nround(math.log({a}), 4)"),
    ("the sine of {k} degrees", "import math\nround(math.sin(math.radians({k})), 4)"),
    ("{a} to binary", "bin({a})"),
    ("whether {a} is divisible by {k}", "{a} % {k} == 0"),
    ("the larger [one |]of {a} and {b}", "max({a}, {b})"),
    ("{a} shared by {k} people", "{a} / {k}"),
    ("x with {k}x + # = {a}", "({a} - #) / {k}"),
    ("the absolute value of -{a}", "abs(-{a})"),
)


def _formula(draw: Draw) -> Program:
    words, code = draw.pick(_FORMULAS)
    rng = draw.rng
    marks = {
        "{a}": str(rng.randint(2, draw.pick((99, 999, 9999)))),
        "{b}": str(rng.randint(2, 999)),
        "{k}": str(rng.randint(2, draw.pick((12, 40)))),
        "{m}": str(rng.randint(9, 30)),
        "#": str(rng.randint(2, 8)),
    }
    words = worded(draw, words)
    for mark, text in marks.items():
        words, code = words.replace(mark, text), code.replace(mark, text)
    return words, code
