"""Sums, worked digit by digit in the reasoning, so that no step needs more than a small table."""

from demo.skills.case import Case, Draw, Thought, answer, developer, system, user

_PLUS = ("+", "+", " + ", " + ", " plus ")
_MINUS = ("-", "-", " - ", " - ", " minus ")
_TIMES = ("*", " * ", " x ", " times ", " \N{MULTIPLICATION SIGN} ")
_ASK = (
    "{}",
    "{}?",
    "{} = ?",
    "What is {}?",
    "what is {}",
    "What's {}?",
    "How much is {}?",
    "how much is {}",
    "Calculate {}.",
    "Compute {}",
    "Please calculate {}",
    "Can you work out {}?",
    "Solve {}",
    "Tell me {}",
    "I need {}",
)


def _plus(a: int, b: int) -> str:
    ones = a % 10 + b % 10
    steps = f"{a % 10}+{b % 10}={ones}"
    if a < 10 and b < 10:
        return steps
    carry = ones // 10
    tens = f"{a // 10}+{b // 10}"
    tail = f"+{carry}" if carry else ""
    return f"{steps}, {tens}{tail}={a // 10 + b // 10 + carry}"


def _minus(a: int, b: int) -> str:
    if a < b:
        return f"{b}-{a}: {_minus(b, a)}, so {b - a}, turned round"
    if a < 10:
        return f"{a}-{b}={a - b}"
    ones, borrow = a % 10 - b % 10, 0
    if ones < 0:
        ones, borrow = ones + 10, 1
    steps = f"{a % 10 + 10 * borrow}-{b % 10}={ones}"
    tail = "-1" if borrow else ""
    return f"{steps}, {a // 10}-{b // 10}{tail}={a // 10 - b // 10 - borrow}"


def draw_sum(draw: Draw) -> tuple[str, str, int]:
    """Question, working and value of a sum."""
    rng = draw.rng
    kind = draw.pick("++--*")
    if kind == "*":
        a, b = rng.randint(0, 9), rng.randint(0, 9)
        return f"{a}{draw.pick(_TIMES)}{b}", f"{a}*{b}={a * b}", a * b
    top = draw.pick((9, 99, 99, 99, 99))
    a, b = rng.randint(0, top), rng.randint(0, 99)
    if kind == "+":
        return f"{a}{draw.pick(_PLUS)}{b}", _plus(a, b), a + b
    if a < b and draw.chance(0.7):
        a, b = b, a
    return f"{a}{draw.pick(_MINUS)}{b}", _minus(a, b), a - b


def case(draw: Draw) -> Case:
    """A question for one sum."""
    question, working, value = draw_sum(draw)
    text = draw.pick(_ASK).format(question)
    medium = (
        f"The user asks for a sum. I work it out digit by digit, first the ones and then the "
        f"tens: {working}. That makes {value}. So I answer with the number {value} alone."
    )
    high = (
        f"1. The user asks for a sum. 2. I work it out digit by digit, first the ones and then "
        f"the tens: {working}. 3. That makes {value}. 4. I go through it once more, slowly, since "
        f"a small slip is easy to make: {working}. 5. It is {value} again, the same as before, so "
        f"I am sure enough. 6. No tool is needed for this, and there is nothing else in the "
        f"request. 7. The answer is the number {value} alone."
    )
    low = f"{working}, {value}"
    start = system(draw)
    instructions = draw.pick((None, None, None, "You are a helpful assistant."))
    history = (start, *developer(instructions), user(text))
    return Case("sums", history, (answer(draw, Thought(low, medium, high), f"{value}"),))
