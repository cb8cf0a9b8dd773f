"""Lists of numbers and rows of numbers, and how people write them, for training."""

from demo.skills.case import Draw

_BETWEEN = (", ", ", ", ", ", ",", ",", " ", "; ", " / ", "/", " and ", "\n", " | ", " - ", ";")
_AROUND = (("", ""),) * 6 + (("[", "]"), ("(", ")"), ("{", "}"), ("<", ">"))
_ROWS = (
    ("(", ", ", ")"),
    ("(", ",", ")"),
    ("[", ",", "]"),
    ("[", ", ", "]"),
    ("{", ", ", "}"),
    ("", ",", ""),
    ("", " ", ""),
    ("", "/", ""),
    ("", "; ", ""),
    ("", "\t", ""),
)
_TWO = (
    "{}:{}",
    "{}: {}",
    "{} -> {}",
    "{}|{}",
    "x={} y={}",
    "x {}, y {}",
    "{} at {}",
    "{} = {}",
    "{} x {}",
)

Number = int | float


def number(draw: Draw, *, whole: bool, size: int) -> Number:
    """A number of about a size; at times below zero or, unless `whole`, with a fraction."""
    rng = draw.rng
    value: Number = rng.randint(0, size)
    if not whole:
        value = round(value + rng.randint(1, 99) / rng.choice((10, 100)), 2)
    return -value if draw.chance(0.06) else value


def values(draw: Draw, count: int, *, whole: bool) -> list[Number]:
    """Numbers of one size, with fractions in all of them or in none."""
    size = draw.pick((9, 20, 99, 99, 500, 999, 9999, 120000))
    whole = whole or draw.chance(0.7)
    made = [number(draw, whole=whole, size=size) for _ in range(count)]
    return sorted(made) if draw.chance(0.15) else made


def numbers(draw: Draw, *, whole: bool) -> tuple[list[Number], str]:
    """A list of numbers, and how a person writes it."""
    made = values(draw, draw.pick((1, 2, 3, 3, 4, 4, 5, 5, 6, 7, 8, 10, 12)), whole=whole)
    return made, listed(draw, made)


def listed(draw: Draw, made: list[Number]) -> str:
    """The numbers with something between them."""
    texts = [str(value) for value in made]
    between = draw.pick(_BETWEEN)
    if between == ", " and len(made) > 1 and draw.chance(0.35):
        last = draw.pick((" and ", ", and ", " & ", " or ", " then "))
        return ", ".join(texts[:-1]) + last + texts[-1]
    if draw.chance(0.08):
        unit = draw.pick(("%", " kg", " km", "°", " dollars", "€", "ms", " people", "h", "g"))
        return between.join(text + unit for text in texts)
    before, after = draw.pick(_AROUND) if between[0] in ",;" else ("", "")
    return f"{before}{between.join(texts)}{after}"


def rows(draw: Draw) -> tuple[list[list[Number]], str]:
    """Rows of numbers, mostly pairs, and how a person writes them.

    A plain list stands for pairs, too: each number has its place, from 1, before it.
    """
    whole = draw.chance(0.8)
    width = draw.pick((2, 2, 2, 2, 2, 3, 3, 4))
    count = draw.pick((1, 2, 2, 3, 3, 4, 4, 5, 6))
    if draw.chance(0.2):
        plain = values(draw, count + 1, whole=whole)
        return [[place, value] for place, value in enumerate(plain, 1)], listed(draw, plain)
    made = [values(draw, width, whole=whole) for _ in range(count)]
    if width == 2 and draw.chance(0.3):
        for place, row in enumerate(made):
            row[0] = place + 1
    if width == 2 and draw.chance(0.4):
        form = draw.pick(_TWO)
        between = draw.pick((", ", "; ", "\n", " and ") if "," not in form else ("; ", "\n"))
        return made, between.join(form.format(*row) for row in made)
    before, inner, after = draw.pick(_ROWS)
    texts = [f"{before}{inner.join(map(str, row))}{after}" for row in made]
    if not after:
        return made, draw.pick(("\n", "; ") if inner != "; " else ("\n", " | ")).join(texts)
    text = draw.pick((", ", ",", " ", " and ", "; ", "\n")).join(texts)
    return made, f"[{text}]" if after == "]" and draw.chance(0.6) else text
