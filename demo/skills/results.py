"""What functions return, and the sentence in which the answer quotes it."""

import json
from dataclasses import dataclass

from demo.skills.case import Draw
from demo.skills.forms import compact, draw_fields, fill
from demo.skills.words import text_value


@dataclass(frozen=True, slots=True)
class Outcome:
    """A tool message's text and the answer that quotes it."""

    text: str
    answer: str


def draw_outcome(draw: Draw) -> Outcome:
    """A result: an object of one to three values, a plain text, a number, or an error."""
    roll = draw.rng.random()
    if roll < 0.5:
        count = draw.pick((1, 1, 2, 2, 3))
        filled = [fill(draw, field) for field in draw_fields(draw, count)]
        values = {f.field.name: f.value for f in filled}
        texts = [
            f"{f.field.words} is {f.value if isinstance(f.value, str) else compact(f.value)}"
            for f in filled
        ]
        text = compact(values) if draw.chance(0.6) else json.dumps(values, ensure_ascii=False)
        return Outcome(text, "The " + ", ".join(texts) + ".")
    if roll < 0.75:
        value = text_value(draw.rng, draw.split)
        return Outcome(draw.pick((value, f"{value}.", compact(value))), f"The result is {value}.")
    if roll < 0.87:
        number = str(draw.rng.randint(0, 9999))
        return Outcome(number, f"The result is {number}.")
    problem = text_value(draw.rng, draw.split)
    text = draw.pick((compact({"error": problem}), f"Error: {problem}"))
    return Outcome(text, f"The tool failed: {problem}.")
